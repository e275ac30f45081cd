package step

import (
	"context"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// TagLB puts a tag on a load balancer that does not carry its key.
type TagLB struct {
	LB    string `json:"lb"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// String says what the step does.
func (t TagLB) String() string { return fmt.Sprintf("tag %s with %s=%s", t.LB, t.Key, t.Value) }

// Kind is "tag-lb".
func (TagLB) Kind() string { return "tag-lb" }

// Target is the load balancer.
func (t TagLB) Target() string { return "slb/" + t.LB }

// Risk is high: the controller deletes the load balancer that carries its name
// tag when the Service goes.
func (TagLB) Risk() remedy.Risk { return remedy.High }

// Grants are reading and writing tags.
func (TagLB) Grants() []grant.Grant { return []grant.Grant{grant.ListSLBTags, grant.TagSLB} }

// Check reads the load balancer's tags.
func (t TagLB) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	return tagState(ctx, c, t.LB, t.Key, t.Value, true)
}

// Apply writes the tag, if the key is still free. The API has no condition for
// it: it is read again right before.
func (t TagLB) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	state, err := t.Check(ctx, c)
	if err != nil || state == remedy.Done {
		return err
	}
	if state == remedy.Conflict {
		return fmt.Errorf("tag %s: %w", t.LB, remedy.ErrMoved)
	}
	if err := w.Cloud.SLB.Tag(ctx, t.LB, t.Key, t.Value); err != nil {
		return fmt.Errorf("tag %s: %w", t.LB, err)
	}
	return nil
}

// Undo takes the tag away.
func (t TagLB) Undo() (remedy.Step, bool) { return UntagLB(t), true }

// UntagLB takes a tag with this value off a load balancer.
type UntagLB struct {
	LB    string `json:"lb"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// String says what the step does.
func (t UntagLB) String() string { return fmt.Sprintf("take the tag %s off %s", t.Key, t.LB) }

// Kind is "untag-lb".
func (UntagLB) Kind() string { return "untag-lb" }

// Target is the load balancer.
func (t UntagLB) Target() string { return "slb/" + t.LB }

// Risk is high: the controller no longer finds the load balancer.
func (UntagLB) Risk() remedy.Risk { return remedy.High }

// Grants are reading and removing tags.
func (UntagLB) Grants() []grant.Grant { return []grant.Grant{grant.ListSLBTags, grant.UntagSLB} }

// Check reads the load balancer's tags.
func (t UntagLB) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	return tagState(ctx, c, t.LB, t.Key, t.Value, false)
}

// Apply removes the tag, if it still has the value.
func (t UntagLB) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	state, err := t.Check(ctx, c)
	if err != nil || state == remedy.Done {
		return err
	}
	if state == remedy.Conflict {
		return fmt.Errorf("untag %s: %w", t.LB, remedy.ErrMoved)
	}
	if err := w.Cloud.SLB.Untag(ctx, t.LB, t.Key); err != nil {
		return fmt.Errorf("untag %s: %w", t.LB, err)
	}
	return nil
}

// Undo puts the tag back.
func (t UntagLB) Undo() (remedy.Step, bool) { return TagLB(t), true }

// tagState says where a tag stands that is wanted, or not wanted, with this value.
func tagState(ctx context.Context, c *remedy.Case, lb, key, value string, wanted bool) (remedy.State, error) {
	tags, err := c.Cloud.SLB.Tags(ctx, lb)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list tags of %s: %w", lb, err)
	}
	now, ok := tags[key]
	switch {
	case ok && now != value:
		return remedy.Conflict, nil
	case ok == wanted:
		return remedy.Done, nil
	}
	return remedy.Todo, nil
}
