package doctor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// This part of the check room looks for limits that Services not yet in the cluster would exceed.

type planning struct {
	*measuring
	taken map[string]int // load balancers by limit, addresses by vSwitch
}

func (p planning) check(list []*corev1.Service) {
	for _, svc := range list {
		id, _ := ccm.Annotation(svc, "id")
		old, replaces := p.Replaced[name(svc)]
		switch {
		case id != "":
			p.listeners(svc)
		case !replaces && p.Others != nil:
			p.report.Unknown(about(svc), say.Errorf("whether it replaces a Service that has a load balancer: %w", p.Others))
		case !replaces || !ccm.Synced(&old): // otherwise it keeps its load balancer
			p.balancer(svc)
			p.addresses(svc)
		}
	}
}

func (p planning) balancer(svc *corev1.Service) {
	part, limit := doctor.CLBs, ccm.LimitCLBs
	if ccm.NLB(svc) {
		part, limit = doctor.NLBs, ccm.LimitNLBs
	}
	if err := p.Err(part); err != nil {
		p.report.Unknown(about(svc), err)
		return
	}
	p.taken[limit.Name]++
	n := p.taken[limit.Name]
	for _, b := range p.List() {
		if (b.NLB != nil) == ccm.NLB(svc) {
			n++
		}
	}
	p.fits(svc, n, limit, say.F("With this Service, the region has %d %s.", n, part),
		say.F("Request a higher limit in the quota center, or let Services share load balancers with the annotation id."))
}

func (p planning) listeners(svc *corev1.Service) {
	b, err := p.Balancer(svc)
	if b == nil && err == nil {
		return // reuse reports it
	}
	if err == nil {
		err = cmp.Or(p.Err(doctor.Listeners), b.Err(doctor.Listeners))
	}
	var all []ccm.Listener
	if err == nil {
		all, err = listenersOf(b)
	}
	if err != nil {
		p.report.Unknown(about(svc), err)
		return
	}
	limit := ccm.LimitListeners
	if b.NLB != nil {
		limit = ccm.LimitNLBListeners
	}
	n := len(all)
	for _, port := range svc.Spec.Ports {
		if !slices.ContainsFunc(all, ccm.ListenerOf(svc, port).Excludes) {
			n++
		}
	}
	p.fits(svc, n, limit, say.F("With this Service, the %s %s has %s.", b.Kind(), b.ID, say.Count(n, "listener")),
		say.F("Move some of its Services to another load balancer, or request a higher limit in the quota center."))
}

func (p planning) fits(svc *corev1.Service, n int, of ccm.Limit, text, do say.Text) {
	total := of.Usual
	if q, ok := p.Quota(of.Name); ok {
		total = q.Total
	}
	at := percent(float64(n), total)
	if !p.limited || at < tight {
		return
	}
	severity := doctor.Warning
	if float64(n) > total {
		severity = doctor.Critical
	}
	p.report.Add(doctor.Finding{Severity: severity, About: about(svc), Key: of.Name, Text: text.And("The limit is %s.", say.Figure(total)), Do: do,
		Evidence: map[string]string{"limit": of.Name, "used": strconv.Itoa(n), "total": say.Figure(total)}})
}

func (p planning) addresses(svc *corev1.Service) {
	if err := p.Err(doctor.Detail, doctor.VSwitches); err != nil {
		p.report.Unknown(about(svc), say.Errorf("how many addresses are free: %w", err))
		return
	}
	short := ccm.VSwitchID
	if ccm.NLB(svc) {
		short = ccm.ZoneMap
	}
	asked, _ := ccm.AskedVSwitches(svc)
	value, _ := ccm.Annotation(svc, ccm.ZoneMap)
	list, _ := ccm.Zones(value)
	zones := map[string]string{}
	for _, z := range list {
		zones[z.VSwitch] = z.Name
	}
	for _, id := range asked {
		if id == "" {
			continue // annotations reports the zone map
		}
		v, ok := p.VSwitches[id]
		if !ok {
			v = cloud.VSwitch{ID: id, Zone: zones[id]}
			p.report.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: short + "/" + ccm.CutID(id),
				Text: say.F("The annotation %s names the vSwitch %s, which the cluster's VPC does not have.", short, ccm.Quote(id)),
				Do:   p.other(svc, short, v), Evidence: map[string]string{"vSwitch": ccm.CutID(id), "VPC": p.Detail.VPC}})
			continue
		}
		p.address(svc, short, v)
	}
	if kind, _ := ccm.Annotation(svc, "address-type"); ccm.NLB(svc) || len(asked) > 0 || kind != "intranet" {
		return
	}
	var own []cloud.VSwitch
	for _, id := range p.Detail.VSwitches {
		if v, ok := p.VSwitches[id]; ok {
			own = append(own, v)
		}
	}
	// The controller may use another one from its configuration: a single full vSwitch proves little.
	if len(own) > 0 && !slices.ContainsFunc(own, func(v cloud.VSwitch) bool { return v.Free > 0 }) {
		p.report.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: short,
			Text: say.F("The Service names no vSwitch, and the cluster's own vSwitches have no free addresses: %s.", ccm.DescribeVSwitches(own, shown)),
			Do:   p.other(svc, short, own[0]), Evidence: map[string]string{"VPC": p.Detail.VPC}})
	}
}

func (p planning) address(svc *corev1.Service, short string, v cloud.VSwitch) {
	all, err := ccm.AddressesOf(v)
	if err != nil {
		p.report.Unknown(about(svc), say.Errorf("how many addresses it has: %w", err))
		return
	}
	free := v.Free - int64(p.taken[v.ID])
	p.taken[v.ID]++
	at := percent(float64(all-free), float64(all))
	if free > 0 && at < tight {
		return
	}
	text := say.F("The vSwitch %s in %s has %d of %s addresses left (%d %% are used).", v.ID, v.Zone, v.Free, strconv.FormatInt(all, 10),
		percent(float64(all-v.Free), float64(all)))
	if before := p.taken[v.ID] - 1; before > 0 {
		text = text.And("Other Services of these manifests take %d before.", before)
	}
	severity := level(at)
	if free <= 0 {
		severity = doctor.Critical
	}
	p.report.Add(doctor.Finding{Severity: severity, About: about(svc), Key: short + "/" + v.ID, Text: text, Do: p.other(svc, short, v),
		Evidence: map[string]string{"free": strconv.FormatInt(v.Free, 10), "total": strconv.FormatInt(all, 10), "block": v.CIDR}})
}

// other names the vSwitch with the most free addresses, of the same zone if possible.
func (p planning) other(svc *corev1.Service, short string, now cloud.VSwitch) say.Text {
	var best cloud.VSwitch
	for _, id := range sorted(p.VSwitches) {
		v := p.VSwitches[id]
		all, err := ccm.AddressesOf(v)
		if err != nil || v.ID == now.ID || percent(float64(all-v.Free), float64(all)) >= tight || short == ccm.ZoneMap && v.Zone != now.Zone {
			continue
		}
		if near, was := v.Zone == now.Zone, best.Zone == now.Zone; best.ID == "" || near && !was || near == was && v.Free > best.Free {
			best = v
		}
	}
	if best.ID == "" {
		return say.F("Add a vSwitch in the same zone to the cluster, and name it: %s.", set(svc, short))
	}
	value := best.ID
	if short == ccm.ZoneMap {
		whole, _ := ccm.Annotation(svc, short)
		value = strings.ReplaceAll(whole, now.ID, best.ID)
	}
	return say.F("Name a vSwitch that has free addresses: %s.", setTo(svc, short, value))
}
