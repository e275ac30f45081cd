package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// room looks for limits that are almost reached.
var room = &doctor.Check{
	ID:    "room",
	Doc:   page("room"),
	Needs: []doctor.Part{doctor.Services},
	Uses: []doctor.Part{doctor.Quotas, doctor.CLBs, doctor.NLBs, doctor.Listeners, doctor.Groups, doctor.Backends,
		doctor.Detail, doctor.VSwitches, doctor.Routes},
	Manifest: true,
	Find:     findRoom,
}

const (
	tight   = 80
	nearing = 95
)

func findRoom(s *doctor.Snapshot, r *doctor.Report) {
	m := measuring{s, r, s.Users(), s.Err(doctor.Quotas) == nil}
	if !m.limited {
		r.Unknown(doctor.About{}, say.Errorf("how much room the limits leave: %w", s.Err(doctor.Quotas)))
	}
	if list := s.Planned(); len(list) > 0 {
		planning{&m, map[string]int{}}.check(list)
		return
	}
	if m.limited {
		m.balancers()
	}
	m.vswitches()
	m.routes()
}

type measuring struct {
	*doctor.Snapshot
	report  *doctor.Report
	users   map[string][]string
	limited bool // the account's limits are known
}

func (m *measuring) account() doctor.About {
	return doctor.About{Kind: doctor.Account, Name: m.Region}
}

// measure reports a limit that is nearly reached. The finding's text begins with what it limits.
func (m *measuring) measure(f doctor.Finding, used float64, of ccm.Limit) {
	q, ok := m.Quota(of.Name)
	total := of.Usual
	if ok {
		total = q.Total
	}
	if total <= 0 && used > 0 {
		m.report.Unknown(f.About, say.Errorf("how much room %s leaves: the quota center says %s, and %s are in use", of.Name, say.Figure(total), say.Figure(used)))
		return
	}
	at := percent(used, total)
	if at < tight {
		return
	}
	f.Severity = level(at)
	if ok {
		f.Text = f.Text.And("The account's limit is %s, and %s are in use (%d %%).", say.Figure(total), say.Figure(used), at)
	} else {
		f.Text = f.Text.And("The usual limit is %s, and %s are in use (%d %%).", say.Figure(total), say.Figure(used), at)
	}
	f.Evidence = map[string]string{"limit": of.Name, "used": say.Figure(used), "total": say.Figure(total)}
	m.report.Add(f)
}

func level(percent int) doctor.Severity {
	if percent >= nearing {
		return doctor.Critical
	}
	return doctor.Warning
}

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
		limit ccm.Limit
		n     int
	}{{doctor.CLBs, ccm.LimitCLBs, clbs}, {doctor.NLBs, ccm.LimitNLBs, nlbs}} {
		if err := m.Err(of.part); err != nil {
			m.report.Unknown(account, err)
			continue
		}
		m.measure(doctor.Finding{About: account, Key: of.limit.Name,
			Text: say.F("The account is running out of %s in the region.", of.part),
			Do:   say.F("Request a higher limit in the quota center, or let Services share load balancers with the annotation id."),
		}, float64(of.n), of.limit)
	}
	for _, id := range slices.Sorted(maps.Keys(attached)) {
		m.measure(doctor.Finding{About: doctor.About{Kind: doctor.Node, Name: id}, Key: ccm.LimitAttached.Name,
			Text: say.F("The server %s can be a backend of few more CLBs.", id),
			Do: say.F("Exclude the node from some of them with the annotation backend-label, or let Services share load balancers.").
				And("Or request a higher limit in the quota center."),
		}, float64(len(attached[id])), ccm.LimitAttached)
	}
	if !known {
		m.report.Unknown(doctor.All(doctor.Node),
			say.Errorf("behind how many load balancers each server is: %w", cmp.Or(m.Err(doctor.Groups), m.Err(doctor.Backends), errSome)))
	}
}

func (m *measuring) balancer(b *doctor.LoadBalancer) {
	about := doctor.OfBalancer(b.ID)
	listeners, backends := ccm.LimitListeners, ccm.LimitBackends
	n := len(b.Listeners)
	if b.NLB != nil {
		listeners, backends, n = ccm.LimitNLBListeners, ccm.LimitNLBBackends, len(b.NetworkListeners)
	}
	if err := cmp.Or(m.Err(doctor.Listeners), b.Err(doctor.Listeners)); err != nil {
		m.report.Unknown(about, err)
		if b.NLB != nil {
			return // its groups are those of its listeners
		}
	} else {
		m.measure(doctor.Finding{About: about, Services: m.users[b.ID], Key: listeners.Name,
			Text: say.F("The %s %s is running out of listeners.", b.Kind(), b.ID),
			Do:   say.F("Move some of its Services to another load balancer, or request a higher limit in the quota center."),
		}, float64(n), listeners)
	}
	servers, err := m.Servers(b)
	if err != nil {
		m.report.Unknown(about, err)
	}
	m.measure(doctor.Finding{About: about, Services: m.users[b.ID], Key: backends.Name,
		Text: say.F("The %s %s is running out of backends.", b.Kind(), b.ID),
		Do: say.F("Use fewer nodes as backends, with externalTrafficPolicy: Local or the annotation backend-label.").
			And("Or move some of its Services to a load balancer of their own, or request a higher limit in the quota center."),
	}, float64(servers), backends)
}

func (m *measuring) vswitches() {
	about := doctor.All(doctor.Network)
	if err := m.Err(doctor.Detail, doctor.VSwitches); err != nil {
		m.report.Unknown(about, say.Errorf("how many addresses are free: %w", err))
		return
	}
	for _, id := range m.inUse() {
		v, ok := m.VSwitches[id]
		if !ok {
			continue // a missing vSwitch is a failure of its own
		}
		all, err := ccm.AddressesOf(v)
		if err != nil {
			m.report.Unknown(doctor.About{Kind: doctor.Network, Name: id}, say.Errorf("how many addresses it has: %w", err))
			continue
		}
		at := percent(float64(all-v.Free), float64(all))
		if at < tight {
			continue
		}
		m.report.Add(doctor.Finding{
			Severity: level(at), About: doctor.About{Kind: doctor.Network, Name: id},
			Text: say.F("The vSwitch %s in %s has %d of %s addresses left (%d %% are used).", id, v.Zone, v.Free, strconv.FormatInt(all, 10), at),
			Do:   say.F("Add a vSwitch in the same zone to the cluster, and name it for new Services with the annotation vswitch-id, or zone-maps for an NLB."),
			Evidence: map[string]string{
				"free": strconv.FormatInt(v.Free, 10), "total": strconv.FormatInt(all, 10), "block": v.CIDR,
			},
		})
	}
}

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
		asked, _ := ccm.AskedVSwitches(svc)
		ids = append(ids, asked...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// routes counts the entries of the VPC's route tables: with Flannel each node has one.
func (m *measuring) routes() {
	about := doctor.All(doctor.Network)
	if err := m.Err(doctor.Detail); err != nil {
		m.report.Unknown(about, say.Errorf("how many routes there are: %w", err))
		return
	}
	switch {
	case m.Detail.Network == "":
		m.report.Unknown(about, say.Errorf("whether nodes need routes: the cluster does not name its network plug-in"))
		return
	case !strings.HasPrefix(m.Detail.Network, "flannel") || !m.limited:
		return
	}
	if err := m.Err(doctor.Routes); err != nil {
		m.report.Unknown(about, say.Errorf("how many routes there are: %w", err))
		return
	}
	for _, table := range slices.Sorted(maps.Keys(m.Routes)) {
		made := 0
		for _, route := range m.Routes[table] {
			if route.Type == "Custom" { // system routes do not count
				made++
			}
		}
		m.measure(doctor.Finding{About: doctor.About{Kind: doctor.Network, Name: table}, Key: ccm.LimitRoutes.Name,
			Text: say.F("The route table %s is running out of entries. Each node of a Flannel cluster needs one.", table),
			Do:   say.F("Request a higher limit in the quota center before you add nodes: the Pods of a node without a route cannot be reached."),
		}, float64(made), ccm.LimitRoutes)
	}
}
