package remedy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// What finding the load balancer that a Service is synced with reads: BoundReads
// for CLBs, NetworkReads for NLBs, also whose an NLB is and what a full sync would
// change on it. A class that calls Bound, Network or WithDrift declares them.
var (
	BoundReads   = []grant.Grant{grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.ListSLBTags}
	NetworkReads = []grant.Grant{grant.ListNLBs, grant.GetNLB, grant.ListNLBTags, grant.ListNLBListeners}
)

// An Instance is a load balancer of either kind, as far as the two are alike.
type Instance struct {
	ID            string
	Name          string
	Address       string // IP address; of an NLB its DNS name
	AddressType   string // "internet" or "intranet", as the annotation has it
	IPVersion     string // "ipv4", "ipv6", or "DualStack" of an NLB
	ResourceGroup string
	VPC           string            // ID; empty for a CLB that faces the internet
	Tags          map[string]string // all of them, except where Reusable says otherwise

	CLB *cloud.LoadBalancer        // nil: it is an NLB
	NLB *cloud.NetworkLoadBalancer // nil: it is a CLB
}

// Kind returns "CLB" or "NLB".
func (i *Instance) Kind() string {
	if i.NLB != nil {
		return "NLB"
	}
	return "CLB"
}

// ByController reports whether the load balancer carries a tag by which the
// controller refuses to reuse it, whatever its value.
func (i *Instance) ByController() bool {
	_, name := i.Tags[NameTag]
	_, cluster := i.Tags[ClusterTag]
	return name || cluster
}

func classic(lb cloud.LoadBalancer) *Instance {
	return &Instance{
		ID: lb.ID, Name: lb.Name, Address: lb.Address, AddressType: lb.AddressType, IPVersion: lb.IPVersion,
		ResourceGroup: lb.ResourceGroup, VPC: lb.VPC, Tags: lb.Tags, CLB: &lb,
	}
}

func network(lb cloud.NetworkLoadBalancer) *Instance {
	return &Instance{
		ID: lb.ID, Name: lb.Name, Address: lb.DNSName, AddressType: strings.ToLower(lb.AddressType), IPVersion: lb.IPVersion,
		ResourceGroup: lb.ResourceGroup, VPC: lb.VPC, Tags: lb.Tags, NLB: &lb,
	}
}

// identifier is what IDs of load balancers look like. What doesn't is no ID: there
// is no need to ask, and it may be too long for a request.
var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// Bound returns the load balancer that the controller syncs the case's Service
// with, found as the controller finds it: the one that the annotation id names,
// else the one that has the Service's name tag, else the one that has its default
// name (pkg/controller/service/clbv1/loadbalancer.go). It is nil if there is none,
// or not exactly one. An empty list proves nothing: see Balancer.
func (c *Case) Bound(ctx context.Context) (*Instance, error) {
	if id, _ := Annotation(c.Service, "id"); id != "" {
		return c.Named(ctx, id)
	}
	name := DefaultName(c.Service)
	for _, by := range []struct{ what, tag, name string }{
		{"with the tag " + NameTag + "=" + name, name, ""}, {"named " + name, "", name},
	} {
		ids, err := c.list(ctx, by.tag, by.name)
		if err != nil {
			return nil, fmt.Errorf("list load balancers %s: %w", by.what, err)
		}
		if len(ids) > 1 {
			return nil, nil
		}
		if len(ids) == 1 {
			return c.Named(ctx, ids[0])
		}
	}
	return nil, nil
}

// Named returns the load balancer with this ID, of the kind that the Service
// wants, with all its tags; nil if the API says that there is none.
func (c *Case) Named(ctx context.Context, id string) (*Instance, error) {
	if !identifier.MatchString(id) {
		return nil, nil
	}
	found, err := c.read(ctx, id)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read load balancer %s: %w", id, err)
	}
	return found, nil
}

func (c *Case) read(ctx context.Context, id string) (*Instance, error) {
	if NLB(c.Service) {
		lb, err := c.Cloud.NLB.LoadBalancer(ctx, id)
		if err == nil {
			lb.Tags, err = c.Cloud.NLB.Tags(ctx, id)
		}
		return network(lb), err
	}
	lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
	if err == nil {
		lb.Tags, err = c.Cloud.SLB.Tags(ctx, id)
	}
	return classic(lb), err
}

// Unfound is the plan for a failure about a load balancer that Bound does not
// find: there is nothing to compare the annotations with. What is, as the end of a
// sentence, is what a person would compare, such as "its resource group".
func (c *Case) Unfound(what string) Plan {
	name := DefaultName(c.Service)
	finding := fmt.Sprintf("Not exactly one load balancer of the Service was found, neither by the tag %s=%s nor by the name %s, so that there is nothing to compare its annotations with. An empty list is no proof that there is none.", NameTag, name, name)
	if id, _ := Annotation(c.Service, "id"); id != "" {
		finding = fmt.Sprintf("The annotation id names %s, and the API knows no such load balancer in %s, so that there is nothing to compare the other annotations with.", Quote(id), c.Cloud.Region())
	}
	ask := fmt.Sprintf("Find the load balancer of the Service in the console and compare %s with the annotations of the Service.", what)
	if address := Address(c.Service); address != "" {
		ask += fmt.Sprintf(" The Service's address is %s.", address)
	}
	return Plan{Finding: finding, Ask: ask}
}

// list returns the IDs of the load balancers with this value of the name tag, or
// with exactly this name: the API may match names loosely.
func (c *Case) list(ctx context.Context, tag, name string) ([]string, error) {
	var ids []string
	key := ""
	if tag != "" {
		key = NameTag
	}
	if NLB(c.Service) {
		lbs, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{TagKey: key, TagValue: tag, Name: name})
		for _, lb := range lbs {
			if name == "" || lb.Name == name {
				ids = append(ids, lb.ID)
			}
		}
		return ids, err
	}
	lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{TagKey: key, TagValue: tag, Name: name})
	for _, lb := range lbs {
		if name == "" || lb.Name == name {
			ids = append(ids, lb.ID)
		}
	}
	return ids, err
}

// A Serving is the load balancer that has a Service's address.
type Serving struct {
	*Instance        // nil: none was found
	Owner     Owner  // whose it is
	Evidence  string // for that, as a sentence
	Where     string // account and region that were asked
	ByTag     bool   // the controller finds it by its name tag, without the annotation id
}

// Serving finds the load balancer that has the Service's ingress address, of
// either kind, with its tags, and whose it is. It needs BalancerReads, or
// NetworkReads and GetCallerIdentity for an NLB.
func (c *Case) Serving(ctx context.Context) (Serving, error) {
	if NLB(c.Service) {
		n, err := c.Network(ctx)
		if err != nil {
			return Serving{}, err
		}
		s := Serving{Where: n.Where}
		if n.LB == nil || n.LB.DNSName != Address(c.Service) {
			return s, nil
		}
		s.Instance = network(*n.LB)
		s.ByTag = len(n.Tagged) == 1 && n.Tagged[0].ID == s.ID
		s.Owner, s.Evidence, err = c.NetworkOwner(ctx, n.LB)
		return s, err
	}
	b, err := c.Balancer(ctx)
	if err != nil {
		return Serving{}, err
	}
	s := Serving{Where: b.Where}
	ip := Address(c.Service)
	if b.LB != nil && b.By == "label" && b.LB.Address != ip && ownAddress(c.Service) {
		lb, by, err := c.byAddress(ctx, ip)
		if err != nil {
			return s, err
		}
		b.LB = nil
		if lb != nil {
			if b, err = c.found(ctx, b, *lb, by); err != nil {
				return s, err
			}
		}
	}
	if b.LB == nil || b.By == "tag" || b.By == "name" {
		return s, nil
	}
	s.Instance = classic(*b.LB)
	s.ByTag = len(b.Tagged) == 1 && b.Tagged[0].ID == s.ID
	s.Owner, s.Evidence, err = c.Owner(ctx, b.LB)
	return s, err
}

// ReusableReads is what Reusable reads of CLBs; of NLBs it needs NetworkReads and
// DescribeClusterDetail.
var ReusableReads = []grant.Grant{grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.DescribeClusterDetail}

const (
	looked  = 10 // load balancers whose ports are read for Reusable
	offered = 5  // of them are named
)

// Reusable returns up to 5 load balancers that the Service could use by the
// annotation id: in use by nobody as far as their tags tell, with the kind of
// address that the Service asks for, within reach of the cluster's VPC, and with
// no listener on a port of the Service.
func (c *Case) Reusable(ctx context.Context) ([]Instance, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	var all []*Instance
	if NLB(c.Service) {
		lbs, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{})
		if err != nil {
			return nil, fmt.Errorf("list NLBs: %w", err)
		}
		for _, lb := range lbs {
			if lb.Status == "Active" {
				all = append(all, network(lb))
			}
		}
	} else {
		lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{})
		if err != nil {
			return nil, fmt.Errorf("list load balancers: %w", err)
		}
		for _, lb := range lbs {
			if lb.Status == "active" {
				all = append(all, classic(lb))
			}
		}
	}
	want, _ := Annotation(c.Service, "address-type")
	want = strings.ToLower(or(want, "internet"))
	var fit []Instance
	seen := 0
	for _, lb := range all {
		if lb.ByController() || lb.Tags[ReusedTag] != "" || lb.AddressType != want || lb.VPC != "" && lb.VPC != cluster.VPC {
			continue
		}
		if seen++; seen > looked || len(fit) == offered {
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

// takes reports whether the load balancer has a listener on a port of the Service.
func (c *Case) takes(ctx context.Context, lb *Instance) (bool, error) {
	var ports []int
	if lb.NLB != nil {
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return false, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range listeners {
			ports = append(ports, l.Port)
		}
	} else {
		whole, err := c.Cloud.SLB.LoadBalancer(ctx, lb.ID)
		if errors.Is(err, cloud.ErrNotFound) {
			return true, nil // it went meanwhile
		}
		if err != nil {
			return false, fmt.Errorf("describe load balancer %s: %w", lb.ID, err)
		}
		for _, l := range whole.Ports {
			ports = append(ports, l.Port)
		}
	}
	for _, p := range c.Service.Spec.Ports {
		if slices.Contains(ports, int(p.Port)) {
			return true, nil
		}
	}
	return false, nil
}
