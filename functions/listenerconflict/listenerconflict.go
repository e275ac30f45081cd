// Package listenerconflict asks about ports that another listener uses.
package listenerconflict

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks who should get the port.
var Remedy = &remedy.Remedy{
	Class: "listener-conflict",
	Doc:   doc,
	Codes: []string{"ListenerAlreadyExists", "InvalidParameter.ListenerPortConflict", "PortProtocolConflict", "Conflict.Port"},
	Texts: []string{
		"listener with the specified port already exists",
		"There is conflict listener port exists",
		"ListenerPort is conflict with other listener",
		"The Port * is conflict", // of NLB
	},
	Reads:    slices.Concat(ccm.BoundReads, ccm.DriftReads, ccm.NetworkReads),
	Diagnose: diagnose,
}

// forceOverride, if "true", makes the controller manage the listeners of a load
// balancer that is not its own.
const forceOverride = "force-override-listeners"

// soon is how long the controller takes to try again by itself at most.
const soon = 5 * time.Minute

// A listener is one of either kind of load balancer.
type listener struct {
	id          string // of an NLB's
	port, last  int    // last of a range; else the same
	protocol    string
	description string
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer("its listeners"), nil
	}
	listeners, err := read(ctx, c, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	var taken, own []string
	var ports []int32
	var theirs []listener
	for _, p := range c.Service.Spec.Ports {
		for _, l := range listeners {
			if int(p.Port) < l.port || int(p.Port) > l.last || !shares(string(p.Protocol), l.protocol) {
				continue
			}
			if t, ok := ccm.ParseTrace(l.description); ok && t.Of(c.Service, c.Cluster) {
				own = append(own, l.String())
				continue
			}
			taken = append(taken, fmt.Sprintf("%s %s", l, l.owner(c)))
			ports = append(ports, p.Port)
			theirs = append(theirs, l)
		}
	}
	switch {
	case len(taken) == 0 && len(own) > 0:
		return remedy.Plan{
			Finding: fmt.Sprintf("%s has the listener %s, which is this Service's own: the controller replaces it in steps.", lb.ID, strings.Join(own, ", ")),
			Wait:    soon,
		}, nil
	case len(taken) == 0:
		return remedy.Plan{
			Finding: fmt.Sprintf("No listener of %s has a port of the Service now; the controller tries again by itself.", lb.ID),
			Wait:    soon,
		}, nil
	}
	zones := ""
	if named, _ := ccm.Annotation(c.Service, "zone-maps"); lb.NLB != nil && named == "" {
		zones = ", and say with zone-maps where the new one is to stand"
	}
	ways := []string{fmt.Sprintf("Give the Service another port: %s.", free(ports, listeners, c, lb.ID))}
	force, _ := ccm.Annotation(c.Service, forceOverride)
	_, reused := ccm.Annotation(c.Service, "id")
	switch {
	case reused && ccm.Synced(c.Service):
		// Without the annotation the controller would look for the load balancer of the address, and fail.
		ways = append(ways, fmt.Sprintf("Or give it a load balancer of its own: delete the Service and create it again without the annotation %s%s; its address changes then.", ccm.AnnotationKey(c.Service, "id"), zones))
	case reused:
		ways = append(ways, fmt.Sprintf("Or give it a load balancer of its own%s: %s.", zones, ccm.RemoveCommand(c.Service, "id")))
	}
	ways = append(ways, fmt.Sprintf("Or delete the listener, if nobody uses it: its traffic stops at once, and a Service that it belongs to makes it again. %s.", theirs[0].remove(c, lb)))
	byHand := slices.DeleteFunc(slices.Clone(theirs), func(l listener) bool { _, made := ccm.ParseTrace(l.description); return made })
	ranged := func(l listener) bool { return l.port != l.last }
	switch {
	case !reused || len(byHand) == 0:
	case force == "true":
		ways = append(ways, "The annotation force-override-listeners, which is \"true\", does not help here: the controller takes over only listeners of the same protocol and port.")
	case !slices.ContainsFunc(byHand, ranged): // what has a range of ports stays in the way
		ways = append(ways, fmt.Sprintf("Or let the controller take it over: %s. It then replaces the settings of every listener on the Service's ports by those of the annotations.", ccm.SetCommand(c.Service, forceOverride, "true")))
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("On %s the Service wants ports that others have: %s.", lb.ID, strings.Join(taken, "; ")),
		Cause:   lb.ID,
		Ask:     strings.Join(ways, " "),
	}, nil
}

func read(ctx context.Context, c *remedy.Case, lb *ccm.Instance) ([]listener, error) {
	var out []listener
	if lb.NLB != nil {
		list, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range list {
			first, last := l.Port, l.Port
			if l.Port == 0 {
				if _, err := fmt.Sscanf(l.First+" "+l.Last, "%d %d", &first, &last); err != nil {
					return nil, fmt.Errorf("read the port range %q to %q of listener %s: %w", l.First, l.Last, l.ID, err)
				}
			}
			out = append(out, listener{l.ID, first, last, strings.ToLower(l.Protocol), l.Description})
		}
		return out, nil
	}
	list, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	for _, l := range list {
		out = append(out, listener{"", l.Port, l.Port, l.Protocol, l.Description})
	}
	return out, nil
}

// shares reports whether a port of the Service and a listener can't stand side by
// side: only UDP and the others can.
func shares(protocol, other string) bool {
	return strings.EqualFold(protocol, "udp") == (other == "udp")
}

// String returns protocol and port.
func (l listener) String() string {
	if l.last != l.port {
		return fmt.Sprintf("%s:%d-%d", l.protocol, l.port, l.last)
	}
	return fmt.Sprintf("%s:%d", l.protocol, l.port)
}

// owner names the owner of the listener, as far as its description tells.
func (l listener) owner(c *remedy.Case) string {
	t, ok := ccm.ParseTrace(l.description)
	switch {
	case !ok && l.description == "":
		return "was made by hand and has no description"
	case !ok:
		return "was made by hand and is described as " + ccm.Quote(l.description)
	case t.Cluster != c.Cluster:
		return fmt.Sprintf("belongs to the Service %s of the cluster %s", t, t.Cluster)
	}
	return fmt.Sprintf("belongs to the Service %s of this cluster", t)
}

// remove returns the command that deletes the listener.
func (l listener) remove(c *remedy.Case, lb *ccm.Instance) string {
	if lb.NLB != nil {
		return fmt.Sprintf("aliyun nlb DeleteListener --RegionId %s --ListenerId %s", c.Cloud.Region(), l.id)
	}
	return fmt.Sprintf("aliyun slb DeleteLoadBalancerListener --RegionId %s --LoadBalancerId %s --ListenerPort %d --ListenerProtocol %s", c.Cloud.Region(), lb.ID, l.port, l.protocol)
}

// free names a few free ports near the taken ones.
func free(taken []int32, listeners []listener, c *remedy.Case, id string) string {
	var out []string
	for _, p := range taken {
		for candidate, n := int(p)+1, 0; candidate <= 65535 && n < 3; candidate++ {
			used := slices.ContainsFunc(listeners, func(l listener) bool { return l.port <= candidate && candidate <= l.last })
			for _, own := range c.Service.Spec.Ports {
				used = used || int(own.Port) == candidate
			}
			if text := fmt.Sprint(candidate); !used && !slices.Contains(out, text) {
				out = append(out, text)
				n++
			}
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("one below %d that no listener of %s has", slices.Min(taken), id)
	}
	return fmt.Sprintf("free on %s are %s", id, strings.Join(out, ", "))
}
