package ccm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Fault is an annotation with a value that the controller does not accept.
type Fault struct {
	ValueRule
	Value string
	There bool // the annotation is set
}

// Faults returns the faulty annotations of the Service.
func Faults(svc *corev1.Service) []Fault {
	network := NLB(svc)
	id, _ := Annotation(svc, "id")
	var out []Fault
	for _, r := range ValueRules() {
		if !r.Reads(network) {
			continue
		}
		v, ok := Annotation(svc, r.Name)
		if strings.Contains(r.Name, "/") {
			v, ok = svc.Annotations[r.Name], svc.Annotations[r.Name] != ""
		}
		if ok && v != "" && !r.Takes(v) || v == "" && r.Name == "zone-maps" && id == "" {
			out = append(out, Fault{r, v, ok})
		}
	}
	return out
}

// Named reports whether a message of the controller is about the annotation.
func (r ValueRule) Named(message string) bool {
	folded := strings.ToLower(strings.Join(strings.Fields(message), " "))
	return slices.ContainsFunc(r.Calls, func(call string) bool { return hasWords(folded, call) })
}

// Refusals returns how the SLB API refuses parameters: IdleTimeout, RequestTimeout and Bandwidth with documented codes, others in the same words.
func Refusals(params ...string) (codes, texts []string) {
	for _, p := range params {
		codes = append(codes, "InvalidParameter."+p)
		texts = append(texts, "specified "+p+" exceeds the limit", "specified "+p+" is invalid", "param "+p+" is invalid", `parameter "`+p+`" is not valid`)
	}
	return codes, texts
}

func (r ValueRule) refused(message string) bool {
	param := cmp.Or(r.Param, map[string]string{"bandwidth": "Bandwidth", "idle-timeout": "IdleTimeout"}[r.Name])
	if param == "" {
		return false
	}
	folded := strings.ToLower(strings.Join(strings.Fields(message), " "))
	codes, texts := Refusals(param)
	return slices.ContainsFunc(append(codes, texts...), func(t string) bool { return hasWords(folded, strings.ToLower(t)) })
}

// hasWords reports whether the text contains the words at a word boundary: "overweight must be" does not contain "weight must be".
func hasWords(text, words string) bool {
	for from := 0; ; from++ {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		from += i
		if from == 0 || !letter(text[from-1]) {
			return true
		}
	}
}

func letter(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 0x80 }

// NamedFault returns the faulty annotation that a message of the controller is about, or nil, and the other faulty ones. An API may refuse a
// value that the rule allows, because some limits depend on the load balancer.
func NamedFault(svc *corev1.Service, message string) (named *Fault, others []Fault) {
	all := Faults(svc)
	i := slices.IndexFunc(all, func(f Fault) bool { return f.Named(message) || f.refused(message) })
	if i < 0 {
		for _, r := range ValueRules() {
			if v, there := Annotation(svc, r.Name); there && r.Reads(NLB(svc)) && r.refused(message) {
				return &Fault{r, v, there}, all
			}
		}
		return nil, all
	}
	f := all[i]
	return &f, slices.DeleteFunc(all, func(o Fault) bool { return o.Name == f.Name })
}

// DescribeFaults says what each annotation is and what it accepts, one clause each.
func DescribeFaults(list []Fault) say.Text {
	var parts []say.Text
	for _, f := range list {
		parts = append(parts, say.F("%s is %s and takes %s", f.Name, Quote(f.Value), f.Allowed))
	}
	return say.Clauses(parts, len(parts))
}

// NamesValue reports whether a controller message is about an annotation whose values are known.
func NamesValue(svc *corev1.Service, message string) bool {
	return slices.ContainsFunc(ValueRules(), func(r ValueRule) bool { return r.Reads(NLB(svc)) && (r.Named(message) || r.refused(message)) })
}

// ValueFails reports whether what a message says about the annotations still holds. If no rule knows the annotation, only the controller can decide.
func ValueFails(svc *corev1.Service, message string) bool {
	if m, named := MisfitOf(svc, message); named {
		return m != nil
	}
	wrong, _ := NamedFault(svc, message)
	return wrong != nil || !NamesValue(svc, message)
}

func (r ValueRule) shown() bool {
	return r.Param != "" || slices.Contains([]string{"bandwidth", "zone-maps", "protocol-port", ForwardPort}, r.Name)
}

// ShownValues returns the names of the annotations for which ValueOf can read a load balancer's setting.
func ShownValues() []string {
	var names []string
	for _, r := range ValueRules() {
		if r.shown() && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// ValueOf returns the load balancer and its setting in the annotation's form, or "" for none or several. It needs what Bound and Listeners need.
func (c *View) ValueOf(ctx context.Context, r ValueRule) (lb *Instance, is string, err error) {
	if lb, err = c.Bound(ctx); err != nil || lb == nil {
		return nil, "", err
	}
	is, err = c.valueOf(ctx, lb, r)
	return lb, is, err
}

func (c *View) valueOf(ctx context.Context, lb *Instance, r ValueRule) (string, error) {
	switch {
	case lb.NLB != nil && r.Name == "zone-maps":
		return ZoneMaps(lb.NLB), nil
	case lb.NLB != nil && r.Name == "protocol-port":
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		var pairs []string
		for _, l := range listeners {
			pairs = append(pairs, strings.ToLower(l.Protocol)+":"+strconv.Itoa(l.Port))
		}
		return c.ofPorts(pairs), nil
	case lb.CLB != nil && r.Name == "bandwidth" && lb.CLB.Bandwidth > 0:
		return strconv.Itoa(lb.CLB.Bandwidth), nil
	case lb.CLB != nil && r.shown() && r.Name != "bandwidth" && r.Name != "zone-maps":
		listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		return c.ofListeners(listeners, r), nil
	}
	return "", nil
}

func (c *View) ofListeners(listeners []cloud.Listener, r ValueRule) string {
	var pairs, forwards, values []string
	for _, l := range listeners {
		port := strconv.Itoa(l.Port)
		pairs = append(pairs, l.Protocol+":"+port)
		if l.Config["ListenerForward"] == "on" {
			forwards = append(forwards, port+":"+l.Config["ForwardPort"])
		}
		if v := l.Config[r.Param]; v != "" && c.hasPort(port) {
			values = append(values, v)
		}
	}
	switch r.Name {
	case "protocol-port":
		return c.ofPorts(pairs)
	case ForwardPort:
		return strings.Join(forwards, ",")
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) != 1 {
		return ""
	}
	return values[0]
}

func (c *View) ofPorts(pairs []string) string {
	pairs = slices.DeleteFunc(pairs, func(pair string) bool {
		_, port, _ := strings.Cut(pair, ":")
		return !c.hasPort(port)
	})
	return strings.Join(pairs, ",")
}

func (c *View) hasPort(port string) bool {
	return slices.ContainsFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == port })
}

var (
	measure = regex.New(`^\s*(\d{1,9})(?:\.0+)?\s*([A-Za-z/]*)\s*$`) // "10 Mbps", "2s", "5.0"
	item    = regex.New(`[A-Za-z]+-[A-Za-z0-9-]+|[A-Za-z]+|\d+`)
)

// spelled lists how people write the unit of a rule, in lower case. Any other unit, such as minutes or Gbit/s, would change the number.
var spelled = map[string][]string{
	"Mbit/s":  {"m", "mb", "mbit", "mbits", "mbps", "mb/s", "mbit/s", "mbits/s"},
	"seconds": {"s", "sec", "secs", "second", "seconds"},
}

// Means reports whether the faulty value can only mean the load balancer's setting, as ValueOf returns it, so writing that setting is safe.
func (f Fault) Means(is string) bool {
	switch {
	case is == "":
		return false
	case f.Name == "zone-maps" && !f.There:
		return true // the annotation can only ask for what the load balancer has
	case f.Name == "zone-maps":
		return allOf(itemsIn(f.Value), itemsIn(is)) && namesZones(f.Value, is)
	case f.Name == "protocol-port":
		return slices.Equal(pairsIn(f.Value), pairsIn(is))
	case f.Name == ForwardPort:
		// The order is significant: from port, to port.
		return slices.Equal(item().FindAllString(f.Value, -1), item().FindAllString(is, -1))
	}
	m := measure().FindStringSubmatch(f.Value)
	return m != nil && m[1] == is && (m[2] == "" || slices.Contains(spelled[f.Unit], strings.ToLower(m[2])))
}

// pairsIn returns the names and numbers in a value in sorted pairs, in lower case: each protocol with its port.
func pairsIn(value string) []string {
	var list []string
	for pair := range slices.Chunk(item().FindAllString(strings.ToLower(value), -1), 2) {
		slices.Sort(pair)
		list = append(list, strings.Join(pair, ":"))
	}
	slices.Sort(list)
	return list
}

func itemsIn(value string) []string {
	list := item().FindAllString(strings.ToLower(value), -1)
	slices.Sort(list)
	return list
}

func allOf(some, all []string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func namesZones(value, zones string) bool {
	have := itemsIn(value)
	for pair := range strings.SplitSeq(zones, ",") {
		if !slices.ContainsFunc(itemsIn(pair), func(s string) bool { return slices.Contains(have, s) }) {
			return false
		}
	}
	return true
}

// SuggestReads is what SuggestZones reads; a class that calls it declares it.
var SuggestReads = []grant.Grant{grant.DescribeClusterDetail, grant.DescribeVSwitches}

// SuggestZones proposes zone maps for a new NLB from the cluster's vSwitches.
func (c *View) SuggestZones(ctx context.Context) (say.Text, error) {
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
