package doctor

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed room.md
var roomDoc string

// room looks for limits that are almost reached.
var room = &doctor.Check{
	ID:    "room",
	Doc:   roomDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses: []doctor.Part{doctor.Quotas, doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups, doctor.Backends,
		doctor.Detail, doctor.VSwitches, doctor.Routes},
	Find: findRoom,
}

// At these percentages a limit is reported.
const (
	tight   = 80
	nearing = 95
)

// A limit is one of the account's, with what it is where the quota center does not list
// it (https://www.alibabacloud.com/help/en/slb/classic-load-balancer/product-overview/limits).
type limit struct {
	name  string
	usual float64
}

var (
	limitCLBs         = limit{"slb_quota_instances_num", 60}
	limitListeners    = limit{"slb_quota_listeners_num", 50}
	limitBackends     = limit{"slb_quota_backendservers_num", 200}
	limitAttached     = limit{"slb_quota_backendserver_attached_num", 50}
	limitNLBs         = limit{"nlb_quota_loadbalancers_num", 60}
	limitNLBListeners = limit{"nlb_quota_loadbalancer_listeners_num", 50}
	limitNLBBackends  = limit{"nlb_quota_loadbalancer_noeci_servers_num", 400}
	limitRoutes       = limit{"vpc_quota_route_entrys_num", 200}
)

func findRoom(s *doctor.Snapshot, r *doctor.Report) {
	m := measuring{s, r, s.Users(), s.Err(doctor.Quotas) == nil}
	if m.limited {
		m.balancers()
	} else {
		r.Unknown(doctor.About{}, fmt.Errorf("how much room the limits leave: %w", s.Err(doctor.Quotas)))
	}
	m.vswitches()
	m.routes()
}

// A measuring is a snapshot whose limits are being looked at.
type measuring struct {
	*doctor.Snapshot
	report  *doctor.Report
	users   map[string][]string
	limited bool // the account's limits are known
}

// account names the account in the region as what a finding is about.
func (m *measuring) account() doctor.About {
	return doctor.About{Kind: doctor.Account, Name: m.Region}
}

// measure reports a limit that is nearly reached.
func (m *measuring) measure(f doctor.Finding, used float64, of limit, what, do string) {
	total, said := of.usual, "the usual limit of"
	if q, ok := m.Quota(of.name); ok {
		total, said = q.Total, "the account's limit of"
	}
	if total <= 0 && used > 0 {
		m.report.Unknown(f.About, fmt.Errorf("how much room %s leaves: the quota center says %s, and %s are in use", of.name, figure(total), figure(used)))
		return
	}
	at := percent(used, total)
	if at < tight {
		return
	}
	f.Severity, f.Do = level(at), say.Literal(do)
	f.Text = say.F("%s: %s of %s %s (%d %%).", what, figure(used), said, figure(total), at)
	f.Evidence = map[string]string{"limit": of.name, "used": figure(used), "total": figure(total)}
	m.report.Add(f)
}

func level(percent int) doctor.Severity {
	if percent >= nearing {
		return doctor.Critical
	}
	return doctor.Warning
}

// figure writes a number as people do.
func figure(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// balancers looks at the numbers of load balancers, and of what stands on each.
func (m *measuring) balancers() {
	account := m.account()
	clbs, nlbs := 0, 0
	attached := map[string]map[string]bool{} // load balancers by ECS server
	known := m.Err(doctor.Backends) == nil
	for _, b := range m.List() {
		if b.NLB != nil {
			nlbs++
		} else {
			clbs++
		}
		if !b.Used {
			continue
		}
		m.balancer(b)
		for i := range b.Groups {
			g := &b.Groups[i]
			known = known && g.Failed == nil
			for _, e := range g.Backends {
				if e.Type == "ecs" {
					if attached[e.ID] == nil {
						attached[e.ID] = map[string]bool{}
					}
					attached[e.ID][b.ID] = true
				}
			}
		}
		known = known && b.Err(doctor.Groups) == nil
	}
	for _, of := range []struct {
		part  doctor.Part
		limit limit
		n     int
	}{{doctor.CLBs, limitCLBs, clbs}, {doctor.NLBs, limitNLBs, nlbs}} {
		if err := m.Err(of.part); err != nil {
			m.report.Unknown(account, err)
			continue
		}
		m.measure(doctor.Finding{About: account, Key: of.limit.name}, float64(of.n), of.limit,
			fmt.Sprintf("The %s that the account may have in the region run out", of.part),
			"Apply for more in the quota center, or let Services share load balancers by the annotation id.")
	}
	for _, id := range slices.Sorted(maps.Keys(attached)) {
		m.measure(doctor.Finding{About: doctor.About{Kind: doctor.Node, Name: id}, Key: limitAttached.name}, float64(len(attached[id])), limitAttached,
			fmt.Sprintf("The CLBs that the server %s may stand behind run out", id),
			"Keep the node out of some of them with the annotation backend-label, let Services share load balancers, or apply for more in the quota center.")
	}
	if !known {
		m.report.Unknown(doctor.All(doctor.Node), fmt.Errorf("how many load balancers each server stands behind: %w", cmp.Or(m.Err(doctor.Groups), m.Err(doctor.Backends), errSome)))
	}
}

// balancer looks at the listeners and backends of one load balancer.
func (m *measuring) balancer(b *doctor.LoadBalancer) {
	about := doctor.OfBalancer(b.ID)
	listeners, backends := limitListeners, limitBackends
	n := len(b.Listeners)
	if b.NLB != nil {
		listeners, backends, n = limitNLBListeners, limitNLBBackends, len(b.NetworkListeners)
	}
	finding := doctor.Finding{About: about, Services: m.users[b.ID]}
	if err := cmp.Or(m.Err(doctor.Listeners), b.Err(doctor.Listeners)); err != nil {
		m.report.Unknown(about, err)
	} else {
		finding.Key = listeners.name
		m.measure(finding, float64(n), listeners, fmt.Sprintf("The listeners of the %s %s run out", b.Kind(), b.ID),
			"Give some of its Services another load balancer, or apply for more in the quota center.")
	}
	if err := cmp.Or(m.Err(doctor.Groups), b.Err(doctor.Groups)); err != nil {
		m.report.Unknown(about, err)
		return
	}
	if b.NLB != nil && m.Err(doctor.Backends) != nil {
		m.report.Unknown(about, m.Err(doctor.Backends))
		return
	}
	servers, failed := 0, error(nil)
	for _, g := range m.groupsOf(b) {
		servers += g.Servers
		if b.NLB != nil {
			failed = cmp.Or(failed, g.Failed)
		}
	}
	if failed != nil {
		m.report.Unknown(about, failed)
		return
	}
	finding.Key = backends.name
	m.measure(finding, float64(servers), backends, fmt.Sprintf("The backends of the %s %s run out", b.Kind(), b.ID),
		"Fewer nodes behind it: externalTrafficPolicy: Local or the annotation backend-label; or a load balancer of its own for some of its Services, or apply for more in the quota center.")
}

// groupsOf returns the groups of a load balancer. Those of an NLB are the ones that its
// listeners use.
func (m *measuring) groupsOf(b *doctor.LoadBalancer) []doctor.Group {
	if b.NLB == nil {
		return b.Groups
	}
	return slices.DeleteFunc(slices.Clone(m.ServerGroups), func(g doctor.Group) bool {
		return !slices.ContainsFunc(b.NetworkListeners, func(l cloud.NetworkListener) bool { return l.ServerGroup == g.ID })
	})
}

// vswitches looks at the free addresses of the vSwitches in use.
func (m *measuring) vswitches() {
	about := doctor.All(doctor.Network)
	if err := m.Err(doctor.Detail, doctor.VSwitches); err != nil {
		m.report.Unknown(about, fmt.Errorf("how many addresses are free: %w", err))
		return
	}
	for _, id := range m.inUse() {
		v, ok := m.VSwitches[id]
		if !ok {
			continue // one that does not exist is a failure of its own
		}
		block, err := netip.ParsePrefix(v.CIDR)
		if err != nil || !block.Addr().Is4() {
			m.report.Unknown(doctor.About{Kind: doctor.Network, Name: id}, fmt.Errorf("how many addresses it has: its block is %q", v.CIDR))
			continue
		}
		// The first address and the last three are the network's own:
		// https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-vswitch
		all := float64(uint64(1)<<(32-block.Bits())) - 4
		at := percent(all-float64(v.Free), all)
		if at < tight {
			continue
		}
		m.report.Add(doctor.Finding{
			Severity: level(at), About: doctor.About{Kind: doctor.Network, Name: id},
			Text: say.F("The vSwitch %s in %s has %d of %s addresses left (%d %% are used).", id, v.Zone, v.Free, figure(all), at),
			Do:   say.F("Add a vSwitch in the same zone to the cluster, and name it for new Services with the annotation vswitch-id, or zone-maps of an NLB."),
			Evidence: map[string]string{
				"free": strconv.FormatInt(v.Free, 10), "total": figure(all), "block": v.CIDR,
			},
		})
	}
}

// inUse returns the IDs of the vSwitches that the cluster's nodes, Pods and load
// balancers take addresses from, sorted.
func (m *measuring) inUse() []string {
	ids := slices.Concat(m.Detail.VSwitches, m.Detail.PodVSwitches)
	for _, b := range m.List() {
		if !b.Used {
			continue
		}
		if b.CLB != nil && b.CLB.VSwitch != "" {
			ids = append(ids, b.CLB.VSwitch)
		}
		if b.NLB != nil {
			for _, z := range b.NLB.Zones {
				ids = append(ids, z.VSwitch)
			}
		}
	}
	for _, svc := range m.OfType() {
		if id, _ := ccm.Annotation(svc, "vswitch-id"); id != "" {
			ids = append(ids, id)
		}
		zones, _ := ccm.Annotation(svc, "zone-maps")
		for zone := range strings.SplitSeq(zones, ",") {
			if parts := strings.Split(zone, ":"); ccm.NLB(svc) && len(parts) > 1 {
				ids = append(ids, strings.TrimSpace(parts[1]))
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// routes looks at the entries of the VPC's route tables: on Flannel each node has one.
func (m *measuring) routes() {
	about := doctor.All(doctor.Network)
	if err := m.Err(doctor.Detail); err != nil {
		m.report.Unknown(about, fmt.Errorf("how many routes there are: %w", err))
		return
	}
	switch {
	case m.Detail.Network == "":
		m.report.Unknown(about, errors.New("whether nodes take routes: the cluster does not say which network plug-in it has"))
		return
	case !strings.HasPrefix(m.Detail.Network, "flannel") || !m.limited:
		return
	}
	if err := m.Err(doctor.Routes); err != nil {
		m.report.Unknown(about, fmt.Errorf("how many routes there are: %w", err))
		return
	}
	for _, table := range slices.Sorted(maps.Keys(m.Routes)) {
		made := 0
		for _, route := range m.Routes[table] {
			if route.Type == "Custom" { // those of the system don't count
				made++
			}
		}
		m.measure(doctor.Finding{About: doctor.About{Kind: doctor.Network, Name: table}, Key: limitRoutes.name}, float64(made), limitRoutes,
			fmt.Sprintf("The entries of the route table %s run out, of which each node of a Flannel cluster takes one", table),
			"Apply for more in the quota center before nodes are added: the Pods of a node without a route can't be reached.")
	}
}
