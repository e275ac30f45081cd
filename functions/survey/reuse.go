package survey

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed reuse.md
var reuseDoc string

// reuse looks whether load balancers that Services name can be reused.
var reuse = &checkup.Check{
	ID:    "reuse",
	Doc:   reuseDoc,
	Needs: []checkup.Part{checkup.Services},
	Uses:  []checkup.Part{checkup.CLBs, checkup.NLBs, checkup.Listeners, checkup.Groups, checkup.Detail, checkup.Controller},
	Find:  findReuse,
}

// reuses is the first release whose reuse of load balancers the FAQ vouches for,
// v1.9.3.105-gfd4e547.
var reuses = remedy.Version{Major: 1, Minor: 9, Patch: 3, Build: 105}

// apiServerPort is where the API server's load balancer listens.
const apiServerPort = 6443

func findReuse(s *checkup.Snapshot, r *checkup.Report) {
	sharing := map[string][]*corev1.Service{} // Services by the load balancer that they name
	for _, svc := range s.OfType() {
		if id, _ := remedy.Annotation(svc, "id"); id != "" {
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
				r.Unknown(about(svc), fmt.Errorf("whether it can use %s: %w", remedy.Quote(id), err))
			} else if b != nil { // one that is gone is another check's
				l.balancer(b)
			}
		}
	}
}

// A reuseLook is one Service that names its load balancer, being looked at.
type reuseLook struct {
	*checkup.Snapshot
	report *checkup.Report
	svc    *corev1.Service
	id     string
}

func (l *reuseLook) add(severity checkup.Severity, key, text, do string) {
	l.report.Add(checkup.Finding{Severity: severity, About: about(l.svc), Key: key, Text: text, Do: do, Evidence: map[string]string{"load balancer": l.id}})
}

// failing is critical for a Service that was never up: its syncs fail now. What is up
// fails with its next full sync.
func (l *reuseLook) failing() checkup.Severity {
	if remedy.Synced(l.svc) {
		return checkup.Warning
	}
	return checkup.Critical
}

func (l *reuseLook) controller() {
	err := l.Err(checkup.Controller)
	if err == nil && l.Controller.Version == (remedy.Version{}) {
		err = errNoVersion
	}
	switch v := l.Controller.Version; {
	case err != nil:
		l.report.Unknown(about(l.svc), fmt.Errorf("whether the controller can reuse a load balancer: %w", err))
	case v.Before(reuses):
		l.add(checkup.Warning, "controller", fmt.Sprintf("The Service reuses %s, and CCM %s is older than %s, from which on that works.", remedy.Quote(l.id), v, reuses),
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
			key := remedy.ListenerKey(l.svc, p)
			if !slices.ContainsFunc(other.Spec.Ports, func(q corev1.ServicePort) bool { return alike(key, remedy.ListenerKey(other, q)) }) {
				continue
			}
			severity, what := checkup.Warning, "only one of them can have the listener"
			if remedy.OwnsListeners(l.svc) && remedy.OwnsListeners(other) {
				severity, what = checkup.Critical, "both override its listeners, so that each takes it from the other"
			}
			l.add(severity, "port/"+strings.ToLower(key)+"/"+name(other), fmt.Sprintf("The Services %s and %s both have %s on %s: %s.", name(l.svc), name(other), key, remedy.Quote(l.id), what),
				fmt.Sprintf("Give one of them another port, or another load balancer: %s.", set(l.svc, "id")))
		}
	}
}

// balancer looks at the load balancer itself.
func (l *reuseLook) balancer(b *checkup.LoadBalancer) {
	known := cmp.Or(l.Err(checkup.Listeners), b.Err(checkup.Listeners))
	if b.ByController() {
		l.marked(b, known == nil)
	}
	if known != nil {
		l.report.Unknown(about(l.svc), known)
	} else {
		l.listeners(b)
	}
	if b.CLB == nil {
		return // an NLB may stand in another VPC, and its address type can be changed
	}
	if err := cmp.Or(l.Err(checkup.Groups), b.Err(checkup.Groups)); err != nil {
		l.report.Unknown(about(l.svc), err)
	} else {
		var names []string
		for _, g := range b.Groups {
			names = append(names, g.Name)
		}
		l.namesakes(b, names)
	}
	if want, _ := remedy.Annotation(l.svc, "address-type"); want != "" && want != b.AddressType {
		l.add(l.failing(), "address-type", fmt.Sprintf("The Service asks for a load balancer of the type %s, and %s is of the type %s: its next full sync fails.", remedy.Quote(want), b.ID, b.AddressType),
			fmt.Sprintf("Say what it is: %s. Or name another: %s.", remedy.SetCommand(l.svc, "address-type", b.AddressType), set(l.svc, "id")))
	}
	if b.VPC == "" {
		return // it faces the internet and is in none
	}
	if err := l.Err(checkup.Detail); err != nil {
		l.report.Unknown(about(l.svc), fmt.Errorf("whether %s is in the cluster's VPC: %w", b.ID, err))
	} else if b.VPC != l.Detail.VPC {
		l.add(l.failing(), "vpc", fmt.Sprintf("%s is in the VPC %s and the cluster in %s: it can't take the cluster's backends.", b.ID, b.VPC, l.Detail.VPC),
			fmt.Sprintf("Name a load balancer of the cluster's VPC: %s.", set(l.svc, "id")))
	}
}

// marked reports a load balancer with a tag by which the controller refuses to reuse it.
func (l *reuseLook) marked(b *checkup.LoadBalancer, known bool) {
	if known && b.Tags[remedy.ClusterTag] != "" && slices.ContainsFunc(standings(b), func(at standing) bool { return at.port == apiServerPort }) {
		l.add(checkup.Critical, "tags", fmt.Sprintf("%s is an API server's: it has the tag %s and a listener on port %d. The controller does not reuse it.", b.ID, remedy.ClusterTag, apiServerPort),
			fmt.Sprintf("Never use it for a Service, and leave its tags alone. Name another: %s.", set(l.svc, "id")))
		return
	}
	if b.Tags[remedy.NameTag] == remedy.DefaultName(l.svc) {
		l.add(l.failing(), "tags", fmt.Sprintf("The Service names %s, which the controller made for it and does not reuse: its next full sync fails.", b.ID),
			fmt.Sprintf("Remove the annotation, the controller finds it by its tag: %s.", remedy.RemoveCommand(l.svc, "id")))
		return
	}
	var keys []string
	for _, key := range []string{remedy.NameTag, remedy.ClusterTag} {
		if _, ok := b.Tags[key]; ok {
			keys = append(keys, key)
		}
	}
	l.add(l.failing(), "tags", fmt.Sprintf("The Service names %s, which has a tag of the controller (%s) and so is not reused: its next full sync fails.", b.ID, strings.Join(keys, ", ")),
		fmt.Sprintf("Name one that a person made: %s. Only if the Service that it was made for is gone, take the tags off: %s.", set(l.svc, "id"), remedy.UntagCommand(l.svc, l.Region, b.ID, keys...)))
}

// listeners looks for Services of other clusters.
func (l *reuseLook) listeners(b *checkup.LoadBalancer) {
	var names []string
	for _, at := range standings(b) {
		names = append(names, at.trace)
		t, ok := remedy.ParseTrace(at.trace)
		if !ok || t.Cluster == l.Cluster {
			continue
		}
		for _, p := range l.svc.Spec.Ports {
			if key := remedy.ListenerKey(l.svc, p); alike(key, at.key) {
				l.add(checkup.Warning, "port/"+strings.ToLower(key)+"/"+t.Cluster, fmt.Sprintf("The listener %s of %s is of the Service %s of the cluster %s: only one of the two can have it.", at.key, b.ID, t, t.Cluster),
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
func (l *reuseLook) namesakes(b *checkup.LoadBalancer, names []string) {
	var clusters []string
	for _, text := range names {
		if t, ok := remedy.ParseTrace(text); ok && t.Cluster != l.Cluster && t.String() == name(l.svc) {
			clusters = append(clusters, t.Cluster)
		}
	}
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		l.add(checkup.Warning, "name/"+cluster, fmt.Sprintf("A Service %s of the cluster %s uses %s too: clusters that share a load balancer must not have Services of one namespace and name.", name(l.svc), cluster, b.ID),
			fmt.Sprintf("Call one of them otherwise, or give it another load balancer: %s.", set(l.svc, "id")))
	}
}
