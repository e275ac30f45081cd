package ccm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Bound finds the load balancer that the controller would sync, Find also what the Service left behind, Serving the one with the Service's address.

// BalancerReads is what Find, Serving and Owner read; a class that calls them declares it.
var BalancerReads = []grant.Grant{
	grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.DescribeVServerGroups, grant.ListSLBTags,
	grant.DescribeClusterDetail, grant.DescribeEipAddresses, grant.GetCallerIdentity,
}

// BoundReads (for CLBs) and NetworkReads (for NLBs, with their owner) are what Bound and Find read; a class declares both.
var (
	BoundReads   = []grant.Grant{grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.ListSLBTags}
	NetworkReads = []grant.Grant{grant.ListNLBs, grant.GetNLB, grant.ListNLBTags, grant.ListNLBListeners}
)

// A Mark is how a load balancer was found.
type Mark string

// The marks.
const (
	ByLabel   Mark = "label"
	ByAddress Mark = "address"
	ByHost    Mark = "DNS name"
	ByEIP     Mark = "EIP"
	ByTag     Mark = "tag"
	ByName    Mark = "name"
)

// Text returns the mark for a sentence.
func (m Mark) Text() say.Text {
	switch m {
	case ByLabel:
		return say.F("label")
	case ByAddress:
		return say.F("address")
	case ByHost:
		return say.F("DNS name")
	case ByTag:
		return say.F("tag")
	case ByName:
		return say.F("name")
	}
	return say.Literal(string(m))
}

// A Found is the load balancer of a Service, as far as Find knows.
type Found struct {
	*Instance          // nil if not found
	By        Mark     // how it was found
	Gone      string   // the ID that the Service had and that does not exist according to the API
	Copied    bool     // a person may have written the label that names the load balancer, or the gone one, and its address does not confirm it
	Tagged    []string // IDs of all load balancers with the Service's name tag
	Where     say.Text // account and region that were searched
}

// Bind reports whether the mark proves that the Service was bound to the load balancer.
func (s Found) Bind() bool {
	return s.By == ByLabel && !s.Copied || s.By == ByAddress || s.By == ByEIP || s.By == ByHost
}

// Find finds the load balancer of the Service by the ID that the controller left on it, then by address, then by name tag and default name.
// It counts as gone only if the API says not found for a known ID: permissions limited by resource can return an empty list. It needs
// BalancerReads, or NetworkReads and GetCallerIdentity for an NLB.
func (c *View) Find(ctx context.Context) (Found, error) {
	who, err := c.Cloud.STS.Identity(ctx)
	if err != nil {
		return Found{}, fmt.Errorf("ask which account this is: %w", err)
	}
	s := Found{Where: say.F("account %s, region %s", who.Account, c.Cloud.Region())}
	tagged, err := c.Tagged(ctx)
	if err != nil {
		return Found{}, err
	}
	for _, lb := range tagged {
		s.Tagged = append(s.Tagged, lb.ID)
	}
	for _, look := range []func(context.Context, *Found) error{c.byLabel, c.byAddress, c.byMark} {
		if err := look(ctx, &s); err != nil {
			return Found{}, err
		}
		if s.Instance != nil {
			break
		}
	}
	return s, nil
}

// byLabel looks up the ID that the controller left on the Service. An NLB's DNS name is better evidence, unlike a CLB's address: it may be an EIP's.
func (c *View) byLabel(ctx context.Context, s *Found) error {
	id := c.Service.Labels[BalancerLabel]
	if id == "" {
		return nil
	}
	lb, err := c.describe(ctx, id)
	s.Copied = labelWritten(c.Service, BalancerLabel).IsZero() && (lb == nil || lb.Address != Address(c.Service))
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		s.Gone = id
		return nil
	case err != nil:
		return err
	case lb.NLB != nil && Synced(c.Service) && lb.Address != Address(c.Service):
		return nil
	}
	return c.found(ctx, s, id, ByLabel)
}

// byAddress looks up the Service's address. An NLB's DNS name is proof in any VPC. A CLB's private address may repeat across VPCs and counts
// only in the cluster's; any address may be that of an EIP in front of a CLB.
func (c *View) byAddress(ctx context.Context, s *Found) error {
	address := Address(c.Service)
	if address == "" {
		return nil
	}
	if NLB(c.Service) {
		lbs, err := c.list(ctx, search{address: address})
		if err != nil || len(lbs) != 1 {
			return err
		}
		return c.found(ctx, s, lbs[0].ID, ByHost)
	}
	vpc, err := c.ClusterVPC(ctx)
	if err != nil {
		return err
	}
	lbs, err := c.list(ctx, search{address: address})
	if err != nil {
		return err
	}
	for _, lb := range lbs {
		if lb.VPC == vpc || lb.AddressType == "internet" {
			return c.found(ctx, s, lb.ID, ByAddress)
		}
	}
	bound, err := c.Cloud.VPC.EIPs(ctx, address)
	if err != nil {
		return fmt.Errorf("list EIPs with the address %s: %w", address, err)
	}
	for _, id := range bound {
		if !strings.HasPrefix(id, "lb-") {
			continue
		}
		switch _, err := c.describe(ctx, id); {
		case errors.Is(err, cloud.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		return c.found(ctx, s, id, ByEIP)
	}
	return nil
}

// byMark takes the only load balancer with the Service's name tag, or if none has it, the only one with its default name.
func (c *View) byMark(ctx context.Context, s *Found) error {
	switch len(s.Tagged) {
	case 0:
	case 1:
		return c.found(ctx, s, s.Tagged[0], ByTag)
	default:
		return nil
	}
	named, err := c.ByDefaultName(ctx)
	if err != nil || len(named) != 1 {
		return err
	}
	return c.found(ctx, s, named[0].ID, ByName)
}

func (c *View) found(ctx context.Context, s *Found, id string, by Mark) error {
	lb, err := c.read(ctx, id)
	if err != nil {
		return err
	}
	s.Instance, s.By = lb, by
	return nil
}

// A Serving is the load balancer that has a Service's address.
type Serving struct {
	*Instance          // nil if not found
	Owner     Owner    // its owner
	Evidence  say.Text // for the owner
	Where     say.Text // account and region that were searched
	ByTag     bool     // the controller finds it by its name tag, without the annotation id
}

// Serving finds the load balancer with the Service's address, its tags and owner. It needs what Find and Owner need.
func (c *View) Serving(ctx context.Context) (Serving, error) {
	s, err := c.Find(ctx)
	if err != nil {
		return Serving{}, err
	}
	if s.By == ByLabel && s.Address != Address(c.Service) && (s.Copied || OwnAddress(c.Service)) { // the label may be older than the address
		s.Instance, s.By = nil, ""
		if err := c.byAddress(ctx, &s); err != nil {
			return Serving{}, err
		}
	}
	if !s.Bind() {
		return Serving{Where: s.Where}, nil
	}
	out := Serving{Instance: s.Instance, Where: s.Where, ByTag: len(s.Tagged) == 1 && s.Tagged[0] == s.ID}
	out.Owner, out.Evidence, err = c.Owner(ctx, s.Instance)
	return out, err
}

// Bound returns the load balancer that the controller syncs, found by the annotation id, else the name tag, else the default name
// (clbv1/loadbalancer.go); nil unless exactly one is found. An empty list proves nothing; see Find.
func (c *View) Bound(ctx context.Context) (*Instance, error) {
	if id, _ := Annotation(c.Service, "id"); id != "" {
		return c.Named(ctx, id)
	}
	marked, err := c.marked(ctx)
	if err != nil || len(marked) != 1 {
		return nil, err
	}
	return c.Named(ctx, marked[0].ID)
}

// None reports whether the Service has no load balancer: no annotation id, no address, and nothing found by name tag or default name. It
// relies on an empty list, so a later look may find more. It needs BoundReads, or NetworkReads.
func (c *View) None(ctx context.Context) (bool, error) {
	if id, _ := Annotation(c.Service, "id"); id != "" || Synced(c.Service) {
		return false, nil
	}
	marked, err := c.marked(ctx)
	return err == nil && len(marked) == 0, err
}

// Made returns an ID or address of the Service's load balancer for a sentence, or "". Settings fixed at creation can then no longer change.
func (c *View) Made(ctx context.Context) (string, error) {
	if id, _ := Annotation(c.Service, "id"); id != "" {
		return clipped(id), nil
	}
	if Synced(c.Service) {
		return Address(c.Service), nil
	}
	marked, err := c.marked(ctx)
	if err != nil || len(marked) == 0 {
		return "", err
	}
	return marked[0].ID, nil
}

// identifier matches IDs of load balancers. Anything else needs no request, and may be too long for one.
var identifier = regex.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// Identifier reports whether id can be the ID of a load balancer.
func Identifier(id string) bool { return identifier().MatchString(id) }

// Named returns the load balancer with this ID, of the Service's kind, with all its tags, or nil.
func (c *View) Named(ctx context.Context, id string) (*Instance, error) {
	if !identifier().MatchString(id) {
		return nil, nil
	}
	found, err := c.read(ctx, id)
	if errors.Is(err, cloud.ErrNotFound) {
		return nil, nil
	}
	return found, err
}

// read returns the load balancer with this ID, with its ports and all its tags, which no single call returns.
func (c *View) read(ctx context.Context, id string) (*Instance, error) {
	lb, err := c.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	if lb.NLB != nil {
		lb.Tags, err = c.Cloud.NLB.Tags(ctx, id)
		lb.NLB.Tags = lb.Tags
	} else {
		lb.Tags, err = c.Cloud.SLB.Tags(ctx, id)
		lb.CLB.Tags = lb.Tags
	}
	if err != nil {
		return nil, fmt.Errorf("list tags of load balancer %s: %w", id, err)
	}
	return lb, nil
}

// describe returns the load balancer with this ID, of the Service's kind, possibly without all its tags, or ErrNotFound.
func (c *View) describe(ctx context.Context, id string) (*Instance, error) {
	var lb *Instance
	var err error
	if NLB(c.Service) {
		var nlb cloud.NetworkLoadBalancer
		nlb, err = c.Cloud.NLB.LoadBalancer(ctx, id)
		lb = Network(nlb)
	} else {
		var clb cloud.LoadBalancer
		clb, err = c.Cloud.SLB.LoadBalancer(ctx, id)
		lb = Classic(clb)
	}
	if err != nil {
		return nil, fmt.Errorf("describe load balancer %s: %w", id, err)
	}
	return lb, nil
}

func (c *View) marked(ctx context.Context) ([]*Instance, error) {
	lbs, err := c.Tagged(ctx)
	if err != nil || len(lbs) > 0 {
		return lbs, err
	}
	return c.ByDefaultName(ctx)
}

// Tagged returns the load balancers with the Service's name tag, with the tags in the list. The controller needs exactly one.
func (c *View) Tagged(ctx context.Context) ([]*Instance, error) {
	return c.list(ctx, search{tag: DefaultName(c.Service)})
}

// ByDefaultName returns the load balancers with the Service's default name; see Tagged.
func (c *View) ByDefaultName(ctx context.Context) ([]*Instance, error) {
	return c.list(ctx, search{name: DefaultName(c.Service)})
}

type search struct {
	tag     string // value of the name tag
	name    string
	address string // IP address, or DNS name of an NLB
}

func (s search) String() string {
	switch {
	case s.tag != "":
		return " with the tag " + NameTag + "=" + s.tag
	case s.name != "":
		return " named " + s.name
	case s.address != "":
		return " with the address " + s.address
	}
	return ""
}

// list returns the load balancers of the Service's kind that match exactly; the API may match names loosely.
func (c *View) list(ctx context.Context, by search) ([]*Instance, error) {
	key := ""
	if by.tag != "" {
		key = NameTag
	}
	var out []*Instance
	var err error
	if NLB(c.Service) {
		var lbs []cloud.NetworkLoadBalancer
		lbs, err = c.Cloud.NLB.Find(ctx, cloud.NLBFilter{TagKey: key, TagValue: by.tag, Name: by.name, DNSName: by.address})
		for _, lb := range lbs {
			out = append(out, Network(lb))
		}
	} else {
		var lbs []cloud.LoadBalancer
		lbs, err = c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{TagKey: key, TagValue: by.tag, Name: by.name, Address: by.address})
		for _, lb := range lbs {
			out = append(out, Classic(lb))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list load balancers%s: %w", by, err)
	}
	return slices.DeleteFunc(out, func(lb *Instance) bool {
		return by.name != "" && lb.Name != by.name || by.address != "" && lb.Address != by.address
	}), nil
}
