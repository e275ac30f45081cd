package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Custom is the type of RAM policy that can be written; system policies can't.
const Custom = "Custom"

// Limits of RAM.
const (
	MaxDocument = 6144 // bytes of the document of a custom policy
	maxVersions = 5    // of a policy
)

// PolicyVersion adds a version to a RAM policy and makes it the default. Where
// the policy has five versions already, the one named Drop goes first.
type PolicyVersion struct {
	Policy   string   `json:"policy"`
	Document string   `json:"document"`
	Adds     []string `json:"adds"`           // the actions that the document has and the old one lacks, for people
	Was      string   `json:"was"`            // default version before
	Versions []string `json:"versions"`       // all versions before, so that a new one is known as ours
	Drop     string   `json:"drop,omitempty"` // version that makes room; never Was
}

// NewVersion returns the step that gives a policy, which has these versions, the document; adds are
// the actions that are new in it. An error if none of the versions is the default.
func NewVersion(policy, document string, adds []string, versions []cloud.PolicyVersion) (PolicyVersion, error) {
	p := PolicyVersion{Policy: policy, Document: document, Adds: adds}
	var oldest cloud.PolicyVersion // but not the default, which undo needs
	for _, v := range versions {
		p.Versions = append(p.Versions, v.ID)
		switch {
		case v.Default:
			p.Was = v.ID
		case oldest.ID == "" || v.Created.Before(oldest.Created):
			oldest = v
		}
	}
	if len(versions) >= maxVersions {
		p.Drop = oldest.ID
	}
	if p.Was == "" {
		return PolicyVersion{}, fmt.Errorf("the policy %s has no default version", policy)
	}
	return p, nil
}

// Says is what the step does.
func (p PolicyVersion) Says() say.Text {
	adds := strings.Join(p.Adds, ", ")
	if p.Drop != "" {
		return say.F("add %s to the RAM policy %s with a new default version, in place of its old version %s", adds, p.Policy, p.Drop)
	}
	return say.F("add %s to the RAM policy %s with a new default version", adds, p.Policy)
}

// Kind is "policy-version".
func (PolicyVersion) Kind() string { return "policy-version" }

// Target is the policy.
func (p PolicyVersion) Target() string { return "ram/" + p.Policy }

// Risk is medium: it widens what a role may do; the version before stays.
func (PolicyVersion) Risk() remedy.Risk { return remedy.Medium }

// Grants are reading policy versions and making room for, and making, a new one.
func (PolicyVersion) Grants() []grant.Grant {
	return []grant.Grant{grant.ListPolicyVersions, grant.CreatePolicyVersion, grant.DeletePolicyVersion}
}

// Check reads the policy's versions. Done is a default version with our document.
func (p PolicyVersion) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	versions, err := c.Cloud.RAM.PolicyVersions(ctx, p.Policy, Custom)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list versions of policy %s: %w", p.Policy, err)
	}
	var ids []string
	current := ""
	for _, v := range versions {
		ids = append(ids, v.ID)
		if !v.Default {
			continue
		}
		if v.Document == p.Document {
			return remedy.Done, nil
		}
		current = v.ID
	}
	want := slices.Clone(p.Versions)
	slices.Sort(ids)
	slices.Sort(want)
	dropped := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return id == p.Drop })
	if current == p.Was && (slices.Equal(ids, want) || slices.Equal(ids, dropped)) {
		return remedy.Todo, nil
	}
	return remedy.Conflict, nil
}

// Apply makes room if it must and creates the version. RAM has no condition for
// it: the versions are read again right before, under the policy's lock.
func (p PolicyVersion) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, p, func() error {
		if p.Drop != "" {
			versions, err := c.Cloud.RAM.PolicyVersions(ctx, p.Policy, Custom)
			if err != nil {
				return fmt.Errorf("list versions of policy %s: %w", p.Policy, err)
			}
			if len(versions) == len(p.Versions) {
				// Who may not make a version must not delete one: that there is no room is told
				// only to those who may.
				err := w.Cloud.RAM.CreatePolicyVersion(ctx, p.Policy, p.Document)
				if !errors.Is(err, cloud.ErrConflict) {
					return err
				}
				if err := w.Cloud.RAM.DeletePolicyVersion(ctx, p.Policy, p.Drop); err != nil {
					return fmt.Errorf("delete version %s: %w", p.Drop, err)
				}
			}
		}
		return w.Cloud.RAM.CreatePolicyVersion(ctx, p.Policy, p.Document)
	})
}

// Undo makes the version before the default again.
func (p PolicyVersion) Undo() (remedy.Step, bool) {
	return DefaultVersion{Policy: p.Policy, Version: p.Was, From: p.Document}, true
}

// DefaultVersion makes an older version of a RAM policy the default, in place of
// the one with the document From.
type DefaultVersion struct {
	Policy  string `json:"policy"`
	Version string `json:"version"`
	From    string `json:"from"`
}

// Says is what the step does.
func (d DefaultVersion) Says() say.Text {
	return say.F("make version %s of the RAM policy %s the default again", d.Version, d.Policy)
}

// Kind is "default-version".
func (DefaultVersion) Kind() string { return "default-version" }

// Target is the policy.
func (d DefaultVersion) Target() string { return "ram/" + d.Policy }

// Risk is medium: it narrows what a role may do.
func (DefaultVersion) Risk() remedy.Risk { return remedy.Medium }

// Grants are reading policy versions and choosing the default one.
func (DefaultVersion) Grants() []grant.Grant {
	return []grant.Grant{grant.ListPolicyVersions, grant.SetDefaultPolicyVersion}
}

// Check reads the policy's versions.
func (d DefaultVersion) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	versions, err := c.Cloud.RAM.PolicyVersions(ctx, d.Policy, Custom)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list versions of policy %s: %w", d.Policy, err)
	}
	for _, v := range versions {
		switch {
		case !v.Default:
		case v.ID == d.Version:
			return remedy.Done, nil
		case v.Document == d.From:
			return remedy.Todo, nil
		}
	}
	return remedy.Conflict, nil
}

// Apply chooses the default version, if the present one is still the one to replace.
func (d DefaultVersion) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, d, func() error { return w.Cloud.RAM.SetDefaultPolicyVersion(ctx, d.Policy, d.Version) })
}

// Undo is nothing: the step itself takes another one back.
func (DefaultVersion) Undo() (remedy.Step, bool) { return nil, false }
