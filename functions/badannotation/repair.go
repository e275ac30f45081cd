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
	"github.com/lbremedy/lbremedy/shared/say"
)

// mendable returns the names of the annotations for which real can read the load balancer's
// setting. No other annotation is corrected.
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

// real returns the load balancer's setting in the form of the annotation. It is empty if there
// is none, or more than one.
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

// ofListeners returns the setting that the listeners of the Service's ports share.
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

// ofPorts returns the pairs of protocol and port for ports of the Service.
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

// Values whose meaning is clear.
var (
	measure = regexp.MustCompile(`^\s*(\d{1,9})(?:\.0+)?\s*([A-Za-z/]*)\s*$`) // "10 Mbps", "2s", "5.0"
	item    = regexp.MustCompile(`[A-Za-z]+-[A-Za-z0-9-]+|[A-Za-z]+|\d+`)
)

// spelled are the ways in which people write the unit of a rule, in lower case. With any other
// unit, such as minutes or Gbit/s, the number would be different.
var spelled = map[string][]string{
	"Mbit/s":  {"m", "mb", "mbit", "mbits", "mbps", "mb/s", "mbit/s", "mbits/s"},
	"seconds": {"s", "sec", "secs", "second", "seconds"},
}

// repair returns a value that the controller accepts, if the current one can mean nothing but
// what the load balancer has. The new value changes nothing on the load balancer.
func repair(f fault, is string) (string, bool) {
	switch {
	case is == "":
		return "", false
	case f.Name == zoneMaps && !f.there:
		return is, true // the annotation can ask for nothing but what the load balancer has
	case f.Name == zoneMaps:
		return is, allOf(items(f.value), items(is)) && names(f.value, is)
	case f.Name == protocolPort:
		return is, slices.Equal(pairs(f.value), pairs(is))
	case f.Name == forwardPort:
		// The order matters: from which port to which.
		return is, slices.Equal(item.FindAllString(f.value, -1), item.FindAllString(is, -1))
	}
	m := measure.FindStringSubmatch(f.value)
	return is, m != nil && m[1] == is && (m[2] == "" || slices.Contains(spelled[f.Unit], strings.ToLower(m[2])))
}

// pairs returns the names and numbers in a value two by two, sorted, in lower case: each
// protocol with its port.
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

// allOf reports whether some is not empty and all contains each of them.
func allOf(some, all []string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// names reports whether a value names each pair of a zone map, by its zone or its vSwitch.
func names(value, zones string) bool {
	have := items(value)
	for pair := range strings.SplitSeq(zones, ",") {
		if !slices.ContainsFunc(items(pair), func(s string) bool { return slices.Contains(have, s) }) {
			return false
		}
	}
	return true
}

// suggest proposes zone maps for a new NLB from the cluster's vSwitches.
func suggest(ctx context.Context, c *remedy.Case) (say.Text, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	vsws, err := c.Cloud.VPC.VSwitches(ctx, cluster.VPC)
	if err != nil {
		return nil, fmt.Errorf("list vSwitches of %s: %w", cluster.VPC, err)
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
		return say.F("An NLB needs vSwitches in two zones, but the cluster has them in fewer: add one."), nil
	}
	return say.F("The cluster's vSwitches with the most free addresses, one per zone, are %s. An NLB needs two zones.", strings.Join(pairs, ",")), nil
}
