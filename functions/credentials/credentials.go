// Package credentials asks to repair a controller whose credentials Alibaba Cloud rejects.
package credentials

import (
	"context"
	_ "embed"

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
		"Aliyun Metadata API Error", "Aliyun MetadataAPI Error",
		"access key id is empty", "access key secret is empty", "security token is empty", "Please set up the credentials correctly",
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
	return remedy.Plan{
		Finding: why.Finding.Then(ctl.Describe()),
		Cause:   why.Name,
		Ask:     ask(why, ctl).Then(remedy.Together(peers)),
	}, nil
}
