package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// An Immutable is an attribute that a load balancer gets at creation and keeps. An annotation that asks for another value fails each sync.
type Immutable struct {
	Name  string   // short, of the annotation
	What  say.Text // for people
	Want  string   // what the annotation asks for; empty if it is missing
	Is    string   // what the load balancer has; empty if the API reports none
	unset string   // what the controller wants without the annotation; empty: anything
	maybe bool     // a load balancer may lack it
}

// Immutables returns the attributes that make a sync fail, because the annotations ask for other values than the load balancer has
// (clbv1/loadbalancer.go, nlbv2/loadbalancer.go). An answer without an attribute that every load balancer has is an error.
func Immutables(svc *corev1.Service, lb *Instance) ([]Immutable, error) {
	list := immutablesOf(lb)
	for i := range list {
		list[i].Want, _ = Annotation(svc, list[i].Name)
	}
	list = slices.DeleteFunc(list, func(a Immutable) bool {
		if lb.NLB != nil {
			return a.Want == "" || strings.EqualFold(a.Want, a.Is)
		}
		return a.Want == a.Is || a.Want == "" && (a.unset == "" || a.unset == a.Is)
	})
	for _, a := range list {
		if a.Is == "" && !a.maybe {
			return nil, fmt.Errorf("read load balancer %s: the answer has no %s", lb.ID, a.What)
		}
	}
	return list, nil
}

func immutablesOf(lb *Instance) []Immutable {
	is := map[string]string{"ip-version": annotatedVersion(lb.IPVersion)}
	if lb.CLB != nil {
		is = map[string]string{
			MasterZone: lb.CLB.Zone, SlaveZone: lb.CLB.SlaveZone, "ip-version": lb.CLB.IPVersion, "network-type": lb.CLB.Network, "ip": lb.CLB.Address,
		}
	}
	var list []Immutable
	for _, f := range FixedAnnotations(lb.NLB != nil) {
		if value, ok := is[f.Name]; ok {
			list = append(list, Immutable{Name: f.Name, What: f.What, Is: value, unset: f.Unset, maybe: f.Name == SlaveZone})
		}
	}
	return list
}

// RuledOut returns what next asks for, beyond the present Service, that its CLB can never become, so each full sync would fail: another
// fixed attribute, or other billing after billing by LCU. lost says why the CLB is unknown. It needs DescribeLoadBalancers.
func (c *View) RuledOut(ctx context.Context, next *corev1.Service) (lb *Instance, list []Immutable, lost string, err error) {
	asks := func(lb *Instance) []Immutable {
		list := append(immutablesOf(lb), Immutable{Name: ChargeType, What: say.F("charge type"), Is: lb.CLB.ChargeType},
			Immutable{Name: ChargeSpec, What: say.F("spec"), Is: lb.CLB.Spec})
		for i := range list {
			list[i].Want, _ = Annotation(next, list[i].Name)
		}
		return slices.DeleteFunc(list, func(a Immutable) bool {
			now, _ := Annotation(c.Service, a.Name)
			return a.Want == "" || a.Want == now || a.Want == a.Is || a.Name == ChargeSpec && lb.CLB.ChargeType == PayBySpec
		})
	}
	if NLB(next) || len(asks(Classic(cloud.LoadBalancer{}))) == 0 {
		return nil, nil, "", nil
	}
	if lb, lost, err = c.listed(ctx); lb != nil {
		list = asks(lb)
	}
	return lb, list, lost, err
}

// listed returns the CLB that the controller would sync, as the list has it; lost says why it was not found although the Service has one.
func (c *View) listed(ctx context.Context) (lb *Instance, lost string, err error) {
	if id, _ := Annotation(c.Service, BalancerID); id != "" {
		found, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{IDs: []string{id}})
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("list the load balancer %s: %w", id, err)
		case len(found) != 1:
			return nil, fmt.Sprintf("the API lists none with the ID %s of the annotation id", Quote(id)), nil
		}
		return Classic(found[0]), "", nil
	}
	found, err := c.marked(ctx)
	switch {
	case err != nil || len(found) == 0 && !Synced(c.Service):
		return nil, "", err
	case len(found) == 0:
		return nil, fmt.Sprintf("none with the address %s has its tag or its name", Address(c.Service)), nil
	case len(found) > 1:
		return nil, fmt.Sprintf("%d load balancers have its tag or its name", len(found)), nil
	}
	return found[0], "", nil
}

func annotatedVersion(version string) string {
	if strings.EqualFold(version, "DualStack") {
		return "DualStack"
	}
	return strings.ToLower(version)
}

// Differs says what the annotation asks for and what the load balancer with this ID has instead.
func (a Immutable) Differs(id string) say.Text {
	switch {
	case a.Is == "":
		return say.F("The annotation %s asks for %s, but the API reports no %s of %s.", a.Name, Quote(a.Want), a.What, id)
	case a.Want == "":
		return say.F("Without the annotation %s the controller asks for %s, but the %s of %s is %s.", a.Name, a.unset, a.What, id, a.Is)
	}
	return say.F("The annotation %s asks for %s, but the %s of %s is %s.", a.Name, Quote(a.Want), a.What, id, a.Is)
}
