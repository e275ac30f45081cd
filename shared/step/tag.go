package step

import (
	"context"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// TagLB adds a tag to a load balancer that lacks its key.
type TagLB struct {
	LB      string `json:"lb"`
	Key     string `json:"key"`
	Value   string `json:"value"`
	Network bool   `json:"network,omitempty"` // it is an NLB
}

// Says describes the step.
func (t TagLB) Says() say.Text { return say.F("tag %s with %s=%s", t.LB, t.Key, t.Value) }

// Kind is "tag-lb".
func (TagLB) Kind() string { return "tag-lb" }

// Target is the load balancer.
func (t TagLB) Target() string { return target(t.LB, t.Network) }

// Risk is high: with its name tag, the controller deletes the load balancer when the Service is deleted.
func (TagLB) Risk() remedy.Risk { return remedy.High }

// Grants are reading and writing tags.
func (TagLB) Grants() []grant.Grant {
	return []grant.Grant{grant.ListSLBTags, grant.TagSLB, grant.ListNLBTags, grant.TagNLB}
}

// Check reads the load balancer's tags.
func (t TagLB) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	return tagState(ctx, c, t, true)
}

// Apply writes the tag, if the key is free. It reads again just before: the API has no conditional write.
func (t TagLB) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	tag := w.Cloud.SLB.Tag
	if t.Network {
		tag = w.Cloud.NLB.Tag
	}
	return once(ctx, c, t, func() error { return tag(ctx, t.LB, t.Key, t.Value) })
}

// Undo removes the tag.
func (t TagLB) Undo() (remedy.Step, bool) { return UntagLB(t), true }

// UntagLB removes a tag with this value from a load balancer.
type UntagLB struct {
	LB      string `json:"lb"`
	Key     string `json:"key"`
	Value   string `json:"value"`
	Network bool   `json:"network,omitempty"` // it is an NLB
}

// Says describes the step.
func (t UntagLB) Says() say.Text { return say.F("take the tag %s off %s", t.Key, t.LB) }

// Kind is "untag-lb".
func (UntagLB) Kind() string { return "untag-lb" }

// Target is the load balancer.
func (t UntagLB) Target() string { return target(t.LB, t.Network) }

// Risk is high: the controller no longer finds the load balancer.
func (UntagLB) Risk() remedy.Risk { return remedy.High }

// Grants are reading and removing tags.
func (UntagLB) Grants() []grant.Grant {
	return []grant.Grant{grant.ListSLBTags, grant.UntagSLB, grant.ListNLBTags, grant.UntagNLB}
}

// Check reads the load balancer's tags.
func (t UntagLB) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	return tagState(ctx, c, TagLB(t), false)
}

// Apply removes the tag, if it still has the value.
func (t UntagLB) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	untag := w.Cloud.SLB.Untag
	if t.Network {
		untag = w.Cloud.NLB.Untag
	}
	return once(ctx, c, t, func() error { return untag(ctx, t.LB, t.Key) })
}

// Undo adds the tag again.
func (t UntagLB) Undo() (remedy.Step, bool) { return TagLB(t), true }

func target(id string, network bool) string {
	if network {
		return "nlb/" + id
	}
	return "slb/" + id
}

func tagState(ctx context.Context, c *remedy.Case, t TagLB, wanted bool) (remedy.State, error) {
	list := c.Cloud.SLB.Tags
	if t.Network {
		list = c.Cloud.NLB.Tags
	}
	tags, err := list(ctx, t.LB)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list tags of %s: %w", t.LB, err)
	}
	now, ok := tags[t.Key]
	switch {
	case ok && now != t.Value:
		return remedy.Conflict, nil
	case ok == wanted:
		return remedy.Done, nil
	}
	return remedy.Todo, nil
}
