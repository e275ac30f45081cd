package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/test/corpus"
)

// Tables are this project's knowledge of a release.
type Tables struct {
	Facts                                     // except texts; with places in our tables
	messages []string                         // of this release in the corpus
	samples  []string                         // other messages of the corpus
	watched  func(object, reason string) bool // whether such Events are read
	class    func(text string) bool           // whether a class or a sentence on the Event handles the text
}

func known(v ccm.Version) (Tables, error) {
	t := Tables{Facts: Facts{}}
	t.watched = func(object, reason string) bool {
		return slices.ContainsFunc(event.Warnings, func(w event.Warning) bool { return w.Reason == reason && objectOf(w) == object })
	}
	for _, name := range reconcilers {
		t.add(controllers, name, "test/learn")
	}
	for _, key := range ccm.KnownKeys() {
		for side, of := range map[string]*ccm.Span{"clb": key.CLB, "nlb": key.NLB} {
			if of != nil && of.Fits(v) {
				t.add(annotations, side+" "+key.Name, "shared/ccm/annotation.go")
			}
		}
	}
	for name, value := range ccm.Usual() {
		t.add(defaults, name+"="+value, "shared/ccm/place.go")
	}
	t.add(defaults, "spec="+ccm.SmallSpec, "shared/ccm/charge.go")
	t.needs(v)
	if err := t.immutables(); err != nil {
		return t, err
	}
	rows, err := corpus.All()
	if err != nil {
		return t, err
	}
	for _, row := range rows {
		since, ok := ccm.ParseVersion(row.Since)
		until, ends := ccm.ParseVersion(row.Until)
		switch {
		case !ok:
			t.samples = append(t.samples, row.Message)
			continue
		case v.Before(since), ends && !v.Before(until):
			continue
		}
		if row.Reason != event.Precheck { // its message is JSON, not a format
			t.messages = append(t.messages, row.Message)
		}
		object := "Service"
		if i := slices.IndexFunc(event.Warnings, func(w event.Warning) bool { return w.Reason == row.Reason }); i >= 0 {
			object = objectOf(event.Warnings[i])
		}
		t.add(events, object+" "+row.Type+" "+row.Reason, "functions/*/testdata/corpus.jsonl")
	}
	classifier := event.NewClassifier(table.Table())
	t.class = func(text string) bool {
		class := classifier.Classify(event.Input{Message: "Error syncing load balancer [lb-1]: " + text}).Class
		return class != event.Unclassified && class != event.Ignored
	}
	return t, nil
}

// objectOf returns the kind of a warning's object. For a cluster's routes that is an Event that does not exist.
func objectOf(w event.Warning) string {
	switch {
	case w.Reason == event.Precheck:
		return "Pod"
	case w.Kind == event.KindNode:
		return "Node"
	case w.Kind == event.KindCluster:
		return "Event"
	}
	return "Service"
}

// immutables requests a different value of every annotation. Two attributes have classes of their own.
func (t Tables) immutables() error {
	svc := &corev1.Service{}
	svc.Annotations = map[string]string{}
	for _, key := range ccm.KnownKeys() {
		svc.Annotations[ccm.Prefix+key.Name] = "x"
	}
	for side, lb := range map[string]*ccm.Instance{
		"clb": ccm.Classic(cloud.LoadBalancer{Zone: "y", SlaveZone: "y", IPVersion: "y", Network: "y", Address: "y"}),
		"nlb": ccm.Network(cloud.NetworkLoadBalancer{IPVersion: "y"}),
	} {
		list, err := ccm.Immutables(svc, lb)
		if err != nil {
			return err
		}
		for _, a := range list {
			if t.Facts[annotations][side+" "+a.Name] != nil {
				t.add(immutables, side+" "+a.Name, "shared/ccm/immutable.go")
			}
		}
		t.add(immutables, side+" resource-group-id", "functions/resourcegroupimmutable")
	}
	t.add(immutables, "clb address-type", "functions/addresstypeimmutable")
	return nil
}

// needs lists the actions that a release calls when all features are used. The tables do not separate those of CLBs and nodes.
func (t Tables) needs(v ccm.Version) {
	var classic, network []corev1.Service
	for _, key := range ccm.KnownKeys() {
		value, ok := map[string]string{"address-type": "intranet", "external-ip-type": "eip", ccm.BackendType: "eni"}[key.Name]
		if !ok {
			value = "x"
		}
		name := ccm.Prefix + key.Name
		if strings.Contains(key.Name, "/") {
			name = key.Name
		}
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{name: value}}}
		svc.Spec.Type, svc.Spec.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, []string{"192.0.2.0/24"}
		classic = append(classic, svc)
		class := ccm.NLBClass
		svc.Spec.LoadBalancerClass = &class
		network = append(network, svc)
	}
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"alibabacloud.com/lingjun-worker": "true"}}}}
	base := map[string]bool{}
	for _, action := range ccm.Needs(v, ccm.InUse(cloud.Cluster{Network: "terway"}, classic, nodes)) {
		base[action] = true
		t.add(actions, "clb+node "+action, "shared/ccm/needs.go")
	}
	for group, use := range map[string]ccm.Features{
		"nlb":   ccm.InUse(cloud.Cluster{}, network, nil),
		"route": ccm.InUse(cloud.Cluster{Network: "flannel"}, nil, nil),
	} {
		for _, action := range ccm.Needs(v, use) {
			if !base[action] {
				t.add(actions, group+" "+action, "shared/ccm/needs.go")
			}
		}
	}
}

func grouped(found map[string][]string) map[string][]string {
	out := Facts{}
	base := map[string]bool{}
	for name, where := range found {
		if side, action, _ := strings.Cut(name, " "); side == "clb" || side == "node" {
			base[action] = true
			out.add(actions, "clb+node "+action, where...)
		}
	}
	for name, where := range found {
		if side, action, _ := strings.Cut(name, " "); !base[action] {
			out.add(actions, side+" "+action, where...)
		}
	}
	return out[actions]
}

var verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z]`)

func pattern(format string) (*regexp.Regexp, error) {
	parts := verb.Split(strings.TrimSpace(format), -1)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	re, err := regexp.Compile("(?s)" + strings.Join(parts, ".*"))
	if err != nil {
		return nil, fmt.Errorf("the format %q: %w", format, err)
	}
	return re, nil
}
