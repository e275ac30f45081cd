package doctor

import (
	"cmp"
	_ "embed"
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

//go:embed nodeweights.md
var nodeWeightsDoc string

// nodeWeights looks how evenly Pods get traffic in Local mode.
var nodeWeights = &doctor.Check{
	ID:    "node-weights",
	Doc:   nodeWeightsDoc,
	Needs: []doctor.Part{doctor.Services, doctor.Detail, doctor.Endpoints, doctor.Nodes},
	Uses:  []doctor.Part{doctor.Controller, doctor.CLBs, doctor.NLBs, doctor.Listeners},
	Find:  findNodeWeights,
}

// mostEvidence is how many values stand in the evidence of a finding.
const mostEvidence = 20

// uneven is from how many times the traffic of the least busy Pod on the busiest one's
// is a warning.
const uneven = 2.0

func findNodeWeights(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if s.Mode(svc) != ccm.LocalMode {
			continue
		}
		if keep, _ := ccm.Annotation(svc, "ignore-weight-update"); strings.EqualFold(keep, "on") {
			v, err := versionOf(s)
			if err != nil {
				r.Unknown(about(svc), fmt.Errorf("whether the controller leaves its weights alone: %w", err))
				continue
			}
			if !v.Before(leavesWeights) {
				continue // the weights are a person's
			}
		}
		for _, p := range svc.Spec.Ports {
			if nodes := podsByNode(s, svc, p); len(nodes) > 1 {
				weigh(s, r, svc, p, nodes)
			}
		}
	}
}

// leavesWeights is the first release that reads the annotation ignore-weight-update.
var leavesWeights = ccm.Version{Major: 2, Minor: 11, Patch: 1}

// podsByNode returns how many ready Pods of a port each node has that the controller
// takes for a backend.
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

// schedulerOf returns by what rule a port's traffic is spread; empty if it has no
// listener.
func schedulerOf(s *doctor.Snapshot, svc *corev1.Service, p corev1.ServicePort) (string, error) {
	b, err := s.Balancer(svc)
	if err != nil || b == nil {
		return "", err
	}
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

// weigh reports what share of a port's traffic the Pods of each node get.
func weigh(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, p corev1.ServicePort, pods map[string]int) {
	v, err := versionOf(s)
	scheduler := ""
	if err == nil {
		scheduler, err = schedulerOf(s, svc, p)
	}
	if err != nil {
		r.Unknown(about(svc), fmt.Errorf("how evenly the Pods behind port %d get traffic: %w", p.Port, err))
		return
	}
	if scheduler == "" {
		return // there is no listener, which others report
	}
	w := weighing{svc: svc, v: v, scheduler: scheduler}
	w.own, w.shared = ccm.OwnWeight(svc, v)
	for _, n := range pods {
		w.all += n
	}
	f := doctor.Finding{Severity: doctor.Info, About: about(svc), Key: strings.ToLower(fmt.Sprintf("%s:%d", p.Protocol, p.Port)), Evidence: map[string]string{"CCM": v.String(), "scheduler": scheduler}}
	if w.shared && w.own == 0 {
		f.Text = say.F("Behind port %d the nodes have the weight 0 in Local mode, as the annotation weight says: the Pods get no traffic.", p.Port)
		f.Do = say.F("Nothing, if others in the group are to have all of it. If not: %s.", set(svc, "weight"))
		r.Add(f)
		return
	}
	sum := 0
	for _, n := range pods {
		sum += w.counts(n)
	}
	least, most := 100.0, 0.0
	var clauses []string
	for _, node := range sorted(pods) {
		n := pods[node]
		each := 100 * float64(w.counts(n)) / float64(sum) / float64(n)
		least, most = min(least, each), max(most, each)
		clauses = append(clauses, fmt.Sprintf("%s has %s and the weight %d", node, ccm.Count(n, "Pod"), w.weight(n)))
		if len(f.Evidence) < mostEvidence {
			f.Evidence["node "+node] = fmt.Sprintf("%s; weight %d before v1.9.3.164, %d before v1.9.3.276, %d since", ccm.Count(n, "Pod"), ccm.NodeWeight(ccm.Version{}, n, w.all),
				ccm.NodeWeight(ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 164}, n, w.all), ccm.NodeWeight(ccm.WeighsPods(), n, w.all))
		}
	}
	f.Evidence["least"], f.Evidence["most"] = percentage(least), percentage(most)
	f.Text = say.F("Behind port %d the nodes get traffic in Local mode %s (scheduler %s): %s, so that of all traffic a Pod gets from %s to %s.", p.Port, w.rule(), scheduler, ccm.Clauses(clauses, shown), percentage(least), percentage(most))
	f.Do = say.F("Nothing: the Pods get about the same.")
	if most >= uneven*least {
		f.Severity, f.Do = doctor.Warning, say.Literal(strings.TrimSpace(w.way()+" Spread the Pods evenly over the nodes, with topologySpreadConstraints on the label kubernetes.io/hostname."))
	}
	r.Add(f)
}

// A weighing is how the nodes behind a port come to their share of its traffic.
type weighing struct {
	svc       *corev1.Service
	v         ccm.Version
	scheduler string
	all       int // Pods
	own       int // what the annotation weight says
	shared    bool
}

// weighted reports whether the listener looks at weights. Only these rules do:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/add-a-tcp-listener
func (w weighing) weighted() bool { return w.scheduler == "wrr" || w.scheduler == "wlc" }

// weight returns the weight of a node with so many Pods.
func (w weighing) weight(n int) int { return ccm.LocalWeight(w.svc, w.v, n, w.all) }

// counts returns the weight by which such a node gets traffic.
func (w weighing) counts(n int) int {
	if w.weighted() {
		return w.weight(n)
	}
	return 1
}

// rule says by what nodes get traffic.
func (w weighing) rule() string {
	switch {
	case !w.weighted():
		return "whatever their weights"
	case w.shared:
		return fmt.Sprintf("by their share of the annotation weight, which is %d", w.own)
	}
	return "by weight"
}

// way says what makes the shares more even; empty where only other places for Pods do.
func (w weighing) way() string {
	switch {
	case w.scheduler == "rr":
		return fmt.Sprintf("Let the weights count: %s.", ccm.SetCommand(w.svc, "scheduler", "wrr"))
	case !w.weighted():
		return "" // by the clients' addresses, which somebody chose
	case w.shared:
		return fmt.Sprintf("Give the Service a weight of at least as many as it has Pods: %s.", ccm.SetCommand(w.svc, "weight", strconv.Itoa(min(w.all, 100))))
	case w.v.Before(ccm.WeighsPods()):
		return fmt.Sprintf("Upgrade the controller to %s or later, which weighs a node by its Pods.", ccm.WeighsPods())
	}
	return ""
}

// percentage writes a share with one digit behind the point.
func percentage(share float64) string { return strconv.FormatFloat(share, 'f', 1, 64) + " %" }
