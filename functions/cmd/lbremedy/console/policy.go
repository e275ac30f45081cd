package console

import (
	"errors"
	"net/http"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
)

type policyBody struct {
	Clusters []string
	Cluster  string
	Says     string
	Origin   string
	Rules    []ruleRow
	File     string // its text
}

type ruleRow struct{ About, Says string }

func (s *server) policy(r *http.Request) (page, error) {
	var b policyBody
	for _, c := range s.index.clusters() {
		b.Clusters = append(b.Clusters, c.Cluster)
	}
	tell := s.p.Reads(r.Header).Tell
	now, ok := s.index.cluster(r.URL.Query().Get("cluster"))
	if !ok {
		return page{Title: word("Policy"), name: "policy", Body: b}, nil
	}
	b.Cluster, b.Says = now.Cluster, tell(permission.Describe(now.InForce.Policy))
	if why, unknown := now.Unknown["mode"]; unknown {
		return page{}, errors.New("the policy in force is unknown: " + why)
	}
	if now.Reported.Version != "" {
		b.Origin = tell(permission.Origin(now.Reported))
	}
	for _, rule := range now.InForce.Policy.Rules {
		b.Rules = append(b.Rules, ruleRow{rule.String(), tell(permission.RuleText(rule))})
	}
	b.File = now.InForce.Text
	return page{Title: word("Policy"), name: "policy", Body: b}, nil
}
