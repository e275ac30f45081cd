package ccm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// PlaceReads is what Places reads; a class that calls it declares it.
var PlaceReads = append([]grant.Grant{grant.DescribeAvailableResource}, VPCReads...)

// Places are where the load balancer that the Service asks for can be made: zones for a CLB of its kind; vSwitches for an NLB and a private CLB.
type Places struct {
	AddressType string           // "internet" or "intranet"
	IPVersion   string           // "ipv4" or "ipv6"
	Wrong       say.Text         // the annotations that leave these two open, and the zones unknown
	Correct     string           // command that sets one of these annotations to its default
	Asked       cloud.ZonePair   // what the Service asks for; a zone is empty if the cloud chooses it
	InStock     bool             // the zones that the Service asks for have stock
	Others      []cloud.ZonePair // other zones that have stock
	VPC         VPC              // of an NLB or a private CLB
}

// Usual returns the default values of annotations, by their short names.
func Usual() map[string]string { return maps.Clone(usual) }

var usual = map[string]string{"address-type": "internet", "ip-version": "ipv4"}

// Places returns where the load balancer that the Service asks for can be made.
func (c *View) Places(ctx context.Context) (Places, error) {
	p := Places{AddressType: asked(c.Service, "address-type"), IPVersion: asked(c.Service, "ip-version")}
	var err error
	if NLB(c.Service) {
		p.VPC, err = c.VPC(ctx)
		return p, err
	}
	for _, f := range Faults(c.Service) {
		if usual[f.Name] == "" {
			continue
		}
		p.Wrong = p.Wrong.And("The annotation %s is %s, but must be %s.", f.Name, Quote(f.Value), f.Allowed)
		p.Correct = cmp.Or(p.Correct, SetCommand(c.Service, f.Name, usual[f.Name]))
	}
	if len(p.Wrong) > 0 {
		return p, nil
	}
	zones, err := c.Cloud.SLB.Available(ctx, p.AddressType, p.IPVersion)
	if err != nil {
		return Places{}, fmt.Errorf("list zones with stock: %w", err)
	}
	p.choose(c.Service, zones)
	if p.Private() {
		p.VPC, err = c.VPC(ctx)
	}
	return p, err
}

func asked(svc *corev1.Service, short string) string {
	value, _ := Annotation(svc, short)
	return cmp.Or(value, usual[short])
}

func (p *Places) choose(svc *corev1.Service, zones []cloud.ZonePair) {
	p.Asked.Zone, _ = Annotation(svc, MasterZone)
	p.Asked.SlaveZone, _ = Annotation(svc, SlaveZone)
	for _, z := range zones {
		if z.Zone == p.Asked.Zone && (z.SlaveZone == p.Asked.SlaveZone || p.Asked.SlaveZone == "") {
			p.InStock = true
		} else {
			p.Others = append(p.Others, z)
		}
	}
}

// Private reports whether the load balancer gets a private address.
func (p Places) Private() bool { return p.AddressType == "intranet" }

// DescribeAsked says which zones the Service asks for its CLB.
func (p Places) DescribeAsked() say.Text {
	if p.Asked == (cloud.ZonePair{}) {
		return say.F("The Service names no zones, and Alibaba Cloud chose them.")
	}
	var text say.Text
	if p.Asked.Zone != "" {
		text = text.And("The Service asks for the primary zone %s.", Quote(p.Asked.Zone))
	}
	if p.Asked.SlaveZone != "" {
		text = text.And("The Service asks for the standby zone %s.", Quote(p.Asked.SlaveZone))
	}
	return text
}

// DescribeZonePairs lists pairs of a primary and a standby zone.
func DescribeZonePairs(pairs []cloud.ZonePair) say.Text {
	var list []string
	for _, z := range pairs {
		list = append(list, strings.TrimSuffix(z.Zone+"/"+z.SlaveZone, "/"))
	}
	return say.List(list, 6)
}
