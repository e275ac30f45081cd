package badannotation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// mendable returns the names of the annotations of which real can say what the load
// balancer has: nothing else is ever set right.
func mendable() []string {
	var names []string
	for _, r := range ccm.ValueRules() {
		switch r.Name {
		case bandwidth, zoneMaps, protocolPort, forwardPort:
		default:
			if r.Param == "" {
				continue
			}
		}
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// real returns what the load balancer has in place of what the annotation asks
// for, as the annotation would say it; empty if there is none, or no one value.
func real(ctx context.Context, c *remedy.Case, lb *ccm.Instance, f fault) (string, error) {
	switch {
	case lb == nil:
		return "", nil
	case lb.NLB != nil && f.Name == zoneMaps:
		return ccm.ZoneMaps(lb.NLB), nil
	case lb.NLB != nil && f.Name == protocolPort:
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		var pairs []string
		for _, l := range listeners {
			pairs = append(pairs, strings.ToLower(l.Protocol)+":"+strconv.Itoa(l.Port))
		}
		return ofPorts(c, pairs), nil
	case lb.CLB != nil && f.Name == bandwidth && lb.CLB.Bandwidth > 0:
		return strconv.Itoa(lb.CLB.Bandwidth), nil
	case lb.CLB != nil && (f.Param != "" || f.Name == protocolPort || f.Name == forwardPort):
		listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		return ofListeners(c, listeners, f), nil
	}
	return "", nil
}

// ofListeners returns what the listeners for the Service's ports have: all the same.
func ofListeners(c *remedy.Case, listeners []cloud.Listener, f fault) string {
	var pairs, forwards, values []string
	for _, l := range listeners {
		port := strconv.Itoa(l.Port)
		pairs = append(pairs, l.Protocol+":"+port)
		if l.Config["ListenerForward"] == "on" {
			forwards = append(forwards, port+":"+l.Config["ForwardPort"])
		}
		if v := l.Config[f.Param]; v != "" && serves(c, port) {
			values = append(values, v)
		}
	}
	switch f.Name {
	case protocolPort:
		return ofPorts(c, pairs)
	case forwardPort:
		return strings.Join(forwards, ",")
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) != 1 {
		return ""
	}
	return values[0]
}

// ofPorts returns the pairs of protocol and port that are of ports of the Service.
func ofPorts(c *remedy.Case, pairs []string) string {
	pairs = slices.DeleteFunc(pairs, func(pair string) bool {
		_, port, _ := strings.Cut(pair, ":")
		return !serves(c, port)
	})
	return strings.Join(pairs, ",")
}

func serves(c *remedy.Case, port string) bool {
	for _, p := range c.Service.Spec.Ports {
		if strconv.Itoa(int(p.Port)) == port {
			return true
		}
	}
	return false
}

// Values that leave no doubt what is meant.
var (
	measure = regexp.MustCompile(`^\s*(\d{1,9})(?:\.0+)?\s*([A-Za-z/]*)\s*$`) // "10 Mbps", "2s", "5.0"
	item    = regexp.MustCompile(`[A-Za-z]+-[A-Za-z0-9-]+|[A-Za-z]+|\d+`)
)

// spelled are the ways in which people write the unit that a rule has, in lower
// case. Any other, such as minutes or Gbit/s, means another number.
var spelled = map[string][]string{
	"Mbit/s":  {"m", "mb", "mbit", "mbits", "mbps", "mb/s", "mbit/s", "mbits/s"},
	"seconds": {"s", "sec", "secs", "second", "seconds"},
}

// repair returns the annotation's value as the controller takes it, if what stands
// there can mean nothing but what the load balancer has. Then nothing changes but
// that the controller can read it.
func repair(f fault, is string) (string, bool) {
	switch {
	case is == "":
		return "", false
	case f.Name == zoneMaps && !f.there:
		return is, true // what the load balancer has is all that can be asked for
	case f.Name == zoneMaps:
		return is, allOf(items(f.value), items(is)) && names(f.value, is)
	case f.Name == protocolPort:
		return is, slices.Equal(pairs(f.value), pairs(is))
	case f.Name == forwardPort:
		// From which port to which: turned around it means something else.
		return is, slices.Equal(item.FindAllString(f.value, -1), item.FindAllString(is, -1))
	}
	m := measure.FindStringSubmatch(f.value)
	return is, m != nil && m[1] == is && (m[2] == "" || slices.Contains(spelled[f.Unit], strings.ToLower(m[2])))
}

// pairs returns the names and numbers in a value two by two, sorted, in lower case:
// which protocol is of which port.
func pairs(value string) []string {
	var list []string
	for pair := range slices.Chunk(item.FindAllString(strings.ToLower(value), -1), 2) {
		slices.Sort(pair)
		list = append(list, strings.Join(pair, ":"))
	}
	slices.Sort(list)
	return list
}

// items returns the names and numbers in a value, sorted, in lower case.
func items(value string) []string {
	list := item.FindAllString(strings.ToLower(value), -1)
	slices.Sort(list)
	return list
}

// allOf reports whether there are some, and each is among the others.
func allOf(some, all []string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// names reports whether a value names each pair of a zone map, by zone or vSwitch.
func names(value, zones string) bool {
	have := items(value)
	for pair := range strings.SplitSeq(zones, ",") {
		if !slices.ContainsFunc(items(pair), func(s string) bool { return slices.Contains(have, s) }) {
			return false
		}
	}
	return true
}

// suggest names zone maps of the cluster's vSwitches, for an NLB that is to be made.
func suggest(ctx context.Context, c *remedy.Case) (string, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return "", fmt.Errorf("describe the cluster: %w", err)
	}
	vsws, err := c.Cloud.VPC.VSwitches(ctx, cluster.VPC)
	if err != nil {
		return "", fmt.Errorf("list vSwitches of %s: %w", cluster.VPC, err)
	}
	best := map[string]cloud.VSwitch{}
	for _, v := range vsws {
		if now, ok := best[v.Zone]; slices.Contains(cluster.VSwitches, v.ID) && v.Status == "Available" && (!ok || v.Free > now.Free) {
			best[v.Zone] = v
		}
	}
	var pairs []string
	for _, v := range vsws {
		if best[v.Zone].ID == v.ID {
			pairs = append(pairs, v.Zone+":"+v.ID)
		}
	}
	if len(pairs) < 2 {
		return "An NLB needs vSwitches in two zones, and the cluster has them in fewer: add one.", nil
	}
	return fmt.Sprintf("The cluster's own vSwitches with most free addresses, one a zone, are %s; an NLB needs two zones.", strings.Join(pairs, ",")), nil
}
