// Package credentials asks to fix a controller that can't reach Alibaba Cloud or whose credentials are refused.
package credentials

import (
	"context"
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks a person: the controller's own setup is wrong, not the Service.
var Remedy = &remedy.Remedy{
	Class: "credentials",
	Doc:   doc,
	Codes: []string{
		"InvalidAccessKeyId.*", "InvalidSecurityToken.*", "SignatureDoesNotMatch", "MissingSecurityToken", "InvalidTimeStamp.Expired",
		"Forbidden.AccessKeyDisabled",
	},
	Texts: []string{
		"dial tcp", "SDK.CanNotResolveEndpoint",
		"Specified access key is not found", "Specified access key is disabled",
		"Specified SecurityToken is expired", "Specified SecurityToken is malformed", "Specified SecurityToken mismatch with the AccessKey",
		"SecurityToken is mandatory for this action",
		"Specified signature is not matched with our calculation", "Specified time stamp or date value is expired",
	},
	Reads:    append([]grant.Grant{grant.ListDaemonSets}, remedy.PeerReads...),
	Scope:    remedy.Cluster,
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	ctl, err := c.Deployed(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	why := remedy.CauseOf(causes, c.Event.Message)
	finding := why.Finding
	if host := ccm.EndpointOf(c.Event.Message); host != "" && why.Name == unreachable {
		finding = finding.And("The endpoint is %s.", host)
	}
	return remedy.Plan{
		Finding: finding.Then(ctl.Describe()),
		Cause:   why.Name,
		Ask:     ask(why, ctl).Then(remedy.Together(peers)),
	}, nil
}
