package ccm

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/near"
)

// Names holds the annotations that the controller reads, by name.
type Names map[string]KnownKey

// Known returns the annotations of KnownKeys by name.
func Known() Names {
	all := Names{}
	for _, k := range KnownKeys() {
		all[k.Name] = k
	}
	return all
}

// Short returns the short name of a controller annotation, or the key under another prefix, or "", and whether it has the legacy prefix.
func (n Names) Short(key string) (short string, legacy bool) {
	if short, ok := strings.CutPrefix(key, Prefix); ok {
		return short, false
	}
	if short, ok := strings.CutPrefix(key, LegacyPrefix); ok {
		return short, true
	}
	if _, ok := n[key]; ok && strings.Contains(key, "/") {
		return key, false
	}
	return "", false
}

// Unfamiliar returns the sorted short names of the Service's annotations that no known release reads for its kind of load balancer. A newer one may.
func Unfamiliar(svc *corev1.Service) []string {
	known, network := Known(), NLB(svc)
	var names []string
	for key := range svc.Annotations {
		short, _ := known.Short(key)
		if k, ok := known[short]; short != "" && (!ok || k.Read(network) == nil) {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NearPrefix returns the annotation that a key with an unknown prefix probably means, if any.
func (n Names) NearPrefix(key string) (string, bool) {
	if key != BackendType && near.Distance(key, BackendType) <= 3 {
		return BackendType, true
	}
	lower := strings.ToLower(key)
	if !strings.Contains(lower, "alibaba") && !strings.Contains(lower, "alicloud") && !strings.Contains(lower, "aliyun") {
		return "", false // it belongs to another cloud
	}
	for _, mark := range []string{"loadbalancer-", "load-balancer-", "loadbalancer_"} {
		i := strings.Index(lower, mark)
		if i < 0 {
			continue
		}
		short := lower[i+len(mark):]
		if _, ok := n[short]; ok && !strings.Contains(short, "/") {
			return Prefix + short, true
		}
	}
	return "", false
}

// Nearest returns the annotation with the most similar name for NLBs (network) or CLBs, or "". read says which spans count.
func (n Names) Nearest(short string, network bool, read func(*Span) bool) string {
	best, least := "", max(2, len(short)/4)+1
	for _, name := range slices.Sorted(maps.Keys(n)) {
		span := n[name].Read(network)
		if span == nil || !read(span) {
			continue
		}
		key, spelled := Prefix+name, name
		if i := strings.LastIndex(name, "/"); i >= 0 {
			key, spelled = name, name[i+1:]
		}
		if d := near.Distance(short, spelled); d < least {
			best, least = key, d
		}
	}
	return best
}
