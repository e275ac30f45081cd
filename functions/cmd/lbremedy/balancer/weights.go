package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A weight is how much of the traffic a node gets.
type weight struct {
	Port    int32  `json:"port"`
	Node    string `json:"node"`
	Server  string `json:"server"`
	Pods    int    `json:"pods"`
	Weight  *int   `json:"weight,omitempty"` // as it is; absent: it is no backend
	Wants   int    `json:"wants"`            // as the release gives it
	Share   int    `json:"share"`            // percent of the traffic of the port
	PerPod  int    `json:"perPod"`           // percent of the traffic that each Pod gets
	Release string `json:"release"`
}

func weightsCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "weights NAMESPACE/SERVICE",
		Short: "Show how traffic is spread over the nodes of a Service with the policy Local",
		Long: `Show for each node how many Pods of the Service it runs, its weight, the weight that this
release of the controller gives it, and the share of traffic of each of its Pods. With the
policy Cluster, and where Pods are the backends, nodes have no weights of their own.`,
		Example:           "  lbremedy lb weights shop/web",
		ValidArgsFunction: p.CompleteService,
		Args:              command.Exactly(1, 1, "a Service as NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			needs := []doctor.Part{doctor.Services, doctor.Endpoints, doctor.Nodes, doctor.Detail, doctor.Controller, doctor.Groups, doctor.Backends}
			s, svc, err := gatherOne(cmd.Context(), p, args[0], needs)
			if err != nil {
				return err
			}
			if err := s.Err(needs...); err != nil {
				return err
			}
			if mode := s.Mode(svc); mode != ccm.LocalMode {
				return command.Wrong("%s has backends of the mode %s: nodes have weights by their Pods only with the policy Local", args[0], mode)
			}
			list, err := weights(s, svc)
			if err != nil {
				return err
			}
			return p.Print(list, func() {
				t := p.Table("port", "node", "server", "pods", "weight", "wants", "share", "per pod")
				for _, w := range list {
					is := "none"
					if w.Weight != nil {
						is = fmt.Sprint(*w.Weight)
					}
					t.AppendRow([]any{w.Port, w.Node, w.Server, w.Pods, is, w.Wants, fmt.Sprintf("%d %%", w.Share), fmt.Sprintf("%d %%", w.PerPod)})
				}
				t.Render()
				p.Note("CCM %s.", s.Controller.Version)
			})
		},
	}
}

// weights returns the weights of the nodes behind each port.
func weights(s *doctor.Snapshot, svc *corev1.Service) ([]weight, error) {
	b, err := s.Balancer(svc)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, command.Wrong("the Service %s/%s has no load balancer", svc.Namespace, svc.Name)
	case s.Controller.Version == ccm.Version{}:
		return nil, say.Errorf("the version of the controller could not be determined")
	}
	servers, serves := map[string]string{}, map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		why, _ := ccm.ExclusionOf(n, svc)
		serves[n.Name] = why == ccm.Serves
		servers[n.Name] = n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, ".")+1:]
	}
	list := []weight{}
	for _, port := range svc.Spec.Ports {
		g, err := s.Group(svc, b, port)
		if err == nil && g != nil {
			err = g.Failed
		}
		if err != nil {
			return nil, err
		}
		pods, behind, all := map[string]int{}, 0, 0
		for _, e := range s.Ready(svc, port) {
			pods[e.Node]++
			if serves[e.Node] {
				behind++
			}
		}
		is := map[string]*int{}
		if g != nil {
			for _, e := range g.Backends {
				is[e.ID] = &e.Weight
				all += e.Weight
			}
		}
		for node, n := range pods {
			wants := 0
			if serves[node] {
				wants = ccm.LocalWeight(svc, s.Controller.Version, n, behind)
			}
			w := weight{Port: port.Port, Node: node, Server: servers[node], Pods: n, Weight: is[servers[node]], Wants: wants, Release: s.Controller.Version.String()}
			if w.Weight != nil && all > 0 {
				w.Share = *w.Weight * 100 / all
				w.PerPod = w.Share / n
			}
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b weight) int { return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Node, b.Node)) })
	return list, nil
}
