// Package balancer holds the commands that list and show the load balancers behind Services. Begin with Of.
package balancer

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Command returns the command lb.
func Command(p *cli.Program) *cobra.Command {
	return command.Parent(&cobra.Command{
		Use:   "lb",
		Short: "Show the load balancers of Services",
	}, lsCommand(p), showCommand(p))
}

// A Balancing is a Service with its load balancer, as listed.
type Balancing struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Address     string   `json:"address,omitempty"` // in the Service's status
	AddressType string   `json:"addressType,omitempty"`
	Kind        string   `json:"kind"` // CLB or NLB
	ID          string   `json:"id,omitempty"`
	State       string   `json:"state,omitempty"` // "gone" or "untagged", as the help says; empty: neither, or unknown
	Made        string   `json:"made,omitempty"`  // "own" or "reused"
	ChargeType  string   `json:"chargeType,omitempty"`
	Backends    *int     `json:"backends,omitempty"` // of the load balancer; absent: unknown
	Limit       *int     `json:"limit,omitempty"`    // of backends
	Listeners   []string `json:"listeners,omitempty"`
	Unknown     string   `json:"unknown,omitempty"` // what is unknown, and why
}

// inventory are the parts for the list. It reads NLBs' groups one by one too, since their list has no number of backends.
var inventory = []doctor.Part{doctor.Services, doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups, doctor.Backends, doctor.Quotas}

func lsCommand(p *cli.Program) *cobra.Command {
	var scope cli.Scope
	var chosen cli.Labels
	order := cli.Order[Balancing]{Columns: map[string]func(a, b Balancing) int{
		"service":       func(a, b Balancing) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) },
		"load balancer": func(a, b Balancing) int { return strings.Compare(a.ID, b.ID) },
		"state":         func(a, b Balancing) int { return strings.Compare(b.State, a.State) }, // those with one first
		"address":       func(a, b Balancing) int { return strings.Compare(a.Address, b.Address) },
		"backends":      func(a, b Balancing) int { return cmp.Compare(a.count(), b.count()) },
	}}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the Services of type LoadBalancer with their load balancers",
		Long: `List the Services of type LoadBalancer with their load balancers: the address in the
status, the backends and how many the account allows, and the listeners. The state is
"gone" if the load balancer does not exist in the region, and "untagged" if it exists but
the controller cannot find it. -o wide shows everything: also the type of the address, the
billing, and whether the controller created the load balancer ("own") or a person chose it
("reused").

Exit codes: 0 success; 1 something failed; 2 the usage, the configuration or the input is
wrong; 6 something could not be determined: it shows as a question mark, with the reason
on standard error.`,
		Example: `  lbremedy lb ls
  lbremedy lb ls --namespace shop -o json
  lbremedy lb ls -l app=web --sort-by backends`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := scope.Check(); err != nil {
				return err
			}
			s, err := p.Gather(cmd.Context(), doctor.Source{Counts: true}, inventory)
			if err != nil {
				return err
			}
			list := []Balancing{}
			for _, svc := range s.OfType() {
				if (scope.Namespace == "" || svc.Namespace == scope.Namespace) && chosen.Has(svc) {
					list = append(list, Of(s, svc))
				}
			}
			order.Sort(list)
			err = p.Print(list, func() {
				printList(p, list)
				if len(list) == 0 {
					p.Note("No %s.", cli.Chosen(cmd, say.F("Service of type LoadBalancer")))
				}
			})
			return cmp.Or(err, printUnknown(p, list))
		},
	}
	p.AddNamespace(cmd, &scope, "only Services of this `namespace`")
	chosen.Add(cmd)
	order.Add(cmd)
	return cmd
}

func printList(p *cli.Program, list []Balancing) {
	columns := []any{"service", "load balancer", "state", "address", "backends", "listeners"}
	if p.Wide() {
		columns = []any{"service", "load balancer", "state", "address", "backends", "type", "made", "charge", "listeners"}
	}
	t := p.Table(columns...)
	for _, b := range list {
		row := []any{b.Namespace + "/" + b.Name, command.Clean(b.ID), b.State, command.Clean(b.Address), b.OfLimit()}
		if p.Wide() {
			row = append(row, b.AddressType, b.Made, b.ChargeType)
		}
		t.AppendRow(append(row, cli.Plain(strings.Join(b.Listeners, " "))))
	}
	t.Render()
}

func printUnknown(p *cli.Program, list []Balancing) error {
	unknown := 0
	for _, b := range list {
		if b.Unknown != "" {
			unknown++
			p.Note("%s/%s: %s", b.Namespace, b.Name, command.Clean(b.Unknown))
		}
	}
	if unknown > 0 {
		return command.Exit(cli.CodeUnknown)
	}
	return nil
}

func (b Balancing) name() string {
	name := command.Clean(b.ID)
	if b.State != "" {
		name += " (" + b.State + ")"
	}
	return name
}

// count returns -1 if the number is unknown.
func (b Balancing) count() int {
	if b.Backends == nil {
		return -1
	}
	return *b.Backends
}

// OfLimit returns the number of backends and its limit.
func (b Balancing) OfLimit() string {
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

// Of returns the load balancer of a Service in a snapshot.
func Of(s *doctor.Snapshot, svc *corev1.Service) Balancing {
	b := Balancing{Namespace: svc.Namespace, Name: svc.Name, Address: ccm.Address(svc), Kind: "CLB", Made: "own"}
	if ccm.NLB(svc) {
		b.Kind = "NLB"
	}
	if id, _ := ccm.Annotation(svc, "id"); id != "" {
		b.Made, b.ID = "reused", id
	}
	lb, err := s.Balancer(svc)
	switch {
	case err != nil:
	case lb == nil:
		b.lost(s, svc)
	default:
		err = b.read(s, lb)
	}
	if err != nil {
		b.Unknown = err.Error()
	}
	return b
}

// read returns why something of the load balancer is unknown.
func (b *Balancing) read(s *doctor.Snapshot, lb *doctor.LoadBalancer) error {
	b.ID, b.AddressType, b.ChargeType = lb.ID, lb.AddressType, "PayByCLCU"
	limit := "nlb_quota_loadbalancer_noeci_servers_num"
	if lb.CLB != nil {
		b.ChargeType, limit = lb.CLB.ChargeType, "slb_quota_backendservers_num"
	}
	if q, ok := s.Quota(limit); ok {
		b.Limit = new(int(q.Total))
	}
	unknown := cmp.Or(s.Err(doctor.Listeners), lb.Err(doctor.Listeners))
	for _, l := range lb.Listeners {
		b.Listeners = append(b.Listeners, fmt.Sprintf("%s:%d", l.Protocol, l.Port))
	}
	for _, l := range lb.NetworkListeners {
		at, err := ccm.NetworkListener(l)
		unknown = cmp.Or(err, unknown)
		at.Protocol = strings.ToLower(at.Protocol)
		b.Listeners = append(b.Listeners, at.String())
	}
	n, err := s.Servers(lb)
	if err != nil {
		return err
	}
	b.Backends = &n
	return unknown
}

func (b *Balancing) lost(s *doctor.Snapshot, svc *corev1.Service) {
	b.ID = cmp.Or(b.ID, svc.Labels[ccm.BalancerLabel]) // the last one known to the controller
	switch lb := s.Balancers[b.ID]; {
	case b.ID == "":
		b.Made = ""
	case lb != nil && !lb.Gone:
		b.State = "untagged"
	default:
		b.State = "gone"
	}
}

func userOf(ctx context.Context, p *cli.Program, id string) (string, error) {
	part := doctor.CLBs
	if strings.HasPrefix(id, "nlb-") {
		part = doctor.NLBs
	}
	s, err := p.Gather(ctx, doctor.Source{Counts: true}, []doctor.Part{doctor.Services, part})
	if err == nil {
		err = s.Err(part)
	}
	if err != nil {
		return "", err
	}
	var users []string
	for i := range s.Services {
		svc, lb := &s.Services[i], s.Balancers[id]
		if doctor.Ours(svc) && (Of(s, svc).ID == id || lb != nil && lb.Tags[ccm.NameTag] == ccm.DefaultName(svc)) {
			users = append(users, svc.Namespace+"/"+svc.Name)
		}
	}
	switch lb := s.Balancers[id]; {
	case len(users) == 1:
		return users[0], nil
	case len(users) > 1:
		return "", command.Wrong("%d Services use the load balancer %s: name one of them: %s", len(users), id, strings.Join(users, ", "))
	case lb == nil || lb.Gone:
		return "", command.Wrong("no Service in the cluster uses the load balancer %s, and it does not exist in %s: correct the ID, --cluster or --region",
			id, p.Region)
	}
	return "", command.Wrong("no Service in the cluster uses the load balancer %s", id)
}
