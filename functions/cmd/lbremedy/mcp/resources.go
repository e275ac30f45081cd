package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/control"
)

func provide[T any](to *sdk.Server, s *server, name string, read func(context.Context, *cli.Program) (T, error), about string) {
	uri := "lbremedy://" + name
	of := &sdk.Resource{URI: uri, Name: name, Description: about, MIMEType: "application/json"}
	to.AddResource(of, func(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		data, err := read(ctx, s.program())
		text := written(data)
		if err != nil {
			text = written(failure{said(err).Error()})
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: "application/json", Text: text}}}, nil
	})
}

func (s *server) addResources(to *sdk.Server) {
	provide(to, s, "classes", catalogue, "The classes of failures and the checks of the doctor, each with its title and the risk of its plans.")
	provide(to, s, "policy", inForce, "The policy in force in the cluster: what lbremedy may apply by itself, where it is kept, and what is paused.")
}

type catalogued struct {
	Classes []page `json:"classes"`
	Checks  []page `json:"checks"`
}

func catalogue(_ context.Context, p *cli.Program) (all catalogued, _ error) {
	for _, r := range p.All() {
		all.Classes = append(all.Classes, page{Class: r.Class, Title: r.Title(), Risk: r.RiskRange(), OptIn: r.OptIn})
	}
	for _, c := range checks.Checks() {
		all.Checks = append(all.Checks, page{Class: c.ID, Title: c.Title()})
	}
	return all, nil
}

type allowed struct {
	Cluster string   `json:"cluster"`
	Says    string   `json:"says"`
	Origin  string   `json:"origin,omitempty"`
	Pauses  []string `json:"pauses,omitempty"`
	Text    string   `json:"text"`
}

func inForce(ctx context.Context, p *cli.Program) (allowed, error) {
	s, err := p.Stream(ctx)
	if err != nil {
		return allowed{}, err
	}
	defer s.Close()
	cluster, err := p.OneCluster(ctx, s)
	if err != nil {
		return allowed{}, err
	}
	now, told, err := p.InForce(ctx, s, cluster)
	if err != nil {
		return allowed{}, err
	}
	paused, err := control.PausesIn(ctx, s, cluster)
	if err != nil {
		return allowed{}, err
	}
	out := allowed{Cluster: cluster, Says: permission.Describe(now.Policy).String(), Text: now.Text}
	if told.Version != "" {
		out.Origin = permission.Origin(told).String()
	}
	for _, one := range paused {
		out.Pauses = append(out.Pauses, cli.PauseLine(one).String())
	}
	return out, nil
}
