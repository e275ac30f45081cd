// Package credentials asks to fix a controller that can't reach Alibaba Cloud or whose credentials are refused.
package credentials

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
	t := troubleOf(c.Event.Message)
	return remedy.Plan{
		Finding: t.finding.Then(place(ctl)),
		Cause:   t.cause,
		Ask:     t.ask(ctl).Then(remedy.Together(peers)),
	}, nil
}

// place says where the controller runs and how it signs requests.
func place(ctl ccm.Controller) say.Text {
	switch {
	case ctl.AccessKey:
		return say.F("The controller runs as the DaemonSet %s and signs with an access key from its environment.", ccm.DaemonSet)
	case ctl.DaemonSet:
		return say.F("The controller runs as the DaemonSet %s.", ccm.DaemonSet).
			And("Its environment has no access key, so it signs with one from its configuration or with the RAM role of its node.")
	}
	return say.F("The cluster has no DaemonSet %s: Alibaba Cloud runs the controller in the control plane, or it has another name here.", ccm.DaemonSet)
}
