package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A policyBody is what the page Policy shows.
type policyBody struct {
	Clusters []string
	Cluster  string
	Says     string
	Origin   string
	Rules    []ruleRow
	File     string // its text

	Service string
	Wrong   say.Text // with the Service that was asked for
	Note    say.Text
	Allowed []allowed
}

type ruleRow struct{ About, Says string }

// An allowed is what the policy allows a class at a Service, and why.
type allowed struct {
	Class, Title string
	Mode, Risk   string
	Why          say.Text
}

func (s *server) policy(r *http.Request) (page, error) {
	q := r.URL.Query()
	b := policyBody{Service: strings.TrimSpace(q.Get("service"))}
	for _, c := range s.book.clusters() {
		b.Clusters = append(b.Clusters, c.Cluster)
	}
	tell := s.p.Reads(r.Header).Tell
	now, ok := s.book.cluster(q.Get("cluster"))
	if !ok {
		return page{Title: word("Policy"), name: "policy", Body: b}, nil
	}
	b.Cluster, b.Says = now.Cluster, tell(permission.Describe(now.Version.Policy))
	if why, unknown := now.Unknown["mode"]; unknown {
		return page{}, errors.New("the policy in force is unknown: " + why)
	}
	if now.Told.Version != "" {
		b.Origin = tell(permission.Origin(now.Told))
	}
	for _, rule := range now.Version.Policy.Rules {
		b.Rules = append(b.Rules, ruleRow{rule.String(), tell(permission.Told(rule))})
	}
	b.File = now.Version.Text
	if b.Service != "" {
		s.inForce(r.Context(), &b, now.Version.Policy)
	}
	return page{Title: word("Policy"), name: "policy", Body: b}, nil
}

// inForce fills in what the policy allows at the Service that was asked for.
func (s *server) inForce(ctx context.Context, b *policyBody, in remedy.Policy) {
	namespace, name, ok := strings.Cut(b.Service, "/")
	if !ok || !kube.ValidName(namespace) || !kube.ValidName(name) {
		b.Wrong = say.F("Name a Service as NAMESPACE/NAME.")
		return
	}
	at := remedy.Place{Cluster: b.Cluster, Namespace: namespace, Around: map[string]string{}}
	if err := s.labels(ctx, &at, name); errors.Is(err, kube.ErrNotFound) {
		b.Wrong = say.F("There is no Service %s in the cluster.", b.Service)
		return
	} else if err != nil {
		b.Note = say.F("As if the Service and its namespace had no labels: %s", said(err))
	}
	for _, r := range functions.All {
		p := in.At(r.Class, at)
		one := allowed{Class: r.Class, Title: r.Title(), Mode: string(p.Mode), Why: p.Why}
		switch {
		case p.Muted:
			one.Mode = word("muted")
		case len(r.PlanRisks()) == 0:
			one.Mode = word("asks")
			one.Why = say.F("The class has no plans: it asks a person.")
		case p.Mode == remedy.Fix && r.OptIn && !p.Named:
			one.Mode, one.Why = "asks", say.F("The class is applied only if the policy names it.")
		case p.Mode == remedy.Fix:
			one.Risk = p.Risk.String()
		}
		if len(one.Why) == 0 {
			one.Why = say.F("The policy says so for all.")
			if _, named := in.Classes[r.Class]; named {
				one.Why = say.F("The policy names the class.")
			}
		}
		b.Allowed = append(b.Allowed, one)
	}
	slices.SortFunc(b.Allowed, func(x, y allowed) int { return strings.Compare(x.Class, y.Class) })
}

// labels fills in the labels of a Service and of its namespace.
func (s *server) labels(ctx context.Context, at *remedy.Place, name string) error {
	c := s.p.Host()
	c.Credentials = s.p.Keys // nobody asks for one here
	if c.Cluster == "" {
		c.Cluster = at.Cluster
	}
	env, err := host.Look(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	svc, err := env.Kube.Service(ctx, at.Namespace, name)
	if err != nil {
		return err
	}
	around, err := env.Kube.Namespace(ctx, at.Namespace)
	if err != nil {
		return err
	}
	at.Labels, at.Around = svc.Labels, around.Labels
	return nil
}
