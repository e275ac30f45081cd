package ccm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// untold returns a difference that says that a part could not be compared, or a temporary error.
func untold(what string, err error) ([]Difference, error) {
	if !errors.Is(err, cloud.ErrDenied) && !errors.Is(err, cloud.ErrNotFound) && !errors.Is(err, kube.ErrDenied) {
		return nil, err
	}
	return []Difference{{What: what, Text: say.F("the %s could not be compared (%v)", what, err), Unknown: true}}, nil
}

// Changes returns what a full sync changes, and its load balancer or nil. targets, such as "slb/lb-1", are written to before that sync.
func (c *View) Changes(ctx context.Context, targets []string) (*Instance, []Difference, error) {
	if leaves := Leaving(c.Service); len(leaves) > 0 {
		text := say.F("is released, and the controller deletes what it finds of its own for the Service, which %s", leaves)
		return nil, []Difference{{What: "load balancer", Text: text, Quiet: true}}, nil
	}
	lb, err := c.synced(ctx, targets)
	if err != nil {
		list, passing := untold("load balancer", err)
		for i := range list {
			list[i].Text = say.F("could not be compared (%v)", err)
		}
		return nil, list, passing
	}
	if lb == nil {
		none, err := c.None(ctx)
		switch {
		case err != nil:
			return nil, nil, err
		case none:
			return nil, []Difference{{What: "load balancer", Text: say.F("does not exist yet and is created with listeners and groups"), Quiet: true}}, nil
		}
		return nil, []Difference{{What: "load balancer", Text: say.F("was not found, so what the full sync would change on it is unknown"), Unknown: true}}, nil
	}
	id, reused := Annotation(c.Service, "id")
	reused = reused && id != ""
	list := Differences(c.Service, lb)
	if lb.NLB != nil {
		list = append(list, uncompared(c.Service, lb.NLB)...)
	}
	if !written(targets, lb) {
		list = append(list, tagsAdded(c.Service, lb, reused)...)
	}
	ports, err := c.portChanges(ctx, lb)
	if err != nil {
		return nil, nil, err
	}
	list = append(list, ports...)
	if !Synced(c.Service) {
		// A first sync overwrites nothing that it makes, and nobody uses the Service's own load balancer yet.
		for i := range list {
			d := &list[i]
			d.Quiet = d.Quiet || d.Makes || !reused && !d.Cuts && !d.Unknown
		}
	}
	return lb, list, nil
}

// synced returns the load balancer that the controller finds now, or a target, which the write makes findable; of several, the one that is not a target.
func (c *View) synced(ctx context.Context, targets []string) (*Instance, error) {
	lb, err := c.Bound(ctx)
	if err != nil || lb != nil {
		return lb, err
	}
	if id, _ := Annotation(c.Service, "id"); id != "" {
		return nil, nil
	}
	marked, err := c.marked(ctx)
	if err != nil {
		return nil, err
	}
	if len(marked) > 1 { // the write makes a target unfindable
		marked = slices.DeleteFunc(marked, func(lb *Instance) bool { return written(targets, lb) })
		if len(marked) != 1 {
			return nil, nil
		}
		return c.Named(ctx, marked[0].ID)
	}
	for _, target := range targets {
		for _, kind := range []string{"slb/", "nlb/"} {
			if id, ok := strings.CutPrefix(target, kind); ok {
				return c.Named(ctx, id)
			}
		}
	}
	return nil, nil
}

func written(targets []string, lb *Instance) bool {
	return slices.Contains(targets, "slb/"+lb.ID) || slices.Contains(targets, "nlb/"+lb.ID)
}

func (c *View) portChanges(ctx context.Context, lb *Instance) ([]Difference, error) {
	var list []Difference
	var listeners []port
	if OwnsListeners(c.Service) {
		kept, further := c.classicListeners, c.domains
		if lb.NLB != nil {
			kept, further = c.networkListeners, c.certificates
		}
		var err error
		if list, listeners, err = kept(ctx, lb.ID); err != nil {
			if list, err = untold("listeners", err); err != nil {
				return nil, err
			}
		}
		for _, p := range listeners {
			drift, err := further(ctx, lb.ID, p)
			if err != nil {
				return nil, err
			}
			list = append(list, drift...)
		}
	}
	groups, err := c.groupChanges(ctx, lb, listeners)
	if err != nil {
		if groups, err = untold("groups", err); err != nil {
			return nil, err
		}
	}
	return append(list, groups...), nil
}

type port struct {
	key         string
	id          string // of an NLB's listener
	of          int    // the Service's port
	group       string // ID
	description string
	own         string // the description that the controller gives it
}

func (c *View) classicListeners(ctx context.Context, id string) ([]Difference, []port, error) {
	all, err := c.Cloud.SLB.Listeners(ctx, id)
	if err != nil {
		return nil, nil, fmt.Errorf("list listeners of %s: %w", id, err)
	}
	var kept []port
	for _, p := range c.Service.Spec.Ports {
		key := ListenerKey(c.Service, p)
		for _, l := range all {
			// A listener that redirects has no group, and is left alone or made anew.
			if fmt.Sprintf("%s:%d", l.Protocol, l.Port) == key && l.Config["ListenerForward"] != "on" && (l.Protocol != "http" || forwardOf(c.Service, p) == 0) {
				own := strings.Join([]string{"k8s", fmt.Sprint(p.Port), c.Service.Name, c.Service.Namespace, c.Cluster}, "/")
				kept = append(kept, port{key: key, of: int(p.Port), group: l.VServerGroup, description: l.Description, own: own})
			}
		}
	}
	return ListenerDifferences(c.Service, all, c.Cluster), kept, nil
}

// domains returns what a full sync changes on an HTTPS listener's further domains; nothing for an empty annotation. It fails to change the
// certificate of a domain: it asks for the old one, without the domain's ID (diffDomainExtensions in clbv1/listeners.go, v2.13.0 and v2.14.0).
func (c *View) domains(ctx context.Context, id string, p port) ([]Difference, error) {
	asked, _ := Annotation(c.Service, DomainExtensions)
	if asked == "" || !strings.HasPrefix(p.key, "https:") {
		return nil, nil
	}
	have, err := c.Cloud.SLB.Domains(ctx, id, p.of)
	if err != nil {
		return unreadPart("listener "+p.key, "further domains", err)
	}
	var pairs []string
	for domain, cert := range have {
		pairs = append(pairs, domain+":"+cert)
	}
	slices.Sort(pairs)
	is, want := strings.Join(pairs, ","), sortedParts(asked)
	text := say.F("the further domains of listener %s are %s and the annotations say %s", p.key, say.Or(clipped(is), "none"), clipped(strings.Join(want, ",")))
	difference := Difference{What: "listener " + p.key, Text: text, Keep: DomainExtensions, Is: is}
	var list []Difference
	for i, pair := range want {
		domain, cert, _ := strings.Cut(pair, ":")
		if old, there := have[domain]; there && old != cert {
			list = []Difference{difference}
			list[0].Fails, want[i] = true, domain+":"+old
		}
	}
	if is != strings.Join(want, ",") {
		list = append(list, difference)
	}
	return list, nil
}

// unreadPart returns a difference that names the part of a listener that could not be compared, or a temporary error.
func unreadPart(what, part string, err error) ([]Difference, error) {
	list, err := untold(part+" of "+what, err)
	for i := range list {
		list[i].What = what
	}
	return list, err
}

func (c *View) networkListeners(ctx context.Context, id string) ([]Difference, []port, error) {
	all, err := c.Cloud.NLB.Listeners(ctx, id)
	if err != nil {
		return nil, nil, fmt.Errorf("list listeners of %s: %w", id, err)
	}
	var kept []port
	for _, p := range c.Service.Spec.Ports {
		key := networkKey(c.Service, p)
		for _, l := range all {
			if keyOf(l) == key {
				protocol, number, _ := strings.Cut(key, ":")
				own := strings.Join([]string{"k8s", strings.ReplaceAll(number, "-", "_"), protocol, c.Service.Name, c.Service.Namespace, c.Cluster}, ".")
				kept = append(kept, port{key: key, id: l.ID, of: int(p.Port), group: l.ServerGroup, description: l.Description, own: own})
			}
		}
	}
	return NetworkListenerDifferences(c.Service, all, c.Cluster), kept, nil
}

// certificates returns what a full sync changes on a TLS listener's further certificates. An empty annotation removes all of them.
func (c *View) certificates(ctx context.Context, _ string, p port) ([]Difference, error) {
	asked, ok := Annotation(c.Service, "additional-cert-ids")
	if !ok || !strings.HasPrefix(p.key, "TCPSSL:") {
		return nil, nil
	}
	have, err := c.Cloud.NLB.FurtherCertificates(ctx, p.id)
	if err != nil {
		return unreadPart("listener "+p.key, "further certificates", err)
	}
	var want []string
	if asked != "" {
		want = sortedParts(asked)
	}
	if is := strings.Join(have, ","); is != strings.Join(want, ",") {
		return []Difference{{What: "listener " + p.key, Text: say.F("the further certificates of listener %s are %s and the annotations say %s", p.key,
			say.Or(clipped(is), "none"), say.Or(clipped(asked), "none")), Keep: "additional-cert-ids", Is: is}}, nil
	}
	return nil, nil
}

// securityGroupLabel marks a Service for which v2.14.0 made a security group of source ranges (helper/service_utils.go).
const securityGroupLabel = "service.k8s.alibaba/security-group-id"

// uncompared names the security group of source ranges, which a full sync may change on an NLB. The controller makes none for a reused NLB.
func uncompared(svc *corev1.Service, lb *cloud.NetworkLoadBalancer) []Difference {
	group := svc.Labels[securityGroupLabel]
	switch id, _ := Annotation(svc, "id"); {
	case id != "":
		return nil
	case len(svc.Spec.LoadBalancerSourceRanges) > 0:
		return []Difference{{What: "security-group-ids", Text: say.F("what loadBalancerSourceRanges of the Service asks for was not compared"), Unknown: true}}
	case group != "" && slices.Contains(lb.SecurityGroups, group):
		return []Difference{{What: "security-group-ids", Text: say.F("it leaves the security group %s, since the Service no longer has source ranges", group)}}
	}
	return nil
}

// maxOwnTags is the number of tags at which the controller stops adding its own to a CLB.
const maxOwnTags = 10

// tagsAdded returns the tags that a full sync adds: its own, to CLBs only, and the annotation's (clbv1/loadbalancer.go, nlbv2/loadbalancer.go).
func tagsAdded(svc *corev1.Service, lb *Instance, reused bool) []Difference {
	var list []Difference
	add := func(key, value string) {
		if is, ok := lb.Tags[key]; !ok || is != value {
			list = append(list, Difference{What: "tag " + key, Text: say.F("the tag %s=%s is added", key, clipped(value)), Quiet: true})
		}
	}
	mark, value := NameTag, DefaultName(svc)
	if reused {
		mark, value = ReusedTag, "true"
	}
	if _, ok := lb.Tags[mark]; lb.CLB != nil && !ok && len(lb.Tags) < maxOwnTags {
		add(mark, value)
	}
	listed := tagsOf(svc)
	for _, key := range slices.Sorted(maps.Keys(listed)) {
		add(key, listed[key])
	}
	return list
}
