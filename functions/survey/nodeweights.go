package survey

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed nodeweights.md
var nodeWeightsDoc string

// nodeWeights looks how evenly Pods get traffic in Local mode.
var nodeWeights = &checkup.Check{
	ID:    "node-weights",
	Doc:   nodeWeightsDoc,
	Needs: []checkup.Part{checkup.Services, checkup.Detail, checkup.Endpoints, checkup.Nodes},
	Uses:  []checkup.Part{checkup.Controller, checkup.CLBs, checkup.NLBs, checkup.Listeners},
	Find:  findNodeWeights,
}

// uneven is from how many times the traffic of the least busy Pod on the busiest one's
// is a warning.
const uneven = 2.0

func findNodeWeights(s *checkup.Snapshot, r *checkup.Report) {
	for _, svc := range s.OfType() {
		if s.Mode(svc) != remedy.LocalMode {
			continue
		}
		if keep, _ := remedy.Annotation(svc, "ignore-weight-update"); keep == "on" {
			continue // the weights are a person's
		}
		for _, p := range svc.Spec.Ports {
			if nodes := podsByNode(s, svc, p); len(nodes) > 1 {
				weigh(s, r, svc, p, nodes)
			}
		}
	}
}

// podsByNode returns how many ready Pods of a port each node has that the controller
// takes for a backend.
func podsByNode(s *checkup.Snapshot, svc *corev1.Service, p corev1.ServicePort) map[string]int {
	serve := map[string]bool{}
	for i := range s.Nodes {
		why, _ := remedy.LeftOut(&s.Nodes[i], svc)
		serve[s.Nodes[i].Name] = why == remedy.Serves
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
func schedulerOf(s *checkup.Snapshot, svc *corev1.Service, p corev1.ServicePort) (string, error) {
	b, err := s.Balancer(svc)
	if err != nil || b == nil {
		return "", err
	}
	if b.NLB != nil {
		want, _ := remedy.Annotation(svc, "scheduler")
		return strings.ToLower(cmp.Or(want, "wrr")), nil
	}
	if err := cmp.Or(s.Err(checkup.Listeners), b.Err(checkup.Listeners)); err != nil {
		return "", err
	}
	key := remedy.ListenerKey(svc, p)
	i := slices.IndexFunc(b.Listeners, func(l cloud.Listener) bool { return fmt.Sprintf("%s:%d", l.Protocol, l.Port) == key })
	if i < 0 {
		return "", nil
	}
	return strings.ToLower(b.Listeners[i].Scheduler), nil
}

// weigh reports what share of a port's traffic the Pods of each node get.
func weigh(s *checkup.Snapshot, r *checkup.Report, svc *corev1.Service, p corev1.ServicePort, pods map[string]int) {
	err := s.Err(checkup.Controller)
	v := s.Controller.Version
	if err == nil && v == (remedy.Version{}) {
		err = errNoVersion
	}
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
	// Only these rules look at weights:
	// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/add-a-tcp-listener
	weighted := scheduler == "wrr" || scheduler == "wlc"
	all, sum := 0, 0
	for _, n := range pods {
		all += n
	}
	weight := func(n int) int {
		if !weighted {
			return 1
		}
		return remedy.NodeWeight(v, n, all)
	}
	for _, n := range pods {
		sum += weight(n)
	}
	least, most := 100.0, 0.0
	var clauses []string
	evidence := map[string]string{"CCM": v.String(), "scheduler": scheduler}
	for _, node := range sorted(pods) {
		n := pods[node]
		each := 100 * float64(weight(n)) / float64(sum) / float64(n)
		least, most = min(least, each), max(most, each)
		clauses = append(clauses, fmt.Sprintf("%s has %s and the weight %d", node, remedy.Count(n, "Pod"), remedy.NodeWeight(v, n, all)))
		evidence["node "+node] = fmt.Sprintf("%s; weight %d before v1.9.3.164, %d before v1.9.3.276, %d since", remedy.Count(n, "Pod"), remedy.NodeWeight(remedy.Version{}, n, all),
			remedy.NodeWeight(remedy.Version{Major: 1, Minor: 9, Patch: 3, Build: 164}, n, all), remedy.NodeWeight(remedy.WeighsPods(), n, all))
	}
	evidence["least"], evidence["most"] = percentage(least), percentage(most)
	rule := "by weight"
	if !weighted {
		rule = "whatever their weights"
	}
	f := checkup.Finding{Severity: checkup.Info, About: about(svc), Key: strings.ToLower(fmt.Sprintf("%s:%d", p.Protocol, p.Port)), Evidence: evidence, Do: "Nothing: the Pods get about the same."}
	f.Text = fmt.Sprintf("Behind port %d the nodes get traffic in Local mode %s (scheduler %s): %s, so that of all traffic a Pod gets from %s to %s.", p.Port, rule, scheduler, remedy.Clauses(clauses, shown), percentage(least), percentage(most))
	spread := "Spread the Pods evenly over the nodes, with topologySpreadConstraints on the label kubernetes.io/hostname."
	switch {
	case most < uneven*least:
	case !weighted:
		f.Severity, f.Do = checkup.Warning, fmt.Sprintf("Let the weights count: %s. %s", remedy.SetCommand(svc, "scheduler", "wrr"), spread)
	case v.Before(remedy.WeighsPods()):
		f.Severity, f.Do = checkup.Warning, fmt.Sprintf("Upgrade the controller to %s or later, which weighs a node by its Pods. %s", remedy.WeighsPods(), spread)
	default:
		f.Severity, f.Do = checkup.Warning, spread
	}
	r.Add(f)
}

// percentage writes a share with one digit behind the point.
func percentage(share float64) string { return strconv.FormatFloat(share, 'f', 1, 64) + " %" }
