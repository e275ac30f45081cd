package ccm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/kube"
)

// A Trace is the name that the controller gives to what it makes for a port of a Service (pkg/model/service.go):
// k8s/<port>/<service>/<namespace>/<cluster> for vServer groups and listeners of CLBs, k8s.<port>.<protocol>.<service>.<namespace>.<cluster>
// for those of NLBs. Any other name is a user's.
type Trace struct {
	Port      string // the Service's port for a listener; the node port or target port, perhaps a name, for a group
	Namespace string
	Service   string
	Cluster   string // ID
}

// ParseTrace reads a trace, and reports false for any other name.
func ParseTrace(name string) (Trace, bool) {
	if p := strings.Split(name, "/"); len(p) == 5 && p[0] == "k8s" {
		return Trace{Port: p[1], Service: p[2], Namespace: p[3], Cluster: p[4]}, true
	}
	// The parts contain no dots: names of Services and namespaces are DNS labels.
	if p := strings.Split(name, "."); len(p) == 6 && p[0] == "k8s" {
		return Trace{Port: p[1], Service: p[3], Namespace: p[4], Cluster: p[5]}, true
	}
	return Trace{}, false
}

// Of reports whether the trace names this Service of this cluster.
func (t Trace) Of(svc *corev1.Service, cluster string) bool {
	return t.Cluster == cluster && t.Namespace == svc.Namespace && t.Service == svc.Name
}

// String returns the Service's name with its namespace.
func (t Trace) String() string { return t.Namespace + "/" + t.Service }

// seenFrom returns the Service's name, with its cluster if that is another one.
func (t Trace) seenFrom(cluster string) string {
	name := fmt.Sprintf("%.64s/%.64s", t.Namespace, t.Service)
	if t.Cluster != cluster {
		name = fmt.Sprintf("%s (%.64s)", name, t.Cluster)
	}
	return name
}

// Gone reports whether the cluster no longer has the Service of the trace. It needs GetServices.
func (c *View) Gone(ctx context.Context, t Trace) (bool, error) {
	_, err := c.Kube.Service(ctx, t.Namespace, t.Service)
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read Service %s: %w", t, err)
	}
	return false, nil
}

// Uses are what a load balancer has, and the Services for which it was made.
type Uses struct {
	Listeners []Listener
	Groups    []string // names of the vServer groups; empty for an NLB
	Here      []string // Services of this cluster
	Elsewhere []string // Services of other clusters, with the cluster
}

// Bare reports whether an existing load balancer has none of these uses and no default backend. It needs BoundReads, or NetworkReads.
func (c *View) Bare(ctx context.Context, id string, u Uses) (bool, error) {
	lb, err := c.Named(ctx, id)
	if err != nil || lb == nil || len(u.Listeners)+len(u.Groups) > 0 {
		return false, err
	}
	return lb.CLB == nil || len(lb.CLB.Ports)+len(lb.CLB.Backends) == 0, nil
}

// Uses reads a load balancer's listeners, groups and their Services. It needs DescribeLoadBalancerListeners and DescribeVServerGroups, or
// ListNLBListeners.
func (c *View) Uses(ctx context.Context, lb *Instance) (Uses, error) {
	var u Uses
	var err error
	if u.Listeners, err = c.Listeners(ctx, lb); err != nil {
		return Uses{}, err
	}
	for _, l := range u.Listeners {
		u.add(l.Description, c.Cluster)
	}
	if lb.NLB != nil {
		return u, nil
	}
	groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return Uses{}, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	for _, g := range groups {
		u.Groups = append(u.Groups, g.Name)
		u.add(g.Name, c.Cluster)
	}
	return u, nil
}

func (u *Uses) add(name, cluster string) {
	t, ok := ParseTrace(name)
	if !ok {
		return
	}
	list, user := &u.Here, t.seenFrom(cluster)
	if t.Cluster != cluster {
		list = &u.Elsewhere
	}
	if !slices.Contains(*list, user) {
		*list = append(*list, user)
	}
}
