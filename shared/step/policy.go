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

// Custom is the type of RAM policies that can be written; system policies cannot.
const Custom = "Custom"

const (
	MaxDocument = 6144 // bytes of the document of a custom policy
	maxVersions = 5    // of a policy
)

// PolicyVersion adds a version to a RAM policy and makes it the default. Of five versions, it first deletes the one named Drop.
type PolicyVersion struct {
	Policy   string   `json:"policy"`
	Document string   `json:"document"`
	Adds     []string `json:"adds"`              // the actions that the document adds, for people
	Was      string   `json:"was"`               // default version before
	Versions []string `json:"versions"`          // all versions before, which identifies a new one as ours
	Drop     string   `json:"drop,omitempty"`    // version to delete, never Was; empty: none
	Dropped  string   `json:"dropped,omitempty"` // its document, for people: undo does not restore it
}

// NewVersion returns the step that gives a policy the document with the new actions adds. It fails if the version of base, on which the document
// is built, is not the default of versions, which were read later, or if it is unknown which version of a full policy is the oldest.
func NewVersion(base cloud.Policy, document string, adds []string, versions []cloud.PolicyVersion) (PolicyVersion, error) {
	p := PolicyVersion{Policy: base.Name, Document: document, Adds: adds}
	var oldest cloud.PolicyVersion // except the default, which undo needs
	for _, v := range versions {
		p.Versions = append(p.Versions, v.ID)
		switch {
		case v.Default:
			p.Was = v.ID
		case oldest.ID == "" || v.Created.Before(oldest.Created):
			oldest = v
		}
	}
	if p.Was != base.Version {
		return PolicyVersion{}, fmt.Errorf("the default version of the policy %s has changed from %s to %s", base.Name, base.Version, p.Was)
	}
	if len(versions) >= maxVersions {
		if oldest.Created.IsZero() || oldest.Document == "" {
			return PolicyVersion{}, fmt.Errorf("the date of creation or the document of a version of the policy %s is unknown", base.Name)
		}
		p.Drop, p.Dropped = oldest.ID, oldest.Document
	}
	return p, nil
}

// Says describes the step.
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

// Risk is medium: it extends what a role may do; the version before stays.
func (PolicyVersion) Risk() remedy.Risk { return remedy.Medium }

// Grants are listing, creating and deleting policy versions.
func (PolicyVersion) Grants() []grant.Grant {
	return []grant.Grant{grant.ListPolicyVersions, grant.CreatePolicyVersion, grant.DeletePolicyVersion}
}

// Check reads the policy's versions. Done means that the default version has our document.
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

// Apply creates the version, after deleting one if it must. It reads the versions just before, under a lock: RAM has no conditional write.
func (p PolicyVersion) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, p, func() error {
		if p.Drop != "" {
			versions, err := c.Cloud.RAM.PolicyVersions(ctx, p.Policy, Custom)
			if err != nil {
				return fmt.Errorf("list versions of policy %s: %w", p.Policy, err)
			}
			if len(versions) == len(p.Versions) {
				// A caller that may not create a version must not delete one. RAM reports a full policy only to callers that may create.
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

// Undo makes the previous version the default again.
func (p PolicyVersion) Undo() (remedy.Step, bool) {
	return DefaultVersion{Policy: p.Policy, Version: p.Was, From: p.Document}, true
}

// DefaultVersion makes an older version of a RAM policy the default, instead of the one with the document From.
type DefaultVersion struct {
	Policy  string `json:"policy"`
	Version string `json:"version"`
	From    string `json:"from"`
}

// Says describes the step.
func (d DefaultVersion) Says() say.Text {
	return say.F("make version %s of the RAM policy %s the default again", d.Version, d.Policy)
}

// Kind is "default-version".
func (DefaultVersion) Kind() string { return "default-version" }

// Target is the policy.
func (d DefaultVersion) Target() string { return "ram/" + d.Policy }

// Risk is medium: it reduces what a role may do.
func (DefaultVersion) Risk() remedy.Risk { return remedy.Medium }

// Grants are listing policy versions and setting the default one.
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

// Apply sets the default version, if the present one is still the one to replace.
func (d DefaultVersion) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, d, func() error { return w.Cloud.RAM.SetDefaultPolicyVersion(ctx, d.Policy, d.Version) })
}

// Undo returns no step: this step is itself an undo.
func (DefaultVersion) Undo() (remedy.Step, bool) { return nil, false }
