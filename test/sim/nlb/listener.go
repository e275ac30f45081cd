package nlb

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// An NLBListener is a port that an NLB forwards to a server group.
type NLBListener struct {
	ID           string            `json:"id,omitempty"`
	Port         int               `json:"port"`               // 0 if Config has StartPort and EndPort
	Protocol     string            `json:"protocol,omitempty"` // TCP if empty, UDP or TCPSSL
	ServerGroup  string            `json:"serverGroup,omitempty"`
	Description  string            `json:"description,omitempty"`
	Status       string            `json:"status,omitempty"` // Running if empty
	Config       map[string]string `json:"config,omitempty"` // other parameters by their API names
	Certificates []string          `json:"certificates,omitempty"`
	CAs          []string          `json:"cas,omitempty"`     // CA certificates
	Further      []string          `json:"further,omitempty"` // additional certificates
	Tags         map[string]string `json:"tags,omitempty"`
}

func nlbListenerActions() map[string]*core.Action {
	one := []string{"ListenerId"}
	more := append(one, "AdditionalCertificateIds")
	return map[string]*core.Action{
		"ListListeners":        {Do: on(listNLBListeners)},
		"GetListenerAttribute": {Do: on(getNLBListener), Need: one},
		"CreateListener": {Do: core.Once(on(createNLBListener)),
			Need: []string{"ListenerProtocol", "ListenerPort", "LoadBalancerId", "ServerGroupId"}},
		"UpdateListenerAttribute":                        {Do: core.Once(on(updateNLBListener)), Need: one},
		"StartListener":                                  {Do: core.Once(on(switchNLBListener("Starting", "Running"))), Need: one},
		"StopListener":                                   {Do: core.Once(on(switchNLBListener("Stopping", "Stopped"))), Need: one},
		"DeleteListener":                                 {Do: core.Once(on(deleteNLBListener)), Need: one},
		"ListListenerCertificates":                       {Do: on(listNLBCertificates), Need: one},
		"AssociateAdditionalCertificatesWithListener":    {Do: core.Once(on(associateCertificates)), Need: more},
		"DisassociateAdditionalCertificatesWithListener": {Do: core.Once(on(disassociateCertificates)), Need: more},
	}
}

func (l *NLBListener) fill() {
	l.Protocol, l.Status = cmp.Or(l.Protocol, "TCP"), cmp.Or(l.Status, "Running")
	if l.Config == nil {
		l.Config = map[string]string{}
	}
	if l.Tags == nil {
		l.Tags = map[string]string{}
	}
}

func (s *State) nlbListener(id string) (*NLB, *NLBListener) {
	for _, n := range s.NLBs {
		for i := range n.Listeners {
			if n.Listeners[i].ID == id {
				return n, &n.Listeners[i]
			}
		}
	}
	return nil, nil
}

func (q *request) nlbListener() (*NLB, *NLBListener, *core.Failure) {
	n, l := q.state.nlbListener(q.Params["ListenerId"])
	if l == nil {
		return nil, nil, notFound("listener")
	}
	return n, l, nil
}

func (q *request) calm() (*NLB, *NLBListener, *core.Failure) {
	n, l, bad := q.nlbListener()
	if bad == nil && l.Status != "Running" && l.Status != "Stopped" {
		return nil, nil, core.Fail(http.StatusBadRequest, "IncorrectStatus.listener", "The status of listener [%s] is incorrect.", l.ID)
	}
	return n, l, bad
}

func (q *request) transit(l *NLBListener, meanwhile, then string) string {
	id, was := l.ID, l.Status
	l.Status = meanwhile
	ends := func(status string) func(*State) {
		return func(s *State) {
			if _, l := s.nlbListener(id); l != nil {
				l.Status = status
			}
		}
	}
	if was == "Provisioning" { // it has no previous status
		return q.job(ends(then), func(s *State) { s.dropListener(id) })
	}
	return q.job(ends(then), ends(was))
}

func (s *State) dropListener(id string) {
	if n, _ := s.nlbListener(id); n != nil {
		n.Listeners = slices.DeleteFunc(n.Listeners, func(l NLBListener) bool { return l.ID == id })
	}
}

var listenerFields = []string{
	"ListenerProtocol", "ListenerPort", "LoadBalancerId", "ListenerId", "ServerGroupId", "ListenerDescription", "ClientToken", "DryRun",
	"RegionId",
}

func (q *request) setNLBListener(n *NLB, l *NLBListener) *core.Failure {
	p := q.Params
	group := cmp.Or(p["ServerGroupId"], l.ServerGroup)
	g := q.state.ServerGroups[group]
	switch {
	case g == nil:
		return notFound("serverGroup")
	case g.VPC != n.VPC:
		return mismatch("VpcId", n.ID, g.ID)
	case g.Protocol != l.Protocol && g.Protocol != "TCP_UDP" && (l.Protocol != "TCPSSL" || g.Protocol != "TCP"):
		return mismatch("Protocol", l.Protocol, g.ID)
	}
	certificates := p.List("CertificateIds")
	if l.Protocol == "TCPSSL" && len(certificates)+len(l.Certificates) == 0 {
		return core.Fail(http.StatusBadRequest, "MissingParam.Certificate", "The param of certificate is missing.")
	}
	if len(certificates) > 1 {
		return core.Fail(http.StatusBadRequest, "IllegalParamSize.certificateIds", "The param size of certificateIds or caCertificateIds is illegal.")
	}
	for name, of := range map[string][2]int{"IdleTimeout": {1, 900}, "Cps": {0, 1_000_000}, "Mss": {0, 1500}} {
		if _, bad := p.Number(name, of[0], of[1], of[1]); bad != nil {
			return bad
		}
	}
	if bad := p.Switches("CaEnabled", "AlpnEnabled", "ProxyProtocolEnabled", "SecSensorEnabled"); bad != nil {
		return bad
	}
	if p["AlpnEnabled"] == "true" && !core.OneOf("HTTP1Only,HTTP2Only,HTTP2Optional,HTTP2Preferred", p["AlpnPolicy"]) {
		return illegalParam("AlpnPolicy")
	}
	marks, bad := p.Object(proxyMarks)
	if bad != nil {
		return bad
	}
	if bad := q.certified(certificates); bad != nil {
		return bad
	}
	l.ServerGroup = group
	if v, ok := p["ListenerDescription"]; ok {
		l.Description = v
	}
	if certificates != nil {
		l.Certificates = certificates
	}
	if cas := p.List("CaCertificateIds"); cas != nil {
		l.CAs = cas
	}
	for k, v := range p {
		if !slices.Contains(listenerFields, k) && !strings.Contains(k, ".") {
			l.Config[k] = v
		}
	}
	for k, v := range marks {
		l.Config[proxyMarks+"."+k] = v
	}
	return nil
}

// proxyMarks is the parameter that selects the proxy protocol's information, besides the client's address.
const proxyMarks = "ProxyProtocolV2Config"

func (l *NLBListener) span() (first, last int) {
	if l.Port != 0 {
		return l.Port, l.Port
	}
	first, _ = strconv.Atoi(l.Config["StartPort"])
	last, _ = strconv.Atoi(l.Config["EndPort"])
	return first, last
}

func (q *request) ports(l *NLBListener) *core.Failure {
	var bad *core.Failure
	if l.Port, bad = q.Params.Number("ListenerPort", 0, 65535, -1); bad != nil {
		return illegalParam("Port")
	}
	if l.Port != 0 {
		return nil
	}
	var first, last int
	if first, bad = q.Params.Number("StartPort", 1, 65535, 0); bad == nil {
		last, bad = q.Params.Number("EndPort", 1, 65535, 0)
	}
	if bad != nil || first == 0 || last < first {
		return illegalParam("Port")
	}
	l.Config["StartPort"], l.Config["EndPort"] = strconv.Itoa(first), strconv.Itoa(last)
	return nil
}

func (q *request) certified(ids []string) *core.Failure {
	for _, id := range ids {
		if len(q.state.slb.Certificates) > 0 && q.state.slb.Certificates[id] == nil {
			return core.Fail(http.StatusBadRequest, "ResourceNotFound.Certificate", "The specified resource %s is not found.", id)
		}
	}
	return nil
}

func (s *State) listenerStem(stem string) bool {
	for _, n := range s.NLBs {
		if slices.ContainsFunc(n.Listeners, func(l NLBListener) bool { return strings.HasPrefix(l.ID, stem+"@") }) {
			return true
		}
	}
	return false
}

func createNLBListener(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	n, bad := q.nlb()
	if bad != nil {
		return nil, bad
	}
	if n.Status != "Active" {
		return nil, core.Fail(http.StatusBadRequest, "IncorrectStatus.loadbalancer", "The status of loadbalancer [%s] is incorrect.", n.ID)
	}
	l := NLBListener{Protocol: p["ListenerProtocol"], Status: "Provisioning"}
	l.fill()
	if bad := q.ports(&l); bad != nil {
		return nil, bad
	}
	if !core.OneOf("TCP,UDP,TCPSSL", l.Protocol) {
		return nil, illegalParam("ListenerProtocol")
	}
	first, last := l.span()
	for _, o := range n.Listeners { // only UDP can share a port with the others
		from, to := o.span()
		if from <= last && first <= to && (o.Protocol == l.Protocol || o.Protocol != "UDP" && l.Protocol != "UDP") {
			return nil, core.Fail(http.StatusBadRequest, "Conflict.Port", "The Port [%d] is conflict.", max(first, from))
		}
	}
	if bad := q.exceeded(quotaNLBListeners, 50, len(n.Listeners), 1); bad != nil {
		return nil, bad
	}
	if l.Tags, bad = p.Tags(); bad != nil {
		return nil, bad
	}
	if bad := q.setNLBListener(n, &l); bad != nil {
		return nil, bad
	}
	l.ID = s.ID("lsn-", s.listenerStem) + "@" + strconv.Itoa(l.Port)
	n.Listeners = append(n.Listeners, l)
	job := q.transit(&n.Listeners[len(n.Listeners)-1], "Provisioning", "Running")
	return core.Reply{"ListenerId": l.ID, "JobId": job}, nil
}

func updateNLBListener(q *request) (any, *core.Failure) {
	n, l, bad := q.calm()
	if bad != nil {
		return nil, bad
	}
	if bad := q.setNLBListener(n, l); bad != nil {
		return nil, bad
	}
	return core.Reply{"JobId": q.transit(l, "Configuring", l.Status)}, nil
}

func switchNLBListener(meanwhile, then string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		_, l, bad := q.calm()
		if bad != nil {
			return nil, bad
		}
		if l.Status == then {
			return nil, core.Fail(http.StatusBadRequest, "IncorrectStatus.listener", "The status of listener [%s] is incorrect.", l.ID)
		}
		return core.Reply{"JobId": q.transit(l, meanwhile, then)}, nil
	}
}

func deleteNLBListener(q *request) (any, *core.Failure) {
	_, l, bad := q.calm()
	if bad != nil {
		return nil, bad
	}
	id, was := l.ID, l.Status
	l.Status = "Deleting"
	return core.Reply{"JobId": q.job(func(s *State) { s.dropListener(id) }, func(s *State) {
		if _, l := s.nlbListener(id); l != nil {
			l.Status = was
		}
	})}, nil
}

func (l *NLBListener) show(n *NLB, s *State) core.Reply {
	out := core.Reply{
		"IdleTimeout": 900, "Cps": 0, "Mss": 0, "SecurityPolicyId": "", "CaEnabled": false, "AlpnEnabled": false, "AlpnPolicy": "",
		"ProxyProtocolEnabled": false, "SecSensorEnabled": false,
	}
	flat := maps.Clone(l.Config)
	maps.DeleteFunc(flat, func(k, _ string) bool { return strings.Contains(k, ".") })
	maps.Copy(out, typedConfig(flat))
	if marks := core.Params(l.Config).Under(proxyMarks); len(marks) > 0 {
		out[proxyMarks] = typedConfig(marks)
	}
	maps.Copy(out, core.Reply{
		"LoadBalancerId": n.ID, "ListenerId": l.ID, "ListenerPort": l.Port, "ListenerProtocol": l.Protocol, "ListenerStatus": l.Status,
		"ListenerDescription": l.Description, "ServerGroupId": l.ServerGroup, "RegionId": s.Region, "Tags": tagPairs(s.SeenTags(l.ID, l.Tags)),
		"CertificateIds": slices.Concat([]string{}, l.Certificates), "CaCertificateIds": slices.Concat([]string{}, l.CAs),
	})
	return out
}

func getNLBListener(q *request) (any, *core.Failure) {
	n, l, bad := q.nlbListener()
	if bad != nil {
		return nil, bad
	}
	out := l.show(n, q.state)
	out["Tags"] = core.ShowTags(q.state.SeenTags(l.ID, l.Tags))
	return out, nil
}

func listNLBListeners(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	tags, bad := p.Tags()
	if bad != nil {
		return nil, bad
	}
	of, ids := p.List("LoadBalancerIds"), p.List("ListenerIds")
	shown := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(s.NLBs)) {
		n := s.NLBs[id]
		for i := range n.Listeners {
			l := &n.Listeners[i]
			if inList(of, id) && inList(ids, l.ID) && core.Is(p["ListenerProtocol"], l.Protocol) && core.Carries(s.SeenTags(l.ID, l.Tags), tags) {
				shown = append(shown, l.show(n, s))
			}
		}
	}
	return q.tokenPage(shown, "Listeners")
}

func listNLBCertificates(q *request) (any, *core.Failure) {
	_, l, bad := q.nlbListener()
	if bad != nil {
		return nil, bad
	}
	kind := cmp.Or(q.Params["CertType"], "Server")
	ids, shown := []string{}, []core.Reply{}
	add := func(list []string, first bool) {
		for _, id := range list {
			ids = append(ids, id)
			shown = append(shown, core.Reply{"CertificateId": id, "CertificateType": kind, "IsDefault": first, "Status": "Associated"})
		}
	}
	switch kind {
	case "Ca":
		add(l.CAs, true)
	case "Server":
		add(l.Certificates, true)
		add(l.Further, false)
	default:
		return nil, illegalParam("CertType")
	}
	part, next, bad := core.Chunk(q.Params, shown, 20, 100)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"TotalCount": len(shown), "MaxResults": len(part), "NextToken": next, "Certificates": part, "CertificateIds": ids}, nil
}

func associateCertificates(q *request) (any, *core.Failure) {
	n, l, bad := q.calm()
	if bad != nil {
		return nil, bad
	}
	ids := q.Params.List("AdditionalCertificateIds")
	if bad := q.certified(ids); bad != nil {
		return nil, bad
	}
	for _, id := range ids {
		if slices.Contains(l.Further, id) {
			return nil, core.Fail(http.StatusBadRequest, "ResourceAlreadyAssociated.Certificate", "The specified resource of %s is already associated.", id)
		}
	}
	further := 0
	for _, o := range n.Listeners {
		further += len(o.Further)
	}
	if bad := q.exceeded(quotaNLBCertificates, 25, further, len(ids)); bad != nil {
		return nil, bad
	}
	l.Further = append(l.Further, ids...)
	return core.Reply{"JobId": q.transit(l, "Configuring", l.Status)}, nil
}

func disassociateCertificates(q *request) (any, *core.Failure) {
	_, l, bad := q.calm()
	if bad != nil {
		return nil, bad
	}
	ids := q.Params.List("AdditionalCertificateIds")
	l.Further = slices.DeleteFunc(l.Further, func(id string) bool { return slices.Contains(ids, id) })
	return core.Reply{"JobId": q.transit(l, "Configuring", l.Status)}, nil
}
