package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Newest returns the newest release whose calls are known here. The source of v2.15.0 is not published: its release notes say that it
// recreates a server group when its IP version changes, keeps the listeners of a reused NLB when the Service is deleted, compares the status
// by address and host name, and adds the annotations graceful-shutdown and health-check-http-version (annotation.go, servers.go). Its API
// calls are unknown.
func Newest() Version { return v214 }

// TooNew reports whether the release is newer than Newest: its reads and calls are unknown.
func (v Version) TooNew() bool { return Newest().Before(v) }

// Rehashed returns the release that changed the hash (helper/service_utils.go): an upgrade past it syncs every Service once.
func Rehashed() Version { return Version{2, 7, 0, 0} }

// Gains returns the RAM actions that one version calls and an older one does not, sorted.
func Gains(from, to Version, use Features) []string {
	old := Needs(from, use)
	return slices.DeleteFunc(Needs(to, use), func(action string) bool { return slices.Contains(old, action) })
}

// compared is the most Services that Elsewhere compares, with four calls each.
const compared = 20

// An Elsewhere is what full syncs of a cluster's Services would change.
type Elsewhere struct {
	Services int        // Services with a CLB
	Compared int        // of them, the first by name
	Differ   []say.Text // one clause for each Service that would change
}

// Elsewhere compares the CLBs of up to 20 Services of the cluster with their annotations. It needs BoundReads and DriftReads.
func (c *View) Elsewhere(ctx context.Context, services []corev1.Service) (Elsewhere, error) {
	var e Elsewhere
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, svc := range services {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Spec.LoadBalancerClass != nil || !Synced(&svc) {
			continue
		}
		if e.Services++; e.Compared == compared {
			continue
		}
		sub := *c
		sub.Service = svc.DeepCopy()
		lb, err := sub.Bound(ctx)
		if err != nil {
			return e, fmt.Errorf("find the load balancer of %s/%s: %w", svc.Namespace, svc.Name, err)
		}
		if lb == nil {
			continue
		}
		e.Compared++
		drift, err := sub.differs(ctx, lb)
		if err != nil {
			return e, err
		}
		if len(drift) > 0 {
			e.Differ = append(e.Differ, say.F("%s/%s on %s: %s", svc.Namespace, svc.Name, lb.ID, say.Items(drift, len(drift))))
		}
	}
	return e, nil
}

// Text returns the result as sentences.
func (e Elsewhere) Text() say.Text {
	switch {
	case e.Services == 0:
		return say.F("No other Service has a CLB that it would change.")
	case len(e.Differ) == 0:
		return say.F("Of %s with a CLB, %d were compared. Nothing differs.", say.Count(e.Services, "Service"), e.Compared)
	}
	return say.F("Of %s with a CLB, %d were compared. It would change: %s.", say.Count(e.Services, "Service"), e.Compared, say.Clauses(e.Differ, len(e.Differ)))
}

// UpgradeReads is what Controller and Upgrade read; a class that calls them declares it.
var UpgradeReads = slices.Concat(ControllerReads, BoundReads, DriftReads, RoleReads,
	[]grant.Grant{grant.DescribeClusterDetail, grant.ListServices, grant.ListNodes})

// An Upgrade is what an upgrade of the controller to the newest release needs and does.
type Upgrade struct {
	Cluster string    // ID
	Rights  say.Text  // the rights that the controller needs before it
	Drift   Elsewhere // what the full syncs after it would change
	Resyncs bool      // there are such syncs; newer releases share their hash
}

// Ask asks a person for an upgrade to this release or a newer one. Rights says what it needs.
func (u Upgrade) Ask(to Version) say.Text {
	return say.F("Upgrade the add-on cloud-controller-manager of the cluster %s to %s or newer.", u.Cluster, to).
		And("The add-on is in the ACK console under Operations, Add-ons.")
}

// Note says what the upgrade does to the cluster's Services; nothing if it syncs none of them.
func (u Upgrade) Note() say.Text {
	if !u.Resyncs {
		return nil
	}
	return say.F("An upgrade past %s syncs every Service in full once, which reverts changes made in the console.", Rehashed()).Then(u.Drift.Text())
}

// Upgrade reads what an upgrade from this release needs and does.
func (c *View) Upgrade(ctx context.Context, from Version) (Upgrade, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return Upgrade{}, fmt.Errorf("describe the cluster: %w", err)
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return Upgrade{}, fmt.Errorf("list Services: %w", err)
	}
	drift, err := c.Elsewhere(ctx, services)
	if err != nil {
		return Upgrade{}, err
	}
	u := Upgrade{Cluster: cluster.ID, Drift: drift, Resyncs: from.Before(Rehashed())}
	if cluster.Managed() {
		u.Rights = say.F("In a managed cluster the controller runs under the service roles of ACK, to which Alibaba Cloud grants what it needs.").
			And("If the console asks you to authorize these roles again, do that first.")
		return u, nil
	}
	role, err := c.ControllerRole(ctx)
	if err != nil {
		return Upgrade{}, err
	}
	nodes, err := c.Kube.Nodes(ctx)
	if err != nil {
		return Upgrade{}, fmt.Errorf("list nodes: %w", err)
	}
	u.Rights = role.beforeUpgrade(from, InUse(cluster, services, nodes))
	return u, nil
}

// beforeUpgrade says which actions the role must allow before an upgrade to the newest release: all that it calls, or without a name, the new ones.
func (r Role) beforeUpgrade(from Version, use Features) say.Text {
	unknown := r.Doubt(Newest())
	switch {
	case len(unknown) > 0:
		unknown = say.F("It is not known under which RAM role the controller runs: %s.", unknown)
	case r.Name == "":
		unknown = say.F("The cluster names no RAM role of its masters.")
	}
	if len(unknown) > 0 {
		return unknown.And("Before the upgrade, make sure that the role of the controller allows what CCM %s calls and %s does not: %s.",
			Newest(), from, strings.Join(Gains(from, Newest(), use), ", "))
	}
	gap := r.Lacks(Needs(Newest(), use))
	if len(gap.Missing) == 0 {
		return say.F("The controller's RAM role %s allows everything that CCM %s calls here.", r.Name, Newest())
	}
	missing := slices.DeleteFunc(gap.Missing, func(action string) bool { return slices.Contains(gap.Denied, action) })
	var text say.Text
	if len(missing) > 0 {
		text = text.And("The controller's RAM role %s lacks %s that CCM %s calls here.", r.Name, say.Count(len(missing), "action"), Newest()).
			And("Grant this before the upgrade: %s.", r.Allow(missing))
	}
	if len(gap.Denied) > 0 {
		text = text.And("A Deny statement of the role %s forbids actions that CCM %s calls here: %s.", r.Name, Newest(), strings.Join(gap.Denied, ", ")).
			And("Remove these actions from the statement before the upgrade.")
	}
	return text
}
