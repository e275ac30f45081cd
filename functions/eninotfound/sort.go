package eninotfound

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// endpoints are Pods behind a Service.
type endpoints []ccm.Endpoint

// unique returns them sorted by address, without duplicates.
func (e endpoints) unique() endpoints {
	slices.SortFunc(e, func(a, b ccm.Endpoint) int { return cmp.Compare(a.IP, b.IP) })
	return slices.CompactFunc(e, func(a, b ccm.Endpoint) bool { return a.IP == b.IP })
}

// describe names up to five of them, with address and node.
func (e endpoints) describe() say.Text {
	var parts []say.Text
	for _, p := range e {
		who := p.IP
		if p.Pod != "" {
			who = fmt.Sprintf("%s (%s)", p.Pod, p.IP)
		}
		if p.Node == "" {
			parts = append(parts, say.Literal(who))
			continue
		}
		parts = append(parts, say.F("%s on %s", who, p.Node))
	}
	return say.Clauses(parts, 5)
}

// recreate asks to give the endpoints other addresses.
func (e endpoints) recreate(svc *corev1.Service) say.Text {
	var names []string
	for _, p := range e {
		if p.Pod != "" && len(names) < 5 {
			names = append(names, p.Pod)
		}
	}
	if len(names) == 0 {
		list := fmt.Sprintf("kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s", svc.Namespace, svc.Name)
		return say.F("Correct the addresses in the EndpointSlices that a person created. To list them: %s.", list)
	}
	return say.F("Recreate the Pods to give them other addresses: %s.", fmt.Sprintf("kubectl -n %s delete pod %s", svc.Namespace, strings.Join(names, " ")))
}

func addresses(e endpoints) []string {
	var ips []string
	for _, p := range e {
		ips = append(ips, p.IP)
	}
	return ips
}

// sorted is the Pods, by what the VPC knows of their addresses.
type sorted struct {
	outside endpoints // in no address block of the VPC
	missing endpoints // no network interface has the address
	pending endpoints // an interface has it, but is not in use
	found   endpoints // an interface in use has it
	states  []string  // the interfaces that are not in use, with their states

	blocks []netip.Prefix
}

// sort sorts Pods by the blocks of the VPC and the interfaces in it.
func sort(pods endpoints, blocks []netip.Prefix, interfaces []cloud.Interface) sorted {
	s := sorted{blocks: blocks}
	for _, p := range pods {
		ip, err := netip.ParseAddr(p.IP)
		inside := err == nil && slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(ip) })
		i := slices.IndexFunc(interfaces, func(i cloud.Interface) bool { return i.IP == p.IP || slices.Contains(i.IPs, p.IP) })
		switch {
		case !inside:
			s.outside = append(s.outside, p)
		case i < 0:
			s.missing = append(s.missing, p)
		case interfaces[i].Status != "InUse":
			s.pending = append(s.pending, p)
			s.states = append(s.states, fmt.Sprintf("%s (%s)", interfaces[i].ID, interfaces[i].Status))
		default:
			s.found = append(s.found, p)
		}
	}
	return s
}

// says tells what the VPC knows of the Pods' addresses.
func (s sorted) says(vpc string) say.Text {
	var blocks []string
	for _, b := range s.blocks {
		blocks = append(blocks, b.String())
	}
	count := func(list endpoints) say.Text { return say.Count(len(list), "ready endpoint") }
	var text say.Text
	if len(s.outside) > 0 {
		text = text.And("No address block of the VPC %s (%s) contains the address of %s: %s.",
			vpc, strings.Join(blocks, ", "), count(s.outside), s.outside.describe())
	}
	if len(s.missing) > 0 {
		text = text.And("No network interface of the VPC %s has the address of %s: %s.", vpc, count(s.missing), s.missing.describe())
	}
	if len(s.pending) > 0 {
		text = text.And("The network interface of %s is not in use yet: %s. Interfaces: %s.", count(s.pending), s.pending.describe(), say.List(s.states, 5))
	}
	if len(s.found) > 0 {
		text = text.And("A network interface in use has the address of %s: %s.", count(s.found), s.found.describe())
	}
	if len(text) == 0 {
		return say.F("The Service has no ready endpoint.")
	}
	return text
}

// nodes returns the nodes of the Pods that have no interface.
func (s sorted) nodes() string {
	var nodes []string
	for _, p := range slices.Concat(s.outside, s.missing, s.pending) {
		if p.Node != "" && !slices.Contains(nodes, p.Node) {
			nodes = append(nodes, p.Node)
		}
	}
	slices.Sort(nodes)
	return remedy.List(nodes, 20)
}
