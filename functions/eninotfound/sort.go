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
)

// endpoints are Pods behind a Service.
type endpoints []ccm.Endpoint

// unique returns them by address, each once.
func (e endpoints) unique() endpoints {
	slices.SortFunc(e, func(a, b ccm.Endpoint) int { return cmp.Compare(a.IP, b.IP) })
	return slices.CompactFunc(e, func(a, b ccm.Endpoint) bool { return a.IP == b.IP })
}

// describe names up to five of them, with address and node.
func (e endpoints) describe() string {
	var parts []string
	for _, p := range e {
		part := p.IP
		if p.Pod != "" {
			part = fmt.Sprintf("%s (%s)", p.Pod, p.IP)
		}
		if p.Node != "" {
			part += " on " + p.Node
		}
		parts = append(parts, part)
	}
	return remedy.List(parts, 5)
}

// anew says how the endpoints get other addresses.
func (e endpoints) anew(svc *corev1.Service) string {
	var names []string
	for _, p := range e {
		if p.Pod != "" && len(names) < 5 {
			names = append(names, p.Pod)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("Correct the addresses in the EndpointSlices that a person wrote: kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s finds them.", svc.Namespace, svc.Name)
	}
	return fmt.Sprintf("Have the Pods made anew, so that they get other addresses: kubectl -n %s delete pod %s.", svc.Namespace, strings.Join(names, " "))
}

func addresses(e endpoints) []string {
	var ips []string
	for _, p := range e {
		ips = append(ips, p.IP)
	}
	return ips
}

// sorted are the Pods by what the VPC knows of their addresses.
type sorted struct {
	outside endpoints // not in an address block of the VPC
	missing endpoints // no network interface has it
	pending endpoints // one has it, and is not in use
	found   endpoints // one in use has it
	states  []string  // of the interfaces that are not in use

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
			s.states = append(s.states, interfaces[i].ID+" is "+interfaces[i].Status)
		default:
			s.found = append(s.found, p)
		}
	}
	return s
}

// says returns what the VPC knows of the Pods' addresses, as sentences.
func (s sorted) says(vpc string) string {
	var parts []string
	say := func(list endpoints, format string, more ...any) {
		if len(list) > 0 {
			parts = append(parts, fmt.Sprintf(format, append([]any{ccm.Count(len(list), "ready endpoint"), list.describe()}, more...)...))
		}
	}
	var blocks []string
	for _, b := range s.blocks {
		blocks = append(blocks, b.String())
	}
	say(s.outside, "The address of %s is in no address block of the VPC %[3]s (%[4]s): %[2]s.", vpc, strings.Join(blocks, ", "))
	say(s.missing, "No network interface of the VPC %[3]s has the address of %[1]s: %[2]s.", vpc)
	say(s.pending, "The network interface of %s is not in use yet: %s; %[3]s.", remedy.List(s.states, 5))
	say(s.found, "The address of %s has a network interface in use: %s.")
	if len(parts) == 0 {
		return "The Service has no ready endpoint."
	}
	return strings.Join(parts, " ")
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
