package doctor

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// charges looks for CLBs whose billing makes a sync of their Services fail.
var charges = &doctor.Check{
	ID:       "charge-types",
	Doc:      page("charge-types"),
	Needs:    []doctor.Part{doctor.Services, doctor.Controller, doctor.Policy},
	Uses:     []doctor.Part{doctor.CLBs, doctor.Groups, doctor.Detail},
	Manifest: true,
	Find:     findCharges,
	Fix:      &doctor.Fix{Steps: []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}}, Annotations: []string{ccm.ChargeType, ccm.ChargeSpec}, Plan: fixCharges},
}

// mutes is the first release that ignores the spec of a Service with PayByCLCU (pkg/controller/service/clbv1/loadbalancer.go).
var mutes = ccm.Version{Major: 2, Minor: 8}

func findCharges(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if ccm.NLB(svc) {
			continue // NLBs have no charge type to choose
		}
		id, _ := ccm.Annotation(svc, "id")
		if svc.UID == "" && id == "" {
			unborn(s, r, svc)
			continue
		}
		b, err := s.Balancer(svc)
		switch {
		case err != nil:
			r.Unknown(about(svc), err)
		case b == nil && !synced(svc):
			if id == "" {
				unborn(s, r, svc)
			}
		case b != nil && b.CLB != nil:
			conflicting(s, r, svc, b)
			shared(s, r, svc, b)
			bought(s, r, svc, b)
		}
	}
}

func unborn(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	about, v := doctor.OfService(svc), s.Controller.Version
	if v == (ccm.Version{}) {
		r.Unknown(about, errNoVersion)
		return
	}
	want, _ := ccm.Annotation(svc, ccm.ChargeType)
	size, sized := ccm.Annotation(svc, ccm.ChargeSpec)
	if want == ccm.PayByLCU && sized && !v.Before(ccm.FirstChargeType()) && v.Before(mutes) {
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "charge-type-conflict",
			Evidence: map[string]string{"CCM": v.String(), ccm.ChargeSpec: ccm.Quote(size)},
			Text: say.F("The Service asks for a CLB that is billed by LCU, but its annotation %s is %s.", ccm.ChargeSpec, ccm.Quote(size)).
				And("CCM %s asks for this spec as well, which a CLB that is billed by LCU cannot have (charge-type-conflict).", v),
			Do: say.F("Remove the annotation: %s.", drop(svc, ccm.ChargeSpec))})
	}
	if why := unsold(s, svc); len(why) > 0 {
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "shared-instance-discontinued",
			Evidence: map[string]string{"CCM": v.String(), ccm.ChargeType: want, ccm.ChargeSpec: size},
			Text:     say.F("The Service has no CLB yet and asks for a kind that Alibaba Cloud no longer sells (shared-instance-discontinued).").Then(why),
			Do:       sold(s, svc)})
	}
}

// unsold explains why the Service would get a CLB of a discontinued kind. It needs the controller's version.
func unsold(s *doctor.Snapshot, svc *corev1.Service) say.Text {
	v := s.Controller.Version
	want, asked := ccm.Annotation(svc, ccm.ChargeType)
	size, sized := ccm.Annotation(svc, ccm.ChargeSpec)
	switch {
	case s.Policy.PayBySpec && (want == "" || want == ccm.PayBySpec) && (sized || !v.Before(ccm.FirstChargeType())):
		return nil // it is still sold to this account; without a size the controller asks for the smallest
	case v.Before(ccm.FirstChargeType()):
		return say.F("CCM %s cannot ask for any other kind.", v)
	case want == ccm.PayByLCU, !asked && !sized && !v.Before(ccm.FirstPayByLCU()):
		return nil
	case asked:
		return say.F("The annotation %s is %s.", ccm.ChargeType, ccm.Quote(want))
	case sized:
		return say.F("The annotation %s is %s, and only a CLB that is billed by spec has one.", ccm.ChargeSpec, ccm.Quote(size))
	}
	return say.F("The Service names no charge type, and CCM %s then asks for a CLB that is billed by spec.", v)
}

func sold(s *doctor.Snapshot, svc *corev1.Service) say.Text {
	if s.Controller.Version.Before(ccm.FirstChargeType()) {
		return say.F("Upgrade the add-on cloud-controller-manager to %s or newer, which creates CLBs that are billed by LCU.", ccm.FirstPayByLCU())
	}
	do := say.F("Ask for a CLB that is billed by LCU, which costs according to its traffic: %s.", setTo(svc, ccm.ChargeType, ccm.PayByLCU))
	if _, sized := ccm.Annotation(svc, ccm.ChargeSpec); sized {
		do = do.And("Remove the spec: %s.", drop(svc, ccm.ChargeSpec))
	}
	return do
}

// bought reports a CLB that is billed by spec and could not be created again as its Service asks.
func bought(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	if id, _ := ccm.Annotation(svc, "id"); id != "" || !b.ByController() || b.CLB.ChargeType != ccm.PayBySpec || b.CLB.Spec == "" {
		return // its owner creates it, or it is of another kind
	}
	v := s.Controller.Version
	if v == (ccm.Version{}) {
		r.Unknown(doctor.OfService(svc), errNoVersion)
		return
	}
	why := unsold(s, svc)
	if len(why) == 0 {
		return
	}
	do := say.F("In manifests that recreate or copy the Service, set %s to %s and omit %s.", ccm.ChargeType, ccm.PayByLCU, ccm.ChargeSpec).
		And("Do not change this Service: billing the existing CLB by LCU interrupts its traffic for 10 to 30 seconds and cannot be undone.")
	if v.Before(ccm.FirstChargeType()) {
		do = say.F("Before you recreate the Service, upgrade the add-on cloud-controller-manager to %s or newer.", ccm.FirstPayByLCU())
	}
	r.Add(doctor.Finding{Severity: doctor.Info, About: doctor.OfService(svc), Key: "again",
		Evidence: map[string]string{"CCM": v.String(), "load balancer": b.ID, "spec of the CLB": b.CLB.Spec},
		Text: say.F("The CLB %s is billed by spec and keeps working.", b.ID).
			And("But the controller could not create it again: that kind is no longer sold (shared-instance-discontinued).").Then(why),
		Do: do})
}

// conflicting reports annotations that a CLB billed by LCU cannot follow.
func conflicting(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	if b.CLB.ChargeType != ccm.PayByLCU {
		return
	}
	v := s.Controller.Version
	var asked []string
	var edits []say.Text
	if want, _ := ccm.Annotation(svc, ccm.ChargeType); want != "" && want != ccm.PayByLCU {
		asked = append(asked, ccm.ChargeType+"="+ccm.Quote(want))
		edits = append(edits, setTo(svc, ccm.ChargeType, ccm.PayByLCU))
	}
	size, _ := ccm.Annotation(svc, ccm.ChargeSpec)
	if size != "" && v == (ccm.Version{}) {
		r.Unknown(doctor.OfService(svc), errNoVersion)
	}
	if size != "" && (len(asked) > 0 || v != (ccm.Version{}) && v.Before(mutes)) {
		asked = append(asked, ccm.ChargeSpec+"="+ccm.Quote(size))
		edits = append(edits, drop(svc, ccm.ChargeSpec))
	}
	if len(asked) == 0 {
		return
	}
	r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "charge-type-conflict",
		Evidence: map[string]string{"load balancer": b.ID, "charge type": b.CLB.ChargeType},
		Text: say.F("The CLB %s is billed by LCU (%s). The annotations ask for %s.", b.ID, ccm.PayByLCU, strings.Join(asked, ", ")).
			And("A CLB cannot change from LCU back to a spec, and the next full sync fails (charge-type-conflict)."),
		Do: say.F("Stop asking for it, which changes nothing on the CLB: %s.", say.Clauses(edits, shown))})
}

func shared(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	about := doctor.OfService(svc)
	is, known := b.Shared()
	if !known {
		r.Unknown(about, say.Errorf("how the CLB %s is billed: the API does not say", b.ID))
		return
	}
	if !is {
		return
	}
	mode, err := s.ModeAt(svc, b)
	if err != nil {
		r.Unknown(about, err)
		return
	}
	f := doctor.Finding{Severity: doctor.Info, About: about, Key: "shared",
		Evidence: map[string]string{"load balancer": b.ID, "charge type": b.CLB.ChargeType, "pays": b.CLB.PayType}}
	f.Do = say.F("Bill the CLB by LCU, with CCM %s or newer: %s.", ccm.FirstChargeType(), setTo(svc, ccm.ChargeType, ccm.PayByLCU))
	if id, _ := ccm.Annotation(svc, "id"); id != "" || !b.ByController() {
		f.Do = say.F("Ask those who use the CLB, then bill it by LCU: %s.", ccm.ConvertCommand(s.Region, b.ID))
	}
	f.Do = f.Do.And("This interrupts its traffic for 10 to 30 seconds and cannot be undone.")
	if mode == ccm.PodMode {
		f.Severity, f.Key = doctor.Critical, "eni-unsupported"
		f.Text = say.F("The CLB %s is a shared-resource instance, which takes no network interfaces.", b.ID).
			And("The backends of the Service are Pods: the sync of a new Pod fails (eni-unsupported).")
		f.Do = f.Do.And("Or use nodes as backends: %s.", setTo(svc, ccm.BackendType, "ecs"))
		r.Add(f)
		return
	}
	v := s.Controller.Version
	f.Evidence["CCM"] = v.String()
	f.Text = say.F("The CLB %s is a shared-resource instance, which is no longer sold and takes no network interfaces.", b.ID).
		And("With backend-type eni the sync would fail (eni-unsupported).")
	if v != (ccm.Version{}) && v.Before(ccm.FirstChargeType()) {
		f.Severity = doctor.Warning
		f.Text = f.Text.And("CCM %s could not create a CLB for the Service again (shared-instance-discontinued).", v)
		f.Do = f.Do.And("Before you recreate the Service, upgrade the controller to %s or newer.", ccm.FirstPayByLCU())
	}
	r.Add(f)
}

// fixCharges makes the annotations fit a CLB that is billed by LCU; one that does not exist yet then is. No Service has both findings.
func fixCharges(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	var p remedy.Plan
	var ask say.Text
	for _, f := range found {
		switch {
		case f.Key == "charge-type-conflict":
			p = remedy.Plan{Finding: f.Text, Steps: []remedy.Step{step.Together(fits(svc)...)}}
		case f.Key == "shared-instance-discontinued" && !s.Controller.Version.Before(ccm.FirstChargeType()):
			p = step.ByLCU(svc, f.Text)
		default:
			ask = ask.Then(f.Text).Then(f.Do)
		}
	}
	if len(p.Steps) == 0 {
		p.Finding = say.F("Only a person can change how the load balancer is billed.")
	}
	p.Ask = ask
	return p
}

func fits(svc *corev1.Service) []step.Edit {
	var edits []step.Edit
	if _, sized := ccm.Annotation(svc, ccm.ChargeSpec); sized {
		edits = append(edits, step.Without(svc, ccm.ChargeSpec))
	}
	if want, asked := ccm.Annotation(svc, ccm.ChargeType); asked && want != ccm.PayByLCU {
		edits = append(edits, step.With(svc, ccm.ChargeType, ccm.PayByLCU))
	}
	return edits
}
