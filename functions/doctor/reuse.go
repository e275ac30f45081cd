package doctor

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/netip"
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

//go:embed reuse.md
var reuseDoc string

// reuse looks whether load balancers that Services name can be reused.
var reuse = &doctor.Check{
	ID:       "reuse",
	Doc:      reuseDoc,
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

// reuses is the first release whose reuse of load balancers the FAQ vouches for,
// v1.9.3.105-gfd4e547.
var reuses = ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 105}

// asks is the first release that asks whether a Service has the address of another load
// balancer than it names.
var asks = ccm.Version{Major: 2}

// apiServerPort is where the API server's load balancer listens.
const apiServerPort = 6443

func findReuse(s *doctor.Snapshot, r *doctor.Report) {
	sharing := map[string][]*corev1.Service{} // Services by the load balancer that they name
	for _, svc := range s.OfType() {
		if id, _ := ccm.Annotation(svc, "id"); id != "" {
			sharing[id] = append(sharing[id], svc)
		}
	}
	for _, id := range sorted(sharing) {
		for _, svc := range sharing[id] {
			l := reuseLook{s, r, svc, id}
			l.controller()
			l.ports(sharing[id])
			b, err := s.Balancer(svc)
			if err != nil {
				r.Unknown(about(svc), fmt.Errorf("whether it can use %s: %w", ccm.Quote(id), err))
			} else if b != nil {
				l.balancer(b)
			} else if svc.UID == "" { // that of a Service in the cluster is another check's
				l.nowhere()
			}
		}
	}
}

// A reuseLook is one Service that names its load balancer, being looked at.
type reuseLook struct {
	*doctor.Snapshot
	report *doctor.Report
	svc    *corev1.Service
	id     string
}

func (l *reuseLook) add(severity doctor.Severity, key, text, do string) {
	l.report.Add(doctor.Finding{Severity: severity, About: about(l.svc), Key: key, Text: say.Literal(text), Do: say.Literal(do), Evidence: map[string]string{"load balancer": l.id}})
}

// failing is critical for a Service that was never up: its syncs fail now. What is up
// fails with its next full sync, and a manifest when it is applied.
func (l *reuseLook) failing() doctor.Severity {
	if ccm.Synced(l.svc) || l.svc.UID == "" {
		return doctor.Warning
	}
	return doctor.Critical
}

func (l *reuseLook) controller() {
	err := l.Err(doctor.Controller)
	if err == nil && l.Controller.Version == (ccm.Version{}) {
		err = errNoVersion
	}
	switch v := l.Controller.Version; {
	case err != nil:
		l.report.Unknown(about(l.svc), fmt.Errorf("whether the controller can reuse a load balancer: %w", err))
	case v.Before(reuses):
		l.add(doctor.Warning, "controller", fmt.Sprintf("The Service reuses %s, and CCM %s is older than %s, from which on that works.", ccm.Quote(l.id), v, reuses),
			fmt.Sprintf("Upgrade the controller to %s or later.", reuses))
	}
}

// ports looks for other Services of the cluster on the same listener ports.
func (l *reuseLook) ports(sharing []*corev1.Service) {
	for _, other := range sharing {
		if other == l.svc {
			continue
		}
		for _, p := range l.svc.Spec.Ports {
			key := ccm.ListenerKey(l.svc, p)
			if !slices.ContainsFunc(other.Spec.Ports, func(q corev1.ServicePort) bool {
				// By one group that a person made they share the listener on purpose.
				shared := ccm.AdoptedGroup(l.svc, p)
				return alike(key, ccm.ListenerKey(other, q)) && (shared == "" || shared != ccm.AdoptedGroup(other, q))
			}) {
				continue
			}
			severity, what := doctor.Warning, "only one of them can have the listener"
			if ccm.OwnsListeners(l.svc) && ccm.OwnsListeners(other) {
				severity, what = doctor.Critical, "both override its listeners, so that each takes it from the other"
			}
			l.add(severity, "port/"+strings.ToLower(key)+"/"+name(other), fmt.Sprintf("The Services %s and %s both have %s on %s: %s.", name(l.svc), name(other), key, ccm.Quote(l.id), what),
				fmt.Sprintf("Give one of them another port, or another load balancer: %s.", set(l.svc, "id")))
		}
	}
}

// nowhere reports a manifest that names a load balancer which is not there.
func (l *reuseLook) nowhere() {
	if err := l.Err(doctor.CLBs, doctor.NLBs); err != nil {
		l.report.Unknown(about(l.svc), fmt.Errorf("whether there is %s: %w", ccm.Quote(l.id), err))
		return
	}
	l.add(doctor.Warning, "gone", fmt.Sprintf("The Service names %s, and no load balancer of %s has that ID, of %d listed.", ccm.Quote(l.id), l.Region, len(l.List())),
		fmt.Sprintf("Name one that is there by the annotation %s, or take the annotation out.", ccm.AnnotationKey(l.svc, "id")))
}

// balancer looks at the load balancer itself.
func (l *reuseLook) balancer(b *doctor.LoadBalancer) {
	if (b.NLB != nil) != ccm.NLB(l.svc) {
		wants := "of the loadBalancerClass " + ccm.NLBClass + ", which takes NLBs"
		if b.NLB != nil {
			wants = "not of the loadBalancerClass " + ccm.NLBClass + ", and so takes CLBs"
		}
		l.add(l.failing(), "kind", fmt.Sprintf("The Service is %s, and %s is %s: the controller does not find it.", wants, b.ID, a(b.Kind())),
			fmt.Sprintf("Name a load balancer of the other kind: %s. The class of a Service can't be changed: for another one, delete it and create it again.", set(l.svc, "id")))
		return
	}
	if l.svc.UID == "" {
		// What stands on the load balancer is read for Services of the cluster alone.
		if b.ByController() {
			l.marked(b, false)
		}
	} else {
		l.standing(b)
	}
	l.bound(b)
	if b.CLB == nil {
		return // an NLB may stand in another VPC, and its address type can be changed
	}
	if want, _ := ccm.Annotation(l.svc, "address-type"); want != "" && want != b.AddressType {
		l.add(l.failing(), "address-type", fmt.Sprintf("The Service asks for a load balancer of the type %s, and %s is of the type %s: its next full sync fails.", ccm.Quote(want), b.ID, b.AddressType),
			fmt.Sprintf("Say what it is: %s. Or name another: %s.", ccm.SetCommand(l.svc, "address-type", b.AddressType), set(l.svc, "id")))
	}
	l.vpc(b)
}

// a returns the name of a kind of load balancer with its article.
func a(kind string) string {
	if kind == "NLB" {
		return "an NLB"
	}
	return "a " + kind
}

// standing looks at what is on the load balancer.
func (l *reuseLook) standing(b *doctor.LoadBalancer) {
	known := cmp.Or(l.Err(doctor.Listeners), b.Err(doctor.Listeners))
	if b.ByController() || l.apiServer(b) {
		l.marked(b, known == nil)
	}
	if known != nil {
		l.report.Unknown(about(l.svc), known)
	} else {
		l.listeners(b)
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

// vpc reports a CLB that is not in the cluster's VPC. One that faces the internet is in
// none, and of that of the backends that it has.
func (l *reuseLook) vpc(b *doctor.LoadBalancer) {
	if b.VPC == "" && l.svc.UID == "" {
		return
	}
	err := l.Err(doctor.Detail)
	if b.VPC == "" && err == nil {
		err = cmp.Or(l.Err(doctor.Groups, doctor.Backends), b.Err(doctor.Groups))
	}
	if err != nil {
		l.report.Unknown(about(l.svc), fmt.Errorf("whether %s is in the cluster's VPC: %w", b.ID, err))
		return
	}
	if b.VPC != "" && b.VPC != l.Detail.VPC {
		l.add(l.failing(), "vpc", fmt.Sprintf("%s is in the VPC %s and the cluster in %s: it can't take the cluster's backends.", b.ID, b.VPC, l.Detail.VPC),
			fmt.Sprintf("Name a load balancer of the cluster's VPC: %s.", set(l.svc, "id")))
	}
	if b.VPC != "" {
		return
	}
	for _, g := range b.Groups {
		if g.Failed != nil {
			l.report.Unknown(about(l.svc), fmt.Errorf("of which VPC the backends of %s are: %w", b.ID, g.Failed))
			return
		}
		i := slices.IndexFunc(g.Backends, func(e cloud.Backend) bool { return e.VPC != "" && e.VPC != l.Detail.VPC })
		if i >= 0 {
			l.add(l.failing(), "vpc", fmt.Sprintf("%s has backends of the VPC %s, such as %s, and the cluster is in %s: all backends of a CLB must be in one VPC.", b.ID, g.Backends[i].VPC, g.Backends[i].ID, l.Detail.VPC),
				fmt.Sprintf("Name a load balancer without backends of another VPC: %s.", set(l.svc, "id")))
			return
		}
	}
}

// bound reports a Service that has the address of another load balancer than it names.
// The controller asks so of a Service that has one; behind a host name of its own or an
// EIP it does not (pkg/controller/service/clbv1/model_applier.go, isLoadBalancerReusable).
func (l *reuseLook) bound(b *doctor.LoadBalancer) {
	if b.ByController() || has(l.svc, b) || l.Err(doctor.Controller) != nil || l.Controller.Version.Before(asks) {
		return // it is refused before that is asked, or not asked at all; of an unknown release more is said elsewhere
	}
	l.add(doctor.Warning, "bound", fmt.Sprintf("The Service has the address %s, and names %s, whose address is %s: a Service never moves to another load balancer, and its next full sync fails.", ccm.Address(l.svc), b.ID, b.Address),
		fmt.Sprintf("Name the load balancer that has its address: %s. Or remove the annotation, if the controller made that one: %s. To move, delete the Service and create it again: its address changes.",
			set(l.svc, "id"), ccm.RemoveCommand(l.svc, "id")))
}

// has reports whether the Service has the address of the load balancer, as far as the
// controller asks: of one without an address it does not.
func has(svc *corev1.Service, b *doctor.LoadBalancer) bool {
	if mode, _ := ccm.Annotation(svc, "external-ip-type"); mode == "eip" && b.NLB == nil {
		return true
	}
	return !ccm.Synced(svc) || slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		if b.NLB != nil {
			return i.Hostname == b.Address
		}
		is, err := netip.ParseAddr(i.IP)
		named, errNamed := netip.ParseAddr(b.Address)
		return i.IP == b.Address || i.IP == "" && i.Hostname != "" || err == nil && errNamed == nil && is == named
	})
}

// apiServer reports whether it has the address of the cluster's API server. What tells
// that may not be known: then the tag does.
func (l *reuseLook) apiServer(b *doctor.LoadBalancer) bool {
	return l.Err(doctor.Detail) == nil && b.CLB != nil && b.Address != "" && b.Address == l.Detail.APIServer && (b.VPC == "" || b.VPC == l.Detail.VPC)
}

// marked reports a load balancer with a tag by which the controller refuses to reuse it.
func (l *reuseLook) marked(b *doctor.LoadBalancer, known bool) {
	if l.apiServer(b) {
		l.add(doctor.Critical, "tags", fmt.Sprintf("%s is the API server's: it has its address %s.", b.ID, b.Address),
			fmt.Sprintf("Never use it for a Service, and leave its tags alone. Name another: %s.", set(l.svc, "id")))
		return
	}
	if known && b.Tags[ccm.ClusterTag] != "" && slices.ContainsFunc(standings(b), func(at standing) bool { return at.port == apiServerPort }) {
		l.add(doctor.Critical, "tags", fmt.Sprintf("%s is an API server's: it has the tag %s and a listener on port %d. The controller does not reuse it.", b.ID, ccm.ClusterTag, apiServerPort),
			fmt.Sprintf("Never use it for a Service, and leave its tags alone. Name another: %s.", set(l.svc, "id")))
		return
	}
	if b.Tags[ccm.NameTag] == ccm.DefaultName(l.svc) {
		l.add(l.failing(), "tags", fmt.Sprintf("The Service names %s, which the controller made for it and does not reuse: its next full sync fails.", b.ID),
			fmt.Sprintf("Remove the annotation, the controller finds it by its tag: %s.", ccm.RemoveCommand(l.svc, "id")))
		return
	}
	var keys []string
	for _, key := range []string{ccm.NameTag, ccm.ClusterTag} {
		if _, ok := b.Tags[key]; ok {
			keys = append(keys, key)
		}
	}
	l.add(l.failing(), "tags", fmt.Sprintf("The Service names %s, which has a tag of the controller (%s) and so is not reused: its next full sync fails.", b.ID, strings.Join(keys, ", ")),
		fmt.Sprintf("Name one that a person made: %s. Only if the Service that it was made for is gone, take the tags off: %s.", set(l.svc, "id"), ccm.UntagCommand(l.svc, l.Region, b.ID, keys...)))
}

// listeners looks for Services of other clusters on the same listener ports.
func (l *reuseLook) listeners(b *doctor.LoadBalancer) {
	var names []string
	for _, at := range standings(b) {
		names = append(names, at.trace)
		t, ok := ccm.ParseTrace(at.trace)
		if !ok || t.Cluster == l.Cluster {
			continue
		}
		for _, p := range l.svc.Spec.Ports {
			// By a group that a person made two clusters share a listener on purpose.
			if key := ccm.ListenerKey(l.svc, p); alike(key, at.key) && (at.group == "" || at.group != ccm.AdoptedGroup(l.svc, p)) {
				l.add(doctor.Warning, "port/"+strings.ToLower(key)+"/"+t.Cluster, fmt.Sprintf("The listener %s of %s is of the Service %s of the cluster %s: only one of the two can have it.", at.key, b.ID, t, t.Cluster),
					fmt.Sprintf("Give one of them another port, or another load balancer: %s.", set(l.svc, "id")))
			}
		}
	}
	if b.NLB != nil {
		l.namesakes(b, names)
	}
}

// namesakes looks for a Service of the same name in another cluster, by the names that
// the controller gave.
func (l *reuseLook) namesakes(b *doctor.LoadBalancer, names []string) {
	var clusters []string
	for _, text := range names {
		if t, ok := ccm.ParseTrace(text); ok && t.Cluster != l.Cluster && t.String() == name(l.svc) {
			clusters = append(clusters, t.Cluster)
		}
	}
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		l.add(doctor.Warning, "name/"+cluster, fmt.Sprintf("A Service %s of the cluster %s uses %s too: clusters that share a load balancer must not have Services of one namespace and name.", name(l.svc), cluster, b.ID),
			fmt.Sprintf("Call one of them otherwise, or give it another load balancer: %s.", set(l.svc, "id")))
	}
}

// fixReuse sets right what is up already: a Service needs not name the load balancer that
// the controller made for it, and has the type of address that it has.
func fixReuse(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	var edits []step.Edit
	var text, ask say.Text
	b, err := s.Balancer(svc)
	up := err == nil && b != nil && ccm.Synced(svc) && has(svc, b)
	for _, f := range found {
		switch {
		case up && f.Key == "tags" && unnamed(s, svc, b):
			edits = append(edits, step.Without(svc, "id"))
		case up && f.Key == "address-type":
			edits = append(edits, step.With(svc, "address-type", b.AddressType))
		default:
			ask = ask.Then(f.Text).Then(f.Do)
			continue
		}
		text = text.Then(f.Text)
	}
	if len(edits) == 0 {
		return remedy.Plan{Finding: say.F("Only a person can decide which load balancer the Service uses."), Ask: ask}
	}
	return remedy.Plan{Finding: text, Steps: []remedy.Step{step.Together(edits...)}, Ask: ask}
}

// unnamed reports whether the controller finds this load balancer for the Service, and
// no other, without the annotation id.
func unnamed(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) bool {
	if b.Tags[ccm.NameTag] != ccm.DefaultName(svc) {
		return false
	}
	own := svc.DeepCopy()
	delete(own.Annotations, ccm.Prefix+"id")
	delete(own.Annotations, ccm.LegacyPrefix+"id")
	found, err := s.Balancer(own)
	return err == nil && found != nil && found.ID == b.ID
}
