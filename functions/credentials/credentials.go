// Package credentials asks to fix a controller that can't reach Alibaba Cloud or whose credentials are refused.
package credentials

import (
	"context"
	_ "embed"
	"fmt"

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
	home, err := find(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	t := troubleOf(c.Event.Message)
	return remedy.Plan{
		Finding: t.finding.Then(home.text()),
		Cause:   t.cause,
		Ask:     t.ask(home).Then(remedy.Together(peers)),
	}, nil
}

// A home tells where the controller runs and how it signs requests.
type home struct {
	found     bool // the cluster has its DaemonSet
	accessKey bool // its environment has an access key
}

// daemonSet is the controller's name in a dedicated cluster.
const daemonSet = "cloud-controller-manager"

func find(ctx context.Context, c *remedy.Case) (home, error) {
	sets, err := c.Kube.DaemonSets(ctx, "kube-system")
	if err != nil {
		return home{}, fmt.Errorf("list DaemonSets of kube-system: %w", err)
	}
	var h home
	for _, ds := range sets {
		if ds.Name != daemonSet {
			continue
		}
		h.found = true
		for _, container := range ds.Spec.Template.Spec.Containers {
			for _, env := range container.Env {
				h.accessKey = h.accessKey || env.Name == "ACCESS_KEY_ID"
			}
		}
	}
	return h, nil
}

// text says where the controller runs.
func (h home) text() say.Text {
	switch {
	case h.accessKey:
		return say.F("The controller runs as the DaemonSet %s and signs with an access key from its environment.", daemonSet)
	case h.found:
		return say.F("The controller runs as the DaemonSet %s.", daemonSet).
			And("Its environment has no access key, so it signs with one from its configuration or with the RAM role of its node.")
	}
	return say.F("The cluster has no DaemonSet %s: Alibaba Cloud runs the controller in the control plane, or it has another name here.", daemonSet)
}
