package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/kube"
)

func (p *program) lb() *cobra.Command {
	return command.Parent(&cobra.Command{
		Use:   "lb",
		Short: "Look at the load balancers behind the Services, and bring lost ones back",
	}, p.lbLs(), p.lbShow(), p.lbWeights(), p.lbTag(), p.lbRecreate())
}

// A balancing is a Service with its load balancer, as the inventory shows it.
type balancing struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Address     string   `json:"address,omitempty"` // in the Service's status
	AddressType string   `json:"addressType,omitempty"`
	Kind        string   `json:"kind"` // CLB or NLB
	ID          string   `json:"id,omitempty"`
	State       string   `json:"state,omitempty"` // "gone" or "untagged", as the help says; empty: neither, or not known
	Made        string   `json:"made,omitempty"`  // "own" or "reused"
	ChargeType  string   `json:"chargeType,omitempty"`
	Backends    *int     `json:"backends,omitempty"` // of the load balancer; absent: not known
	Limit       *int     `json:"limit,omitempty"`    // of backends
	Listeners   []string `json:"listeners,omitempty"`
	Unknown     string   `json:"unknown,omitempty"` // what could not be told, and why
}

// inventory is what the inventory reads: the groups one by one too, since the list of
// an NLB's does not tell how many backends each has.
var inventory = []doctor.Part{doctor.Services, doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups, doctor.Backends, doctor.Quotas}

func (p *program) lbLs() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the Services of type LoadBalancer with their load balancers",
		Long: `List the Services of type LoadBalancer: the address in the status, its type, the load
balancer, whether the controller made it for the Service ("own") or a person names it
("reused"), how it is charged, how many backends stand on it of those that the account
may put there, and its listeners. A load balancer is (gone) where the region does not
have it, and (untagged) where it is there and the controller does not find it.

Exit codes: 0 all was told; 1 something failed; 2 the usage, the configuration or the
input is wrong; 6 something could not be told, which shows as a question mark and is
said on standard error.`,
		Example: `  lbremedy lb ls
  lbremedy lb ls --namespace shop -o json`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.readParts(cmd.Context(), doctor.Source{Counts: true}, inventory)
			if err != nil {
				return err
			}
			list := []balancing{}
			for _, svc := range s.OfType() {
				if namespace == "" || svc.Namespace == namespace {
					list = append(list, balancingOf(s, svc))
				}
			}
			err = p.print(list, func() {
				t := p.table("namespace", "name", "address", "type", "load balancer", "made", "charge", "backends", "listeners")
				for _, b := range list {
					t.AppendRow([]any{b.Namespace, b.Name, command.Clean(b.Address), b.AddressType, b.name(), b.Made, b.ChargeType, b.ofLimit(), p.cell(strings.Join(b.Listeners, " "), 120)})
				}
				t.Render()
				if len(list) == 0 {
					p.note("There is no Service of type LoadBalancer%s.", map[bool]string{true: " in the namespace " + namespace}[namespace != ""])
				}
			})
			return cmp.Or(err, p.open(list))
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only Services of this `namespace`")
	command.Complete(cmd, "namespace", p.completeNamespaces)
	return cmd
}

// open says what could not be told, and returns what the exit code follows from.
func (p *program) open(list []balancing) error {
	unknown := 0
	for _, b := range list {
		if b.Unknown != "" {
			unknown++
			p.note("%s/%s: %s", b.Namespace, b.Name, command.Clean(b.Unknown))
		}
	}
	if unknown > 0 {
		return command.Exit(codeUnknown)
	}
	return nil
}

// name returns the load balancer's ID with what became of it.
func (b balancing) name() string {
	name := command.Clean(b.ID)
	if b.State != "" {
		name += " (" + b.State + ")"
	}
	return name
}

// ofLimit returns how many backends there are, of how many.
func (b balancing) ofLimit() string {
	switch {
	case b.Backends == nil && b.Unknown == "":
		return ""
	case b.Backends == nil:
		return "?"
	case b.Limit == nil:
		return fmt.Sprint(*b.Backends)
	}
	return fmt.Sprintf("%d of %d", *b.Backends, *b.Limit)
}

// balancingOf returns what a snapshot says of a Service's load balancer.
func balancingOf(s *doctor.Snapshot, svc *corev1.Service) balancing {
	b := balancing{Namespace: svc.Namespace, Name: svc.Name, Address: ccm.Address(svc), Kind: "CLB", Made: "own"}
	if ccm.NLB(svc) {
		b.Kind = "NLB"
	}
	if id, _ := ccm.Annotation(svc, "id"); id != "" {
		b.Made, b.ID = "reused", id
	}
	lb, err := s.Balancer(svc)
	switch {
	case err != nil:
		b.Unknown = err.Error()
		return b
	case lb == nil:
		b.lost(s, svc)
		return b
	}
	b.ID, b.AddressType, b.ChargeType = lb.ID, lb.AddressType, "PayByCLCU"
	limit := "nlb_quota_loadbalancer_noeci_servers_num"
	if lb.CLB != nil {
		b.ChargeType, limit = lb.CLB.ChargeType, "slb_quota_backendservers_num"
	}
	if q, ok := s.Quota(limit); ok {
		b.Limit = new(int(q.Total))
	}
	if err := cmp.Or(s.Err(doctor.Listeners), lb.Err(doctor.Listeners)); err != nil {
		b.Unknown = err.Error()
	}
	for _, l := range lb.Listeners {
		b.Listeners = append(b.Listeners, fmt.Sprintf("%s:%d", l.Protocol, l.Port))
	}
	for _, l := range lb.NetworkListeners {
		b.Listeners = append(b.Listeners, fmt.Sprintf("%s:%d", strings.ToLower(l.Protocol), l.Port))
	}
	if err := cmp.Or(s.Err(doctor.Groups), lb.Err(doctor.Groups)); err != nil {
		b.Unknown = err.Error()
		return b
	}
	n, err := serversOf(s, lb)
	if err != nil {
		b.Unknown = err.Error()
		return b
	}
	b.Backends = &n
	return b
}

// lost says of a load balancer that the controller does not find what became of it.
func (b *balancing) lost(s *doctor.Snapshot, svc *corev1.Service) {
	if b.ID == "" {
		b.ID = svc.Labels[ccm.BalancerLabel] // that the controller had
	}
	if b.ID == "" {
		b.Made = ""
		return
	}
	if lb := s.Balancers[b.ID]; lb != nil && !lb.Gone {
		b.State = "untagged"
		return
	}
	b.State = "gone"
}

// serversOf counts the backends of a load balancer: of an NLB those of the groups that
// its listeners use, each group once.
func serversOf(s *doctor.Snapshot, lb *doctor.LoadBalancer) (int, error) {
	n := 0
	if lb.NLB == nil {
		for _, g := range lb.Groups {
			n += g.Servers
		}
		return n, nil
	}
	if err := s.Err(doctor.Backends); err != nil {
		return 0, err
	}
	if err := cmp.Or(s.Err(doctor.Listeners), lb.Err(doctor.Listeners)); err != nil {
		return 0, err
	}
	seen := map[string]bool{"": true} // a listener may have no group
	for _, l := range lb.NetworkListeners {
		if seen[l.ServerGroup] {
			continue
		}
		seen[l.ServerGroup] = true
		i := slices.IndexFunc(s.ServerGroups, func(g doctor.Group) bool { return g.ID == l.ServerGroup })
		if i < 0 {
			return 0, fmt.Errorf("how many backends there are: the server group %s of a listener is not the cluster's", l.ServerGroup)
		}
		if err := s.ServerGroups[i].Failed; err != nil {
			return 0, fmt.Errorf("how many backends there are: the server group %s: %w", l.ServerGroup, err)
		}
		n += s.ServerGroups[i].Servers
	}
	return n, nil
}

// readParts reads parts of the cluster, of what Only and Counts of the source say.
func (p *program) readParts(ctx context.Context, of doctor.Source, list []doctor.Part) (*doctor.Snapshot, error) {
	env, err := p.look(ctx, p.host())
	if err != nil {
		return nil, err
	}
	g := p.progress()
	defer g.done()
	src := p.source(env, g)
	src.Only, src.Counts = of.Only, of.Counts
	s, _, err := doctor.Gather(ctx, src, list)
	if err != nil {
		return nil, err
	}
	if err := s.Err(doctor.Services); errors.Is(err, kube.ErrNotFound) {
		return nil, command.Wrong("there is no Service %s in the cluster: correct the name, or --context and --kubeconfig", of.Only)
	} else if err != nil {
		return nil, err
	}
	return s, nil
}

// gatherOne gathers one Service, which an argument names.
func (p *program) gatherOne(ctx context.Context, arg string, list []doctor.Part) (*doctor.Snapshot, *corev1.Service, error) {
	ref, ok, err := serviceArg(arg)
	if err != nil || !ok {
		return nil, nil, command.Wrong("%q is no Service: one is named NAMESPACE/NAME", arg)
	}
	s, err := p.readParts(ctx, doctor.Source{Only: ref.String()}, list)
	if err != nil {
		return nil, nil, err
	}
	if len(s.Services) == 0 || !doctor.Ours(&s.Services[0]) {
		return nil, nil, command.Wrong("the Service %s is not of type LoadBalancer, or another controller answers for it", ref)
	}
	return s, &s.Services[0], nil
}

// A shown is a load balancer with what stands on it.
type shown struct {
	balancing
	Status string            `json:"status,omitempty"`
	VPC    string            `json:"vpc,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	Groups []shownGroup      `json:"groups,omitempty"`
}

type shownGroup struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Backends []string `json:"backends"`
	Unknown  string   `json:"unknown,omitempty"`
}

func (p *program) lbShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAMESPACE/SERVICE",
		Short: "Show the load balancer of a Service, its groups and their backends",
		Example: `  lbremedy lb show shop/web
  lbremedy lb show shop/web -o yaml`,
		ValidArgsFunction: p.completeService,
		Args:              command.Exactly(1, 1, "a Service as NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, svc, err := p.gatherOne(cmd.Context(), args[0], append([]doctor.Part{doctor.Detail}, inventory...))
			if err != nil {
				return err
			}
			v := shown{balancing: balancingOf(s, svc)}
			if b, err := s.Balancer(svc); err == nil && b != nil {
				v.VPC, v.Tags = b.VPC, b.Tags
				groups := b.Groups
				if b.CLB != nil {
					v.Status = b.CLB.Status
				} else {
					v.Status, groups = b.NLB.Status, s.ServerGroups
				}
				v.Groups = groupsOf(b, groups)
			}
			err = p.print(v, func() { p.balancer(v) })
			return cmp.Or(err, p.open([]balancing{v.balancing}))
		},
	}
}

// groupsOf returns the groups of a load balancer; of an NLB's those that its listeners use.
func groupsOf(b *doctor.LoadBalancer, groups []doctor.Group) []shownGroup {
	var out []shownGroup
	for _, g := range groups {
		uses := b.NLB == nil
		for _, l := range b.NetworkListeners {
			uses = uses || l.ServerGroup == g.ID
		}
		if !uses {
			continue
		}
		v := shownGroup{ID: g.ID, Name: g.Name, Backends: []string{}}
		if g.Failed != nil {
			v.Unknown = g.Failed.Error()
		}
		for _, e := range g.Backends {
			at := e.ID
			if e.IP != "" { // an ECS instance has none there
				at += " " + e.IP
			}
			v.Backends = append(v.Backends, fmt.Sprintf("%s:%d weight %d", at, e.Port, e.Weight))
		}
		out = append(out, v)
	}
	return out
}

// balancer prints a load balancer.
func (p *program) balancer(v shown) {
	fmt.Fprintf(p.out, "%s  %s %s\n", p.paint(bold, v.Namespace+"/"+v.Name), v.Kind, cmp.Or(v.name(), "none"))
	p.field("Address", cmp.Or(v.Address, "none")+" "+v.AddressType)
	p.field("Made", map[string]string{"own": "by the controller: it goes with the Service", "reused": "by a person: it stays when the Service goes"}[v.Made])
	p.field("Status", v.Status)
	p.field("Charge", v.ChargeType)
	p.field("VPC", v.VPC)
	var tags []string
	for _, k := range sortedKeys(v.Tags) {
		tags = append(tags, k+"="+v.Tags[k])
	}
	p.field("Tags", strings.Join(tags, "\n"))
	p.field("Listeners", strings.Join(v.Listeners, " "))
	p.field("Backends", v.ofLimit())
	for _, g := range v.Groups {
		p.field("Group", g.ID+" "+g.Name+"\n"+cmp.Or(g.Unknown, strings.Join(g.Backends, "\n")))
	}
}

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

func (p *program) lbWeights() *cobra.Command {
	return &cobra.Command{
		Use:   "weights NAMESPACE/SERVICE",
		Short: "Show how the traffic of a Service with the policy Local spreads over its nodes",
		Long: `Show for each node how many Pods of the Service it holds, the weight that it has, the
weight that this release of the controller gives it, and what part of the traffic each
of its Pods gets. With the policy Cluster, and where Pods are the backends, nodes have
no weights of their own.`,
		Example:           "  lbremedy lb weights shop/web",
		ValidArgsFunction: p.completeService,
		Args:              command.Exactly(1, 1, "a Service as NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			needs := []doctor.Part{doctor.Services, doctor.Endpoints, doctor.Nodes, doctor.Detail, doctor.Controller, doctor.Groups, doctor.Backends}
			s, svc, err := p.gatherOne(cmd.Context(), args[0], needs)
			if err != nil {
				return err
			}
			if err := s.Err(needs...); err != nil {
				return err
			}
			if mode := s.Mode(svc); mode != ccm.LocalMode {
				return command.Wrong("the backends of %s are those of the mode %s: only with the policy Local do nodes have weights by their Pods", args[0], mode)
			}
			list, err := weights(s, svc)
			if err != nil {
				return err
			}
			return p.print(list, func() {
				t := p.table("port", "node", "server", "pods", "weight", "wants", "share", "per pod")
				for _, w := range list {
					is := "none"
					if w.Weight != nil {
						is = fmt.Sprint(*w.Weight)
					}
					t.AppendRow([]any{w.Port, w.Node, w.Server, w.Pods, is, w.Wants, fmt.Sprintf("%d %%", w.Share), fmt.Sprintf("%d %%", w.PerPod)})
				}
				t.Render()
				p.note("CCM %s.", s.Controller.Version)
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
		return nil, fmt.Errorf("the version of the controller can't be told")
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
