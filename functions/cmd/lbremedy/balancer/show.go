package balancer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Shown is a load balancer with its listeners and groups.
type Shown struct {
	Balancing
	Status    string            `json:"status,omitempty"`
	VPC       string            `json:"vpc,omitempty"`
	VSwitches []string          `json:"vswitches,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Groups    []Group           `json:"groups,omitempty"`
}

// A Group is a group of backends of a load balancer.
type Group struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Backends []string `json:"backends"`
	Unknown  string   `json:"unknown,omitempty"`
}

func showCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAMESPACE/SERVICE|" + cli.BalancerArg,
		Short: "Show the load balancer of a Service, its groups and their backends",
		Long: `Show the load balancer of a Service, its groups and their backends. Name the Service, or
the load balancer by its ID.

Exit codes: 0 success; 1 something failed; 2 the usage, the configuration or the input is
wrong; 6 something could not be determined: standard error says what, and why.`,
		Example: `  lbremedy lb show shop/web
  lbremedy lb show lb-2ze1abc
  lbremedy lb show shop/web -o yaml`,
		ValidArgsFunction: cli.OnlyFirst(p.CompleteServices),
		Args:              command.Exactly(1, 1, "a Service as NAMESPACE/NAME, or the ID of a load balancer"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if cli.BalancerID(name) {
				var err error
				if name, err = userOf(cmd.Context(), p, name); err != nil {
					return err
				}
			}
			ref, err := cli.ServiceArg(name)
			if err != nil {
				return err
			}
			s, err := p.Gather(cmd.Context(), doctor.Source{Only: ref.String()}, append([]doctor.Part{doctor.Detail}, inventory...))
			if err != nil {
				return err
			}
			if len(s.Services) == 0 || !doctor.Ours(&s.Services[0]) {
				return command.Wrong("the Service %s is not of type LoadBalancer, or another controller handles it", ref)
			}
			v := show(s, &s.Services[0])
			err = p.Print(v, func() { printBalancer(p, v) })
			return cmp.Or(err, printUnknown(p, []Balancing{v.Balancing}))
		},
	}
}

func show(s *doctor.Snapshot, svc *corev1.Service) Shown {
	v := Shown{Balancing: Of(s, svc)}
	b, err := s.Balancer(svc)
	if err != nil || b == nil {
		return v
	}
	v.VPC, v.Tags = b.VPC, b.Tags
	if b.CLB != nil {
		v.Status = b.CLB.Status
		if b.CLB.VSwitch != "" {
			v.VSwitches = []string{b.CLB.VSwitch}
		}
	} else {
		v.Status = b.NLB.Status
		for _, z := range b.NLB.Zones {
			v.VSwitches = append(v.VSwitches, z.VSwitch)
		}
	}
	for _, g := range s.GroupsOf(b) {
		one := Group{ID: g.ID, Name: g.Name, Backends: []string{}}
		if g.Failed != nil {
			one.Unknown = g.Failed.Error()
			v.Unknown = cmp.Or(v.Unknown, say.Errorf("the backends of the group %s could not be read: %w", g.ID, g.Failed).Error())
		}
		for _, e := range g.Backends {
			at := e.ID
			if e.IP != "" { // empty for an ECS instance
				at += " " + e.IP
			}
			one.Backends = append(one.Backends, fmt.Sprintf("%s:%d weight %d", at, e.Port, e.Weight))
		}
		v.Groups = append(v.Groups, one)
	}
	return v
}

func printBalancer(p *cli.Program, v Shown) {
	fmt.Fprintf(p.Out, "%s  %s %s\n", p.Paint(cli.Bold, v.Namespace+"/"+v.Name), v.Kind, cmp.Or(v.name(), "none"))
	p.Field("Address", cmp.Or(v.Address, "none")+" "+v.AddressType)
	made := map[string]say.Text{"own": say.F("by the controller: deleted with the Service"), "reused": say.F("by a person: kept when the Service is deleted")}
	p.Field("Made", p.Tell(made[v.Made]))
	p.Field("Status", v.Status)
	p.Field("Charge", v.ChargeType)
	p.Field("VPC", v.VPC)
	p.Field("vSwitch", strings.Join(v.VSwitches, ", "))
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(v.Tags)) {
		tags = append(tags, k+"="+v.Tags[k])
	}
	p.Quoted("Tags", "", strings.Join(tags, "\n"))
	p.Field("Listeners", strings.Join(v.Listeners, " "))
	p.Field("Backends", v.OfLimit())
	for _, g := range v.Groups {
		p.Quoted("Group", "", g.ID+" "+g.Name+"\n"+cmp.Or(g.Unknown, strings.Join(g.Backends, "\n")))
	}
}
