package console

import (
	"context"
	"net/netip"
	"strings"
	"unique"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	look "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

// read reads the cluster and the account, and keeps what pages show of them.
func read(ctx context.Context, p *cli.Program) (*seen, error) {
	s, r, err := look.Look(ctx, p)
	if err != nil {
		return nil, err
	}
	v := &seen{}
	known := map[string]balancer.Shown{} // Services may share a load balancer
	for _, svc := range s.OfType() {
		b := balancer.Show(s, svc)
		for _, name := range []*string{&b.Namespace, &b.Kind, &b.AddressType, &b.State, &b.Made, &b.ChargeType, &b.ID, &b.Status, &b.VPC} {
			*name = unique.Make(*name).Value()
		}
		if same, ok := known[b.ID]; ok && b.ID != "" {
			b.Tags, b.Groups, b.Listeners = same.Tags, same.Groups, same.Listeners
		}
		known[b.ID] = b
		v.Services = append(v.Services, &balanced{Shown: b})
	}
	for i := range r.Findings {
		v.Findings = append(v.Findings, &r.Findings[i])
	}
	v.measure(s)
	v.Result = r
	v.arrange()
	return v, nil
}

// measure notes how full vSwitches and quotas are. Of some quotas the cloud does not count
// what is used; they are left out.
func (v *seen) measure(s *doctor.Snapshot) {
	for _, w := range s.VSwitches {
		block, err := netip.ParsePrefix(w.CIDR)
		if err != nil || !block.Addr().Is4() {
			continue
		}
		// Alibaba Cloud keeps four addresses of each: https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-a-vswitch
		total := float64(int64(1)<<(32-block.Bits()) - 4)
		about := strings.TrimSpace(w.Zone + " " + w.CIDR + " " + w.Name)
		v.VSwitches = append(v.VSwitches, gauge{Name: w.ID, About: about, Used: max(0, total-float64(w.Free)), Total: total})
	}
	for _, q := range s.Quotas {
		if q.Used > 0 && q.Total > 0 && q.Period == 0 {
			v.Quotas = append(v.Quotas, gauge{Name: q.Name, About: strings.TrimSpace(q.Product + " " + q.Description), Used: q.Used, Total: q.Total})
		}
	}
}
