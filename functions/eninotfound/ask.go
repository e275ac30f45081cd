package eninotfound

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

func describe(known ccm.Addresses, vpc string) (text say.Text) {
	count := func(list []ccm.Endpoint) say.Text { return say.Count(len(list), "ready endpoint") }
	if list := known.Outside; len(list) > 0 {
		var blocks []string
		for _, b := range known.Blocks {
			blocks = append(blocks, b.String())
		}
		text = text.And("No address block of the VPC %s (%s) contains the address of %s: %s.", vpc, strings.Join(blocks, ", "), count(list), names(list))
	}
	if list := known.Missing; len(list) > 0 {
		text = text.And("No network interface of the VPC %s has the address of %s: %s.", vpc, count(list), names(list))
	}
	if list := known.Pending; len(list) > 0 {
		text = text.And("The network interface of %s is not in use yet: %s. Interfaces: %s.", count(list), names(list), say.List(known.States, 5))
	}
	if list := known.Found; len(list) > 0 {
		text = text.And("A network interface in use has the address of %s: %s.", count(list), names(list))
	}
	if len(text) == 0 {
		return say.F("The Service has no ready endpoint.")
	}
	return text
}

func names(pods []ccm.Endpoint) say.Text {
	var parts []say.Text
	for _, p := range pods {
		who := p.IP
		if p.Pod != "" {
			who = p.Pod + " (" + p.IP + ")"
		}
		if p.Node == "" {
			parts = append(parts, say.Literal(who))
		} else {
			parts = append(parts, say.F("%s on %s", who, p.Node))
		}
	}
	return say.Clauses(parts, 5)
}

func nodes(pods []ccm.Endpoint) string {
	var nodes []string
	for _, p := range pods {
		if p.Node != "" {
			nodes = append(nodes, p.Node)
		}
	}
	slices.Sort(nodes)
	return remedy.List(slices.Compact(nodes), 20)
}

func recreate(svc *corev1.Service, pods []ccm.Endpoint) say.Text {
	var names []string
	for _, p := range pods {
		if p.Pod != "" && len(names) < 5 {
			names = append(names, p.Pod)
		}
	}
	if len(names) == 0 {
		return say.F("Correct the addresses in the EndpointSlices that a person created. To list them: %s.", ccm.SlicesCommand(svc))
	}
	return say.F("Recreate the Pods to give them other addresses: %s.", ccm.DeletePodsCommand(svc, names))
}
