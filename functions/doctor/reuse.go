package doctor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// reuse checks whether the load balancers that Services name can be reused.
var reuse = &doctor.Check{
	ID:       "reuse",
	Doc:      page("reuse"),
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups, doctor.Backends, doctor.Detail, doctor.Controller},
	Manifest: true,
	Find:     findReuse,
	Fix: &doctor.Fix{
		Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
		Annotations: []string{"id", "address-type"},
		Plan:        fixReuse,
	},
}

// reuses is the first release for which the FAQ says that reuse works, v1.9.3.105-gfd4e547.
var reuses = ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 105}

// asks is the first release that checks whether a Service has the address of another load balancer than the one it names.
var asks = ccm.Version{Major: 2}

const apiServerPort = 6443

func findReuse(s *doctor.Snapshot, r *doctor.Report) {
	sharing := map[string][]*corev1.Service{} // Services by the load balancer they name
	for _, svc := range s.OfType() {
		if id, _ := ccm.Annotation(svc, "id"); id != "" {
			sharing[id] = append(sharing[id], svc)
		}
	}
	for _, id := range sorted(sharing) {
		contested(r, id, sharing[id])
		for _, svc := range sharing[id] {
			l := reuseLook{s, r, svc, id}
			l.controller()
			if svc.UID == "" && s.Others != nil {
				r.Unknown(about(svc), say.Errorf("which other Services use %s: %w", ccm.Quote(id), s.Others))
			}
			b, err := s.Balancer(svc)
			if err != nil {
				r.Unknown(about(svc), say.Errorf("whether it can use %s: %w", ccm.Quote(id), err))
			} else if b != nil {
				l.balancer(b)
			} else if svc.UID == "" { // another check reports it for a Service in the cluster
				l.nowhere()
			}
		}
	}
}

type reuseLook struct {
	*doctor.Snapshot
	report *doctor.Report
	svc    *corev1.Service
	id     string
}

func (l *reuseLook) add(severity doctor.Severity, key string, text, do say.Text) {
	l.report.Add(doctor.Finding{Severity: severity, About: about(l.svc), Key: key, Text: text, Do: do, Evidence: map[string]string{"load balancer": l.id}})
}

// failing is critical for a Service that never had an address: its syncs fail now. Others fail with the next full sync, a manifest when applied.
func (l *reuseLook) failing() doctor.Severity {
	if ccm.Synced(l.svc) || l.svc.UID == "" {
		return doctor.Warning
	}
	return doctor.Critical
}

func (l *reuseLook) controller() {
	v, err := versionOf(l.Snapshot)
	switch {
	case err != nil:
		l.report.Unknown(about(l.svc), say.Errorf("whether the controller can reuse a load balancer: %w", err))
	case v.Before(reuses):
		l.add(doctor.Warning, "controller", say.F("The Service reuses %s, which needs CCM %s or newer. CCM %s is running.", ccm.Quote(l.id), reuses, v),
			say.F("Upgrade the controller to %s or newer.", reuses))
	}
}

func (l *reuseLook) nowhere() {
	if err := l.Err(doctor.CLBs, doctor.NLBs); err != nil {
		l.report.Unknown(about(l.svc), say.Errorf("whether %s exists: %w", ccm.Quote(l.id), err))
		return
	}
	l.add(doctor.Warning, "gone",
		say.F("The Service names %s, but no load balancer of %s has this ID (%s listed).", ccm.Quote(l.id), l.Region, say.Count(len(l.List()), "load balancer")),
		say.F("Name an existing one in the annotation %s, or remove the annotation.", ccm.AnnotationKey(l.svc, "id")))
}

func (l *reuseLook) balancer(b *doctor.LoadBalancer) {
	if (b.NLB != nil) != ccm.NLB(l.svc) {
		return // the check kind reports it
	}
	l.existing(b)
	l.bound(b)
	if b.CLB == nil {
		return // an NLB can be in another VPC, and its address type can be changed
	}
	if want, _ := ccm.Annotation(l.svc, "address-type"); want != "" && want != b.AddressType {
		l.add(l.failing(), "address-type",
			say.F("The Service asks for the address type %s, but %s has the type %s: its next full sync fails.", ccm.Quote(want), b.ID, b.AddressType),
			say.F("Set the type that it has: %s. Or name another load balancer: %s.", setTo(l.svc, "address-type", b.AddressType), set(l.svc, "id")))
	}
	l.vpc(b)
}

func (l *reuseLook) existing(b *doctor.LoadBalancer) {
	err := cmp.Or(l.Err(doctor.Listeners), b.Err(doctor.Listeners))
	var listeners []ccm.Listener
	if err == nil {
		listeners, err = listenersOf(b)
	}
	if b.ByController() || l.apiServer(b) {
		l.marked(b, listeners)
	}
	if err != nil {
		l.report.Unknown(about(l.svc), err)
	} else {
		l.listeners(b, listeners)
	}
	if b.CLB == nil {
		return
	}
	if err := cmp.Or(l.Err(doctor.Groups), b.Err(doctor.Groups)); err != nil {
		l.report.Unknown(about(l.svc), err)
		return
	}
	var names []string
	for _, g := range b.Groups {
		names = append(names, g.Name)
	}
	l.namesakes(b, names)
}

// vpc reports a CLB outside the cluster's VPC. The backends of a public CLB, which has no VPC, decide.
func (l *reuseLook) vpc(b *doctor.LoadBalancer) {
	err := l.Err(doctor.Detail)
	if b.VPC == "" && err == nil {
		err = cmp.Or(l.Err(doctor.Groups, doctor.Backends), b.Err(doctor.Groups))
	}
	if err != nil {
		l.report.Unknown(about(l.svc), say.Errorf("whether %s is in the cluster's VPC: %w", b.ID, err))
		return
	}
	if b.VPC != "" && b.VPC != l.Detail.VPC {
		l.add(l.failing(), "vpc", say.F("%s is in the VPC %s, but the cluster is in %s: it cannot use the cluster's backends.", b.ID, b.VPC, l.Detail.VPC),
			say.F("Name a load balancer in the cluster's VPC: %s.", set(l.svc, "id")))
	}
	if b.VPC != "" {
		return
	}
	for _, g := range b.Groups {
		if g.Failed != nil {
			l.report.Unknown(about(l.svc), say.Errorf("in which VPC the backends of %s are: %w", b.ID, g.Failed))
			return
		}
		i := slices.IndexFunc(g.Backends, func(e cloud.Backend) bool { return e.VPC != "" && e.VPC != l.Detail.VPC })
		if i >= 0 {
			l.add(l.failing(), "vpc",
				say.F("%s has backends in the VPC %s, such as %s, but the cluster is in %s.", b.ID, g.Backends[i].VPC, g.Backends[i].ID, l.Detail.VPC).
					And("All backends of a CLB must be in one VPC."),
				say.F("Name a load balancer without backends in another VPC: %s.", set(l.svc, "id")))
			return
		}
	}
}

// bound reports a Service with the address of another load balancer than it names. The controller checks this only for a Service with an
// address, and not behind its own host name or an EIP (pkg/controller/service/clbv1/model_applier.go, isLoadBalancerReusable).
func (l *reuseLook) bound(b *doctor.LoadBalancer) {
	if b.ByController() || ccm.HasAddress(l.svc, &b.Instance) || l.Err(doctor.Controller) != nil || l.Controller.Version.Before(asks) {
		return // the controller refuses it before this check, or does not check; controller reports an unknown release
	}
	l.add(doctor.Warning, "bound",
		say.F("The Service has the address %s but names %s, whose address is %s.", ccm.Address(l.svc), b.ID, b.Address).
			And("A Service never moves to another load balancer, so its next full sync fails."),
		say.F("Name the load balancer that has its address: %s.", set(l.svc, "id")).
			And("Or, if the controller created that one, remove the annotation: %s.", drop(l.svc, "id")).
			And("To move, delete the Service and create it again: its address changes."))
}

// apiServer compares addresses. If the API server's is unknown, only the tag shows it.
func (l *reuseLook) apiServer(b *doctor.LoadBalancer) bool {
	return l.Err(doctor.Detail) == nil && b.CLB != nil && b.Address != "" && b.Address == l.Detail.APIServer && (b.VPC == "" || b.VPC == l.Detail.VPC)
}

// marked reports a load balancer that a tag keeps the controller from reusing. Listeners are considered if known.
func (l *reuseLook) marked(b *doctor.LoadBalancer, listeners []ccm.Listener) {
	never := say.F("Never use it for a Service, and do not change its tags. Name another load balancer: %s.", set(l.svc, "id"))
	atPort := func(at ccm.Listener) bool { return at.Has(apiServerPort) }
	switch {
	case l.apiServer(b):
		l.add(doctor.Critical, "tags", say.F("%s is the load balancer of the API server: it has its address %s.", b.ID, b.Address), never)
		return
	case b.Tags[ccm.ClusterTag] != "" && slices.ContainsFunc(listeners, atPort):
		l.add(doctor.Critical, "tags",
			say.F("%s is the load balancer of an API server: it has the tag %s and a listener on port %d.", b.ID, ccm.ClusterTag, apiServerPort).
				And("The controller does not reuse it."), never)
		return
	case b.Tags[ccm.NameTag] == ccm.DefaultName(l.svc):
		do := say.F("Remove the annotation: %s.", drop(l.svc, "id"))
		text := say.F("The Service names %s. The controller created this load balancer and therefore does not reuse it: the next full sync fails.", b.ID)
		if why := unproven(l.Snapshot, l.svc, b); len(why) > 0 {
			do = say.F("If the controller created %s for this Service, remove the annotation: %s.", b.ID, drop(l.svc, "id"))
			text = say.F("The Service names %s, which has the tag %s and is therefore not reused: the next full sync fails.", b.ID, ccm.NameTag).Then(why)
		}
		l.add(l.failing(), "tags", text, do.And("The controller then continues with it, and deletes it with the Service."))
		return
	}
	var keys []string
	for _, key := range []string{ccm.NameTag, ccm.ClusterTag} {
		if _, ok := b.Tags[key]; ok {
			keys = append(keys, key)
		}
	}
	l.add(l.failing(), "tags",
		say.F("The Service names %s, which has a tag of the controller (%s) and is therefore not reused: the next full sync fails.", b.ID, strings.Join(keys, ", ")),
		say.F("Name a load balancer that a person created: %s.", set(l.svc, "id")).
			And("Only if the Service that it was created for no longer exists, remove the tags: %s.", ccm.UntagCommand(l.svc, l.Region, b.ID, keys...)))
}

// fixReuse corrects a Service that already works: it need not name its own load balancer, and its address type becomes the actual one.
func fixReuse(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	var edits []step.Edit
	p := remedy.Plan{}
	b, err := s.Balancer(svc)
	up := err == nil && b != nil && ccm.Synced(svc) && ccm.HasAddress(svc, &b.Instance)
	for _, f := range found {
		switch {
		case up && f.Key == "tags" && unnamed(s, svc, b) && len(unproven(s, svc, b)) == 0:
			p.Risk = remedy.Medium
			p.Note = say.F("The controller deletes %s together with the Service. To keep it, annotate the Service first (CCM v2.10.0 or later): %s.",
				b.ID, ccm.PreserveCommand(svc))
			edits = append(edits, step.Without(svc, "id"))
		case up && f.Key == "address-type":
			edits = append(edits, step.With(svc, "address-type", b.AddressType))
		default:
			p.Ask = p.Ask.Then(f.Text).Then(f.Do)
			continue
		}
		p.Finding = p.Finding.Then(f.Text)
	}
	if len(edits) == 0 {
		p.Finding = say.F("Only a person can decide which load balancer the Service should use.")
		return p
	}
	p.Steps = []remedy.Step{step.Together(edits...)}
	return p
}

// unproven returns why a load balancer with the Service's name tag, which anybody can set, may belong to somebody else; nil if the controller
// of this cluster created it for the Service.
func unproven(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) say.Text {
	ours, why := traced(s, svc, b)
	if len(why) > 0 || b.Tags[ccm.ClusterTag] == s.Cluster || ours && b.ProtectionReason() == ccm.ManagedByACK {
		return why
	}
	return say.F("Anybody can set the name tag, and nothing else shows that the controller created the load balancer for this Service.")
}

// unnamed reports whether the controller finds this load balancer, and no other, without the annotation id.
func unnamed(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) bool {
	if b.Tags[ccm.NameTag] != ccm.DefaultName(svc) {
		return false
	}
	found, err := s.Balancer(withoutID(svc))
	return err == nil && found != nil && found.ID == b.ID
}
