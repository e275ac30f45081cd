package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// nodeWeights checks how evenly Pods get traffic in Local mode.
var nodeWeights = &doctor.Check{
	ID:    "node-weights",
	Doc:   page("node-weights"),
	Needs: []doctor.Part{doctor.Services, doctor.Detail, doctor.Endpoints, doctor.Nodes},
	Uses:  []doctor.Part{doctor.Controller, doctor.CLBs, doctor.NLBs, doctor.Groups, doctor.Listeners},
	Find:  findNodeWeights,
}

const mostEvidence = 20

// uneven is the lowest ratio of the busiest to the least busy Pod's traffic that is a warning.
const uneven = 2.0

func findNodeWeights(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || svc.Annotations[ccm.BackendType] == "eni" {
			continue
		}
		if !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return len(podsByNode(s, svc, p)) > 1 }) {
			continue
		}
		b, err := s.Balancer(svc)
		if err == nil && b == nil {
			continue // other checks report that it is missing
		}
		mode := ccm.LocalMode
		if err == nil {
			mode, err = s.ModeAt(svc, b)
		}
		if err != nil {
			r.Unknown(about(svc), say.Errorf("how evenly its Pods get traffic: %w", err))
			continue
		}
		if mode != ccm.LocalMode {
			continue
		}
		if keep, _ := ccm.Annotation(svc, "ignore-weight-update"); strings.EqualFold(keep, "on") {
			v, err := versionOf(s)
			if err != nil {
				r.Unknown(about(svc), say.Errorf("whether the controller leaves its weights alone: %w", err))
				continue
			}
			if !v.Before(leavesWeights) {
				continue // a person sets the weights
			}
		}
		for _, p := range svc.Spec.Ports {
			if nodes := podsByNode(s, svc, p); len(nodes) > 1 {
				weigh(s, r, svc, b, p, nodes)
			}
		}
	}
}

// leavesWeights is the first release that reads the annotation ignore-weight-update.
var leavesWeights = ccm.Version{Major: 2, Minor: 11, Patch: 1}

func podsByNode(s *doctor.Snapshot, svc *corev1.Service, p corev1.ServicePort) map[string]int {
	serve := map[string]bool{}
	for i := range s.Nodes {
		why, _ := ccm.ExclusionOf(&s.Nodes[i], svc)
		serve[s.Nodes[i].Name] = why == ccm.Serves
	}
	nodes := map[string]int{}
	for _, e := range s.Ready(svc, p) {
		if serve[e.Node] {
			nodes[e.Node]++
		}
	}
	return nodes
}

// schedulerOf returns "" without a listener.
func schedulerOf(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer, p corev1.ServicePort) (string, error) {
	if b.NLB != nil {
		want, _ := ccm.Annotation(svc, "scheduler")
		return strings.ToLower(cmp.Or(want, "wrr")), nil
	}
	if err := cmp.Or(s.Err(doctor.Listeners), b.Err(doctor.Listeners)); err != nil {
		return "", err
	}
	key := ccm.ListenerKey(svc, p)
	i := slices.IndexFunc(b.Listeners, func(l cloud.Listener) bool { return fmt.Sprintf("%s:%d", l.Protocol, l.Port) == key })
	if i < 0 {
		return "", nil
	}
	return strings.ToLower(b.Listeners[i].Scheduler), nil
}

func weigh(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, b *doctor.LoadBalancer, p corev1.ServicePort, pods map[string]int) {
	v, err := versionOf(s)
	scheduler := ""
	if err == nil {
		scheduler, err = schedulerOf(s, svc, b, p)
	}
	if err != nil {
		r.Unknown(about(svc), say.Errorf("how evenly the Pods behind port %d get traffic: %w", p.Port, err))
		return
	}
	if scheduler == "" {
		return // other checks report the missing listener
	}
	w := weighing{svc: svc, v: v, scheduler: scheduler}
	w.own, w.shared = ccm.OwnWeight(svc, v)
	for _, n := range pods {
		w.all += n
	}
	f := doctor.Finding{Severity: doctor.Info, About: about(svc), Key: strings.ToLower(fmt.Sprintf("%s:%d", p.Protocol, p.Port)),
		Evidence: map[string]string{"CCM": v.String(), "scheduler": scheduler}}
	if w.shared && w.own == 0 {
		f.Text = say.F("The Pods behind port %d get no traffic: the annotation weight gives their nodes the weight 0 in Local mode.", p.Port)
		f.Do = say.F("No action is needed if other backends of the group should get all traffic. If not: %s.", set(svc, "weight"))
		r.Add(f)
		return
	}
	sum := 0
	for _, n := range pods {
		sum += w.counts(n)
	}
	least, most := 100.0, 0.0
	var nodes []say.Text
	for _, node := range sorted(pods) {
		n := pods[node]
		each := 100 * float64(w.counts(n)) / float64(sum) / float64(n)
		least, most = min(least, each), max(most, each)
		nodes = append(nodes, say.F("%s has %s and the weight %d", node, say.Count(n, "Pod"), w.weight(n)))
		if len(f.Evidence) < mostEvidence {
			f.Evidence["node "+node] = fmt.Sprintf("%s; weight %d before v1.9.3.164, %d before v1.9.3.276, %d since", say.Count(n, "Pod"),
				ccm.NodeWeight(ccm.Version{}, n, w.all), ccm.NodeWeight(ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 164}, n, w.all),
				ccm.NodeWeight(ccm.WeighsPods(), n, w.all))
		}
	}
	f.Evidence["least"], f.Evidence["most"] = percentage(least), percentage(most)
	f.Text = w.rule(p.Port).And("A Pod gets from %s to %s of the traffic: %s.", percentage(least), percentage(most), say.Clauses(nodes, shown))
	f.Do = say.F("No action is needed: the Pods get similar shares.")
	if most >= uneven*least {
		f.Severity = doctor.Warning
		f.Do = w.advice().And("Spread the Pods evenly over the nodes, with topologySpreadConstraints on the label kubernetes.io/hostname.")
	}
	r.Add(f)
}

type weighing struct {
	svc       *corev1.Service
	v         ccm.Version
	scheduler string
	all       int // Pods
	own       int // the value of the annotation weight
	shared    bool
}

// weighted reports whether the scheduler uses weights: https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/add-a-tcp-listener
func (w weighing) weighted() bool { return w.scheduler == "wrr" || w.scheduler == "wlc" }

func (w weighing) weight(n int) int { return ccm.LocalWeight(w.svc, w.v, n, w.all) }

func (w weighing) counts(n int) int {
	if w.weighted() {
		return w.weight(n)
	}
	return 1
}

func (w weighing) rule(port int32) say.Text {
	switch {
	case !w.weighted():
		return say.F("In Local mode the nodes behind port %d get traffic whatever their weights are (scheduler %s).", port, w.scheduler)
	case w.shared:
		return say.F("In Local mode the nodes behind port %d get traffic by their share of the annotation weight, which is %d (scheduler %s).",
			port, w.own, w.scheduler)
	}
	return say.F("In Local mode the nodes behind port %d get traffic by weight (scheduler %s).", port, w.scheduler)
}

// advice returns no text if only moving Pods helps.
func (w weighing) advice() say.Text {
	switch {
	case w.scheduler == "rr":
		return say.F("Use a scheduler that considers the weights: %s.", ccm.SetCommand(w.svc, "scheduler", "wrr"))
	case !w.weighted():
		return nil // a person chose to distribute by the clients' addresses
	case w.shared:
		return say.F("Set a weight that is at least the number of Pods: %s.", ccm.SetCommand(w.svc, "weight", strconv.Itoa(min(w.all, 100))))
	case w.v.Before(ccm.WeighsPods()):
		return say.F("Upgrade the controller to %s or newer, which weights a node by its Pods.", ccm.WeighsPods())
	}
	return nil
}

func percentage(share float64) string { return strconv.FormatFloat(share, 'f', 1, 64) + " %" }
