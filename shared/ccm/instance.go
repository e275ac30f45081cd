package ccm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// An Instance is what CLBs and NLBs have in common.
type Instance struct {
	ID            string
	Name          string
	Address       string // IP address, or DNS name of an NLB
	AddressType   string // "internet" or "intranet", as the annotation has it
	IPVersion     string // "ipv4", "ipv6", or "DualStack" of an NLB
	ResourceGroup string
	VPC           string            // ID; empty for a CLB that faces the internet
	Tags          map[string]string // all of them, except where Reusable says otherwise

	CLB *cloud.LoadBalancer        // nil for an NLB
	NLB *cloud.NetworkLoadBalancer // nil for a CLB
}

// Kind returns "CLB" or "NLB".
func (i *Instance) Kind() string {
	if i.NLB != nil {
		return "NLB"
	}
	return "CLB"
}

// ByController reports whether the load balancer has a tag with which the controller refuses to reuse it.
func (i *Instance) ByController() bool {
	_, name := i.Tags[NameTag]
	_, cluster := i.Tags[ClusterTag]
	return name || cluster
}

func (i *Instance) active() bool {
	if i.NLB != nil {
		return i.NLB.Status == "Active"
	}
	return i.CLB.Status == "active"
}

// PrivateAdvice says how the Service gets a private CLB. address-type alone would fail the next sync. A Service with an address can't change
// to another CLB.
func PrivateAdvice(svc *corev1.Service, lb *Instance) say.Text {
	const kind = "address-type"
	id, _ := Annotation(svc, BalancerID)
	if id == lb.ID && !Synced(svc) {
		private := SetCommand(svc, kind, "intranet")
		return say.F("To reuse a private one, name it: %s, then %s.", SetCommand(svc, BalancerID, "LOAD-BALANCER-ID"), private).
			And("To have the controller create a private one: %s, then %s.", RemoveCommand(svc, BalancerID), private)
	}
	advice := say.F("For a private one, delete the Service and recreate it with the annotation %s%s: intranet. Its address changes.", Prefix, kind)
	if id == lb.ID {
		advice = advice.And("Name a private load balancer in the annotation %s there, or leave that annotation out.", AnnotationKey(svc, BalancerID))
	}
	return advice
}

// Classic returns the Instance of a CLB.
func Classic(lb cloud.LoadBalancer) *Instance {
	return &Instance{
		ID: lb.ID, Name: lb.Name, Address: lb.Address, AddressType: lb.AddressType, IPVersion: lb.IPVersion,
		ResourceGroup: lb.ResourceGroup, VPC: lb.VPC, Tags: lb.Tags, CLB: &lb,
	}
}

// Network returns the Instance of an NLB.
func Network(lb cloud.NetworkLoadBalancer) *Instance {
	return &Instance{
		ID: lb.ID, Name: lb.Name, Address: lb.DNSName, AddressType: strings.ToLower(lb.AddressType), IPVersion: lb.IPVersion,
		ResourceGroup: lb.ResourceGroup, VPC: lb.VPC, Tags: lb.Tags, NLB: &lb,
	}
}

// ReusableReads is what Reusable reads of CLBs; of NLBs it needs NetworkReads and DescribeClusterDetail.
var ReusableReads = []grant.Grant{grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.DescribeClusterDetail}

const (
	portsRead = 10 // most load balancers whose ports Reusable reads
	offered   = 5  // most that it names
)

// Reusable returns up to 5 load balancers that the Service could name in the annotation id: unused by their tags, with the wanted kind of
// address, reachable from the cluster's VPC, and without a listener on the Service's ports.
func (c *View) Reusable(ctx context.Context) ([]Instance, error) {
	vpc, err := c.ClusterVPC(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.list(ctx, search{})
	if err != nil {
		return nil, err
	}
	want, _ := Annotation(c.Service, "address-type")
	want = strings.ToLower(cmp.Or(want, "internet"))
	var fit []Instance
	seen := 0
	for _, lb := range all {
		if !lb.active() || lb.ByController() || lb.Tags[ReusedTag] != "" || lb.AddressType != want || lb.VPC != "" && lb.VPC != vpc {
			continue
		}
		if seen++; seen > portsRead || len(fit) == offered {
			break
		}
		taken, err := c.takes(ctx, lb)
		if err != nil {
			return nil, err
		}
		if !taken {
			fit = append(fit, *lb)
		}
	}
	return fit, nil
}

func (c *View) takes(ctx context.Context, lb *Instance) (bool, error) {
	if lb.NLB == nil { // the list does not contain its ports
		whole, err := c.Cloud.SLB.LoadBalancer(ctx, lb.ID)
		if errors.Is(err, cloud.ErrNotFound) {
			return true, nil // deleted meanwhile
		}
		if err != nil {
			return false, fmt.Errorf("describe load balancer %s: %w", lb.ID, err)
		}
		lb = Classic(whole)
	}
	ports, err := c.ListenerPorts(ctx, lb)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return slices.ContainsFunc(ports, func(l Listener) bool { return l.Has(int(p.Port)) })
	}), nil
}
