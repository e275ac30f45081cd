// Package apiunreachable waits while the controller cannot reach the API of Alibaba Cloud, and asks if that lasts or cannot pass.
package apiunreachable

import (
	"context"
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy waits, or asks a person to repair the controller's network. The first texts count only after a call's address: see [event.Row].
var Remedy = &remedy.Remedy{
	Class: "api-unreachable",
	Doc:   doc,
	Texts: []string{
		`": dial tcp`, `": proxyconnect tcp`, `": Proxy Authentication Required`, `": Forbidden`,
		`": Bad Gateway`, `": Service Unavailable`, `": Gateway Timeout`, `": Gateway Time-out`,
		`": net/http: TLS handshake timeout`, `": net/http: timeout awaiting response headers`,
		`": net/http: request canceled (Client.Timeout`, `": net/http: request canceled while waiting for connection`,
		`": context deadline exceeded`, `": read tcp`, `": write tcp`, `": EOF`, `": unexpected EOF`,
		`": http: server closed idle connection`, `": net/http: HTTP/1.x transport connection broken`,
		`": http2: server sent GOAWAY`, `": http2: client connection lost`, `": http2: timeout awaiting response headers`,
		`": tls`, `": x509`, `": remote error: tls`, `": http: server gave HTTP response to HTTPS client`,
		// While the answer is read, errors do not name the address (vendor/…/tea/dara/stream.go, v2.14.0).
		"find nlb by tag error: read tcp", "find nlb by tag error: unexpected EOF", "find nlb by tag error: context deadline exceeded",
		"find nlb by tag error: invalid character '<' looking for", "find nlb by tag error: unexpected end of JSON input",
		"Message: <html", "Message: <!doctype html", "SDK.JsonUnmarshalError", "SDK.TimeoutError", "SDK.CanNotResolveEndpoint",
	},
	Reads:    append([]grant.Grant{grant.ListDaemonSets}, remedy.PeerReads...),
	Scope:    remedy.Cluster,
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	why := remedy.CauseOf(causes, c.Event.Message)
	finding := why.Finding
	if host := ccm.EndpointOf(c.Event.Message); host != "" && why.Name != metadata {
		finding = finding.And("The endpoint is %s.", host)
	}
	passes := why.Name == unsteady || why.Name == page || why.Name == metadata
	if passes && !c.Lasts() {
		return remedy.Plan{Finding: finding.And("This mostly passes by itself, and the controller retries."), Cause: why.Name, Wait: c.PollInterval()}, nil
	}
	if passes {
		finding = finding.And("This has lasted more than 15 minutes.")
	}
	ctl, err := c.Deployed(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: finding.Then(ctl.Network()),
		Cause:   why.Name,
		Ask:     ask(why, ctl, c.LogQuery()).Then(remedy.Together(peers)),
	}, nil
}

// ask returns the repair for how the controller runs; log is the command that prints its attempts.
func ask(why remedy.Cause, ctl ccm.Controller, log string) say.Text {
	if ctl.DaemonSet {
		return say.F("The controller's log has all its attempts: %s.", log).Then(why.Ask).Then(ccm.ThenRetries())
	}
	return say.F("On a managed cluster, ACK runs the controller and its network: open a ticket with Alibaba Cloud.").
		And("On any other cluster, look at the attempts in the controller's log: %s.", log).And("Then: %s", why.Ask)
}
