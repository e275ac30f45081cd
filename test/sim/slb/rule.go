package slb

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

func ruleActions() map[string]*core.Action {
	one := []string{"LoadBalancerId", "ListenerPort"}
	return map[string]*core.Action{
		"CreateRules":           {Do: on(createRules), Need: append(one, "RuleList")},
		"DescribeRules":         {Do: on(describeRules), Need: one},
		"DescribeRuleAttribute": {Do: on(describeRule), Need: []string{"RuleId"}},
		"SetRule":               {Do: on(setRule), Need: []string{"RuleId"}},
		"DeleteRules":           {Do: on(deleteRules), Need: []string{"RuleIds"}},
	}
}

func noSuchRule() *core.Failure {
	return core.Fail(http.StatusNotFound, "InvalidRuleId.NotFound", "Rule does not exist.")
}

// forwards returns the request's listener if it can have rules: only HTTP and HTTPS ones can.
func (q *request) forwards() (*LoadBalancer, *Listener, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, nil, bad
	}
	i, bad := q.listener(lb, q.Params["ListenerProtocol"])
	if bad != nil {
		return nil, nil, bad
	}
	l := &lb.Listeners[i]
	if l.Protocol != "http" && l.Protocol != "https" {
		return nil, nil, core.Fail(http.StatusBadRequest, "RuleNotSupport", "Rule is not support in the %s type listener.", l.Protocol)
	}
	return lb, l, nil
}

// createRules creates rules that send some of a listener's requests to another group: all or none.
func createRules(q *request) (any, *core.Failure) {
	lb, l, bad := q.forwards()
	if bad != nil {
		return nil, bad
	}
	var list []struct{ RuleName, Domain, URL, VServerGroupID string }
	if err := json.Unmarshal([]byte(q.Params["RuleList"]), &list); err != nil || len(list) == 0 || len(list) > 10 {
		return nil, core.Fail(http.StatusBadRequest, "RuleListMalformed", "the specified parameter RuleList is unavailable.")
	}
	rules, made := slices.Clone(l.Rules), []core.Reply{}
	for _, e := range list {
		r := Rule{Name: e.RuleName, Domain: e.Domain, URL: e.URL, VGroup: e.VServerGroupID}
		switch {
		case r.Name == "" || r.Domain == "" && r.URL == "":
			return nil, core.Fail(http.StatusBadRequest, "RuleListMalformed", "the specified parameter RuleList is unavailable.")
		case r.URL != "" && !strings.HasPrefix(r.URL, "/"):
			return nil, core.Fail(http.StatusBadRequest, "UrlMalformed", "the specified url in RuleList parameter is unavailable.")
		case lb.vgroup(r.VGroup) == nil:
			return nil, noVGroup()
		case slices.ContainsFunc(rules, func(o Rule) bool { return o.Domain == r.Domain && o.URL == r.URL }):
			return nil, core.Fail(http.StatusBadRequest, "DomainExist", "rule with same domain and url already exists in specified vip")
		case len(rules) >= q.state.quotas.Limit(quotaRules, 40):
			return nil, core.Fail(http.StatusBadRequest, "TooManyRules", "the number of rules under specified vip is beyond maximum limit.")
		}
		r.ID = q.state.ID("rule-", func(id string) bool { _, _, i := q.state.rule(id); return i >= 0 })
		rules, made = append(rules, r), append(made, core.Reply{"RuleId": r.ID, "RuleName": r.Name})
	}
	l.Rules = rules
	return core.Reply{"Rules": core.Reply{"Rule": made}}, nil
}

func (s *State) rule(id string) (*LoadBalancer, *Listener, int) {
	for _, lb := range s.LoadBalancers {
		for i := range lb.Listeners {
			l := &lb.Listeners[i]
			if n := slices.IndexFunc(l.Rules, func(r Rule) bool { return r.ID == id }); n >= 0 {
				return lb, l, n
			}
		}
	}
	return nil, nil, -1
}

func (r *Rule) show() core.Reply {
	return core.Reply{
		"RuleId": r.ID, "RuleName": r.Name, "Domain": r.Domain, "Url": r.URL, "VServerGroupId": r.VGroup, "ListenerSync": "on",
		"ServiceManagedMode": "Unmanaged",
	}
}

func describeRules(q *request) (any, *core.Failure) {
	lb, bad := q.loadBalancer()
	if bad != nil {
		return nil, bad
	}
	i, bad := q.listener(lb, q.Params["ListenerProtocol"])
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, r := range lb.Listeners[i].Rules {
		list = append(list, r.show())
	}
	return core.Reply{"Rules": core.Reply{"Rule": list}}, nil
}

func describeRule(q *request) (any, *core.Failure) {
	lb, l, i := q.state.rule(q.Params["RuleId"])
	if i < 0 {
		return nil, noSuchRule()
	}
	out := l.Rules[i].show()
	out["LoadBalancerId"], out["ListenerPort"] = lb.ID, l.Port
	return out, nil
}

func setRule(q *request) (any, *core.Failure) {
	lb, l, i := q.state.rule(q.Params["RuleId"])
	if i < 0 {
		return nil, noSuchRule()
	}
	r := &l.Rules[i]
	if g := q.Params["VServerGroupId"]; g != "" {
		if lb.vgroup(g) == nil {
			return nil, noVGroup()
		}
		r.VGroup = g
	}
	if n := q.Params["RuleName"]; n != "" {
		r.Name = n
	}
	return core.Reply{}, nil
}

func deleteRules(q *request) (any, *core.Failure) {
	ids, bad := q.Params.IDs("RuleIds")
	if bad != nil {
		return nil, bad
	}
	for _, id := range ids {
		if _, _, i := q.state.rule(id); i < 0 {
			return nil, noSuchRule()
		}
	}
	for _, id := range ids {
		_, l, i := q.state.rule(id)
		l.Rules = slices.Delete(l.Rules, i, i+1)
	}
	return core.Reply{}, nil
}
