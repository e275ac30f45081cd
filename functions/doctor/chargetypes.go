package doctor

import (
	_ "embed"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed chargetypes.md
var chargesDoc string

// charges looks for CLBs whose charge type will fail their Services.
var charges = &doctor.Check{
	ID:       "charge-types",
	Doc:      chargesDoc,
	Needs:    []doctor.Part{doctor.Services, doctor.Controller, doctor.Policy},
	Uses:     []doctor.Part{doctor.CLBs, doctor.Detail},
	Manifest: true,
	Find:     findCharges,
	Fix:      &doctor.Fix{Steps: []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}}, Annotations: []string{chargeType, spec}, Plan: fixCharges},
}

// Short names of the annotations that say how a CLB pays, and how large it is if it
// pays by that, and what they can say.
const (
	chargeType = "instance-charge-type"
	spec       = "spec"
	byLCU      = "PayByCLCU"
	bySpec     = "PayBySpec"
)

// chooses is the first release of the controller that reads the charge type, and
// chargesByLCU the first that asks for PayByCLCU by itself, where there is no spec.
// Those before mutes ask for a spec whatever the charge type
// (pkg/controller/service/clbv1/loadbalancer.go).
var (
	chooses      = ccm.Version{Major: 2, Minor: 4}
	mutes        = ccm.Version{Major: 2, Minor: 8}
	chargesByLCU = ccm.Version{Major: 2, Minor: 12, Patch: 1}
)

func findCharges(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if ccm.NLB(svc) {
			continue // there is one kind of them
		}
		about := doctor.OfService(svc)
		if id, _ := ccm.Annotation(svc, "id"); svc.UID == "" && id == "" {
			unborn(s, r, svc)
			continue
		}
		b, err := s.Balancer(svc)
		switch {
		case err != nil:
			r.Unknown(about, err)
		case b == nil && !synced(svc):
			if id, _ := ccm.Annotation(svc, "id"); id == "" {
				unborn(s, r, svc)
			}
		case b != nil && b.CLB != nil:
			conflicting(s, r, svc, b)
			shared(s, r, svc, b)
			bought(s, r, svc, b)
		}
	}
}

// unborn reports on a Service whose CLB is still to be made: of a kind that is sold.
func unborn(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service) {
	about, v := doctor.OfService(svc), s.Controller.Version
	if v == (ccm.Version{}) {
		r.Unknown(about, errNoVersion)
		return
	}
	want, _ := ccm.Annotation(svc, chargeType)
	size, sized := ccm.Annotation(svc, spec)
	if want == byLCU && sized && !v.Before(chooses) && v.Before(mutes) {
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "charge-type-conflict",
			Evidence: map[string]string{"CCM": v.String(), spec: ccm.Quote(size)},
			Text:     say.F("The Service is to get a CLB that pays by LCU, and its annotation %s is %s: CCM %s asks for that all the same, and no way leads there (charge-type-conflict).", spec, ccm.Quote(size), v),
			Do:       say.F("Take it away: %s.", ccm.RemoveCommand(svc, spec))})
	}
	if why := unsold(s, svc); why != "" {
		r.Add(doctor.Finding{Severity: doctor.Warning, About: about, Key: "shared-instance-discontinued",
			Evidence: map[string]string{"CCM": v.String(), chargeType: want, spec: size},
			Text:     say.F("The Service has no CLB yet and asks for a kind that Alibaba Cloud no longer sells: %s (shared-instance-discontinued).", why),
			Do:       say.Literal(sold(s, svc))})
	}
}

// unsold says by what a new CLB of the Service would be of a kind that is no longer sold;
// empty: it would not. It needs the version of the controller.
func unsold(s *doctor.Snapshot, svc *corev1.Service) string {
	v := s.Controller.Version
	want, asked := ccm.Annotation(svc, chargeType)
	size, sized := ccm.Annotation(svc, spec)
	switch {
	case s.Policy.PayBySpec && (want == "" || want == bySpec) && (sized || !v.Before(chooses)):
		return "" // it is still sold to this account; without a size the controller asks for the smallest
	case v.Before(chooses):
		return fmt.Sprintf("CCM %s can ask for no other kind", v)
	case want == byLCU, !asked && !sized && !v.Before(chargesByLCU):
		return ""
	case asked:
		return fmt.Sprintf("its annotation %s is %s", chargeType, ccm.Quote(want))
	case sized:
		return fmt.Sprintf("its annotation %s is %s, which only a CLB by spec has", spec, ccm.Quote(size))
	}
	return fmt.Sprintf("it names no charge type, and CCM %s then asks for one by spec", v)
}

// sold says how a new CLB of the Service would be of a kind that is sold.
func sold(s *doctor.Snapshot, svc *corev1.Service) string {
	if s.Controller.Version.Before(chooses) {
		return fmt.Sprintf("Upgrade the add-on cloud-controller-manager to %s or later, which makes CLBs that pay by LCU.", chargesByLCU)
	}
	do := fmt.Sprintf("Have it pay by LCU, which costs by what it carries: %s.", ccm.SetCommand(svc, chargeType, byLCU))
	if _, sized := ccm.Annotation(svc, spec); sized {
		do += " And take the spec away: " + ccm.RemoveCommand(svc, spec) + "."
	}
	return do
}

// bought reports a CLB by spec that could not be made again as its Service asks.
func bought(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	if id, _ := ccm.Annotation(svc, "id"); id != "" || !b.ByController() || b.CLB.ChargeType != bySpec || b.CLB.Spec == "" {
		return // its owner makes it, or it is of another kind
	}
	v := s.Controller.Version
	if v == (ccm.Version{}) {
		r.Unknown(doctor.OfService(svc), errNoVersion)
		return
	}
	do := fmt.Sprintf("In the manifest by which it is created again, or copied, ask for %s: %s, and for no %s. Leave the Service as it is: on the CLB that is there it interrupts the traffic for 10 to 30 seconds to pay otherwise, and there is no way back.", chargeType, byLCU, spec)
	if v.Before(chooses) {
		do = fmt.Sprintf("Before it is created again, upgrade the add-on cloud-controller-manager to %s or later.", chargesByLCU)
	}
	if why := unsold(s, svc); why != "" {
		r.Add(doctor.Finding{Severity: doctor.Info, About: doctor.OfService(svc), Key: "again",
			Evidence: map[string]string{"CCM": v.String(), "load balancer": b.ID, "spec of the CLB": b.CLB.Spec},
			Text:     say.F("The CLB %s pays by spec and works on, but could not be made again for the Service, because %s, and that kind is no longer sold (shared-instance-discontinued).", b.ID, why),
			Do:       say.Literal(do)})
	}
}

// conflicting reports wishes that a CLB which pays by LCU can't follow.
func conflicting(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	if b.CLB.ChargeType != byLCU {
		return
	}
	v := s.Controller.Version
	var wishes, ways []string
	if want, _ := ccm.Annotation(svc, chargeType); want != "" && want != byLCU {
		wishes = append(wishes, chargeType+" "+ccm.Quote(want))
		ways = append(ways, ccm.SetCommand(svc, chargeType, byLCU))
	}
	size, _ := ccm.Annotation(svc, spec)
	if size != "" && v == (ccm.Version{}) {
		r.Unknown(doctor.OfService(svc), errNoVersion)
	}
	if size != "" && (len(wishes) > 0 || v != (ccm.Version{}) && v.Before(mutes)) {
		wishes = append(wishes, spec+" "+ccm.Quote(size))
		ways = append(ways, ccm.RemoveCommand(svc, spec))
	}
	if len(wishes) == 0 {
		return
	}
	r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "charge-type-conflict",
		Evidence: map[string]string{"load balancer": b.ID, "charge type": b.CLB.ChargeType},
		Text:     say.F("The CLB %s pays by LCU, and the annotations ask for %s: no way leads there, and the next full sync fails (charge-type-conflict).", b.ID, strings.Join(wishes, " and ")),
		Do:       say.F("Take the wish back, which changes nothing on the CLB: %s.", strings.Join(ways, "; "))})
}

// shared reports what a shared-resource CLB can't do for its Service.
func shared(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer) {
	about := doctor.OfService(svc)
	if b.CLB.Spec != "" || b.CLB.ChargeType == byLCU {
		return
	}
	if b.CLB.ChargeType == "" {
		r.Unknown(about, fmt.Errorf("how the CLB %s pays, which the API does not say", b.ID))
		return
	}
	evidence := map[string]string{"load balancer": b.ID, "charge type": b.CLB.ChargeType, "pays": b.CLB.PayType}
	way := fmt.Sprintf("To pay by LCU interrupts its traffic for 10 to 30 seconds, and there is no way back: %s, with CCM %s or later.", ccm.SetCommand(svc, chargeType, byLCU), chooses)
	if id, _ := ccm.Annotation(svc, "id"); id != "" || !b.ByController() {
		way = fmt.Sprintf("Ask those who use it: to pay by LCU interrupts its traffic for 10 to 30 seconds, and there is no way back: aliyun slb ModifyLoadBalancerInstanceChargeType --RegionId %s --LoadBalancerId %s --InstanceChargeType %s.", s.Region, b.ID, byLCU)
	}
	if err := s.Err(doctor.Detail); err != nil {
		r.Unknown(about, err)
		return
	}
	if s.Mode(svc) == ccm.PodMode {
		r.Add(doctor.Finding{Severity: doctor.Critical, About: about, Key: "eni-unsupported", Evidence: evidence,
			Text: say.F("The CLB %s is a shared-resource instance, which takes no network interfaces, and Pods are the backends of the Service: the sync of a new Pod fails (eni-unsupported).", b.ID),
			Do:   say.F("%s Or have nodes as the backends: kubectl -n %s annotate service %s %s=ecs --overwrite.", way, svc.Namespace, svc.Name, ccm.BackendType)})
		return
	}
	evidence["CCM"] = s.Controller.Version.String()
	text := fmt.Sprintf("The CLB %s is a shared-resource instance, which is no longer sold and takes no network interfaces: backend-type eni would fail (eni-unsupported)", b.ID)
	severity := doctor.Info
	if v := s.Controller.Version; v != (ccm.Version{}) && v.Before(chooses) {
		severity = doctor.Warning
		text += fmt.Sprintf(", and with CCM %s the Service could not be made again (shared-instance-discontinued)", v)
		way += fmt.Sprintf(" Before the Service is made again, upgrade the controller to %s or later.", chargesByLCU)
	}
	r.Add(doctor.Finding{Severity: severity, About: about, Key: "shared", Evidence: evidence, Text: say.F("%s.", text), Do: say.Literal(way)})
}

// fixCharges takes wishes back that a CLB by LCU can't follow, and has one that is still
// to be made pay by LCU.
func fixCharges(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	var edits []step.Edit
	var text, ask say.Text
	risk := remedy.Low
	for _, f := range found {
		byItself := f.Key == "charge-type-conflict" || f.Key == "shared-instance-discontinued" && !s.Controller.Version.Before(chooses)
		if !byItself {
			ask = ask.Then(f.Text).Then(f.Do)
			continue
		}
		text = text.Then(f.Text)
		if _, sized := ccm.Annotation(svc, spec); sized {
			edits = append(edits, step.Without(svc, spec))
		}
		want, asked := ccm.Annotation(svc, chargeType)
		if f.Key == "shared-instance-discontinued" {
			risk, asked = remedy.Medium, true // it costs otherwise
		}
		if asked && want != byLCU {
			edits = append(edits, step.With(svc, chargeType, byLCU))
		}
	}
	if len(edits) == 0 {
		return remedy.Plan{Finding: say.F("Only a person can change the charge type of the load balancer."), Ask: ask}
	}
	return remedy.Plan{Finding: text, Risk: risk, Steps: []remedy.Step{step.Together(edits...)}, Ask: ask}
}
