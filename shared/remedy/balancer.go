package remedy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// BalancerReads is what finding a Service's load balancer, and whose it is, reads.
// A class that calls Balancer or Owner declares it.
var BalancerReads = []grant.Grant{
	grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.DescribeVServerGroups, grant.ListSLBTags,
	grant.DescribeClusterDetail, grant.DescribeEipAddresses, grant.GetCallerIdentity,
}

// A Balancer is what could be found out about the load balancer of a Service.
type Balancer struct {
	LB     *cloud.LoadBalancer  // nil: none was found
	By     string               // how it was found: "label", "address", "EIP", "tag" or "name"
	Gone   string               // an ID that the Service had and that the API says does not exist
	Tagged []cloud.LoadBalancer // all that carry the Service's name tag
	Where  string               // account and region that were asked
}

// Balancer finds the load balancer of the case's Service: by the ID that the
// controller left on it, then by its address within the cluster's VPC, then by
// an EIP of that address, then by name tag and default name. An LB counts as
// gone only if the API says not found for a known ID; an empty list proves
// nothing, because permissions that are limited by resource give empty lists.
func (c *Case) Balancer(ctx context.Context) (Balancer, error) {
	var b Balancer
	who, err := c.Cloud.STS.Identity(ctx)
	if err != nil {
		return b, fmt.Errorf("ask which account this is: %w", err)
	}
	b.Where = fmt.Sprintf("account %s, region %s", who.Account, c.Cloud.Region())

	name := DefaultName(c.Service)
	b.Tagged, err = c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{TagKey: NameTag, TagValue: name})
	if err != nil {
		return b, fmt.Errorf("list load balancers with the tag %s=%s: %w", NameTag, name, err)
	}
	if id := c.Service.Labels[BalancerLabel]; id != "" {
		lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
		switch {
		case err == nil:
			return c.found(ctx, b, lb, "label")
		case !errors.Is(err, cloud.ErrNotFound):
			return b, fmt.Errorf("describe load balancer %s: %w", id, err)
		}
		b.Gone = id
	}
	if ip := Address(c.Service); ip != "" {
		lb, by, err := c.byAddress(ctx, ip)
		if err != nil {
			return b, err
		}
		if lb != nil {
			return c.found(ctx, b, *lb, by)
		}
	}
	if len(b.Tagged) == 1 {
		return c.found(ctx, b, b.Tagged[0], "tag")
	}
	if len(b.Tagged) == 0 {
		named, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{Name: name})
		if err != nil {
			return b, fmt.Errorf("list load balancers named %s: %w", name, err)
		}
		// The API may match names loosely.
		named = slices.DeleteFunc(named, func(lb cloud.LoadBalancer) bool { return lb.Name != name })
		if len(named) == 1 {
			return c.found(ctx, b, named[0], "name")
		}
	}
	return b, nil
}

// byAddress looks a load balancer up by its address, directly or behind an EIP.
// Private addresses repeat across VPCs, so a private one counts only in the cluster's.
func (c *Case) byAddress(ctx context.Context, ip string) (*cloud.LoadBalancer, string, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("describe the cluster: %w", err)
	}
	lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{Address: ip})
	if err != nil {
		return nil, "", fmt.Errorf("list load balancers with the address %s: %w", ip, err)
	}
	for _, lb := range lbs {
		if lb.Address == ip && (lb.VPC == cluster.VPC || lb.AddressType == "internet") {
			return &lb, "address", nil
		}
	}
	eips, err := c.Cloud.VPC.EIPs(ctx, ip)
	if err != nil {
		return nil, "", fmt.Errorf("list EIPs with the address %s: %w", ip, err)
	}
	for _, eip := range eips {
		if !strings.HasPrefix(eip.InstanceID, "lb-") {
			continue
		}
		lb, err := c.Cloud.SLB.LoadBalancer(ctx, eip.InstanceID)
		if errors.Is(err, cloud.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("describe load balancer %s: %w", eip.InstanceID, err)
		}
		return &lb, "EIP", nil
	}
	return nil, "", nil
}

// found completes a load balancer with its tags and ports, which no single call returns.
func (c *Case) found(ctx context.Context, b Balancer, lb cloud.LoadBalancer, by string) (Balancer, error) {
	whole, err := c.Cloud.SLB.LoadBalancer(ctx, lb.ID)
	if err != nil {
		return b, fmt.Errorf("describe load balancer %s: %w", lb.ID, err)
	}
	whole.Tags, err = c.Cloud.SLB.Tags(ctx, lb.ID)
	if err != nil {
		return b, fmt.Errorf("list tags of load balancer %s: %w", lb.ID, err)
	}
	b.LB, b.By = &whole, by
	return b, nil
}

// An Owner says whose a load balancer is.
type Owner int

// The owners. Only cloud-side proof makes an LB the Service's own; where neither
// side is proven, a person is asked.
const (
	Unproven     Owner = iota
	Own                // made by the controller for this Service
	OtherService       // made by the controller for another Service, or shared with one
	Users              // made by a person, or reused at a person's wish
	APIServer          // the cluster's own API server stands behind it
)

// Owner finds out whose the load balancer is, and the evidence, as a sentence.
func (c *Case) Owner(ctx context.Context, lb *cloud.LoadBalancer) (Owner, string, error) {
	for _, p := range lb.Ports {
		if p.Port == apiServerPort && lb.Tags[ClusterTag] != "" {
			return APIServer, servesAPI(lb.ID), nil
		}
	}
	if lb.Tags[ReusedTag] != "" {
		return Users, reusedBy(lb.ID), nil
	}
	groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return Unproven, "", fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	m := traces{id: lb.ID, tags: lb.Tags, reason: lb.ProtectionReason, cluster: c.Event.Cluster, what: "vServer group"}
	for _, g := range groups {
		m.add(c, g.Name)
	}
	owner, evidence := m.judge()
	return owner, evidence, nil
}

func servesAPI(id string) string {
	return fmt.Sprintf("%s has the tag %s and a listener on port %d: it is the API server's.", id, ClusterTag, apiServerPort)
}

func reusedBy(id string) string {
	return fmt.Sprintf("%s has the tag %s: a person made it and the Service reused it.", id, ReusedTag)
}

// traces are what tells whose a load balancer is.
type traces struct {
	id           string
	tags         map[string]string
	reason       string // of its modification protection
	cluster      string
	what         string   // what names Services: "vServer group" or "listener"
	ours, others []string // names of this Service's; the other Services that are named
}

// add notes a name that the controller may have given.
func (m *traces) add(c *Case, name string) {
	switch svc, ok := traceService(name, m.cluster); {
	case !ok:
	case svc == c.Service.Namespace+"/"+c.Service.Name:
		m.ours = append(m.ours, name)
	default:
		m.others = append(m.others, svc)
	}
}

func (m *traces) judge() (Owner, string) {
	byController := m.reason == ManagedByACK || m.tags[ClusterTag] == m.cluster
	switch {
	case len(m.others) > 0:
		slices.Sort(m.others)
		return OtherService, fmt.Sprintf("%s serves other Services too: %s.", m.id, strings.Join(slices.Compact(m.others), ", "))
	case byController && len(m.ours) > 0:
		return Own, fmt.Sprintf("%s was made by the controller (%s) and has the %s %s of this Service.", m.id, m.proof(), m.what, m.ours[0])
	case !byController && m.tags[ClusterTag] == "" && m.tags[NameTag] == "":
		return Users, fmt.Sprintf("%s carries no tag of the controller and is not protected by it: a person made it.", m.id)
	}
	return Unproven, fmt.Sprintf("%s is neither proven to be this Service's own nor a person's: %s, and %s of this Service.", m.id, m.proof(), m.count())
}

// count says how many names of this Service there are.
func (m *traces) count() string {
	switch len(m.ours) {
	case 0:
		return "no " + m.what
	case 1:
		return "1 " + m.what
	}
	return fmt.Sprintf("%d %ss", len(m.ours), m.what)
}

func (m *traces) proof() string {
	switch {
	case m.tags[ClusterTag] == m.cluster:
		return fmt.Sprintf("tag %s=%s", ClusterTag, m.cluster)
	case m.reason == ManagedByACK:
		return "protection reason " + ManagedByACK
	case m.tags[ClusterTag] != "":
		return fmt.Sprintf("tag %s=%s of another cluster", ClusterTag, m.tags[ClusterTag])
	}
	return "no mark of the controller"
}

// TagsFull reports whether the load balancer can take no further tag. A CLB and
// an NLB can each carry 20.
func TagsFull(lb *Instance) bool { return len(lb.Tags) >= maxBalancerTag }

// A Sought is a Service's load balancer of either kind, as Balancer and Network
// look for it.
type Sought struct {
	*Instance          // nil: none was found
	By        string   // how it was found: "label", "address", "DNS name", "EIP", "tag" or "name"
	Gone      string   // an ID that the Service had and that the API says does not exist
	Tagged    []string // IDs of all that carry the Service's name tag
	Where     string   // account and region that were asked
}

// Bind reports whether how it was found shows that the Service was bound to it.
func (s Sought) Bind() bool {
	return s.By == "label" || s.By == "address" || s.By == "EIP" || s.By == "DNS name"
}

// Seek finds the load balancer of the case's Service by whatever it left behind.
// It needs BalancerReads, or NetworkReads and GetCallerIdentity for an NLB.
func (c *Case) Seek(ctx context.Context) (Sought, error) {
	if NLB(c.Service) {
		n, err := c.Network(ctx)
		if err != nil {
			return Sought{}, err
		}
		s := Sought{By: n.By, Gone: n.Gone, Where: n.Where}
		if n.LB != nil {
			s.Instance = network(*n.LB)
		}
		for _, lb := range n.Tagged {
			s.Tagged = append(s.Tagged, lb.ID)
		}
		return s, nil
	}
	b, err := c.Balancer(ctx)
	if err != nil {
		return Sought{}, err
	}
	s := Sought{By: b.By, Gone: b.Gone, Where: b.Where}
	if b.LB != nil {
		s.Instance = classic(*b.LB)
	}
	for _, lb := range b.Tagged {
		s.Tagged = append(s.Tagged, lb.ID)
	}
	return s, nil
}

// OwnerOf finds out whose the load balancer is, as Owner and NetworkOwner do.
func (c *Case) OwnerOf(ctx context.Context, lb *Instance) (Owner, string, error) {
	if lb.NLB != nil {
		return c.NetworkOwner(ctx, lb.NLB)
	}
	return c.Owner(ctx, lb.CLB)
}
