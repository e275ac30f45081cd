package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ByHand is the command that applies a plan which can't be answered by an Approval.
const ByHand = "lbremedy run NAMESPACE/SERVICE --apply --approve DIGEST"

// Names of the chart's objects for Approvals.
const (
	Kind     = "approvals.lbremedy.io" // the CustomResourceDefinition
	Policy   = "lbremedy-approvals"    // the ValidatingAdmissionPolicy and its binding
	Approver = "lbremedy-approver"     // the ClusterRole for people who may answer
)

// A Rule is a condition of the admission policy on each Approval.
type Rule struct {
	Expression string
	Message    string
}

const (
	accounts = `^system:serviceaccount:[^:]+:lbremedy-`
	ours     = `.matches('` + accounts + `')`

	// relayed is the condition on an Approval with a chat: the notifier creates it. The permission is checked without a namespace, which keeps
	// the owner of one namespace from giving it to a ServiceAccount with the notifier's name.
	relayed = `request.userInfo.username.matches('^system:serviceaccount:[^:]+:lbremedy-(notifier|up|engine)$') && ` +
		`authorizer.group('lbremedy.io').resource('approvals').check('relay').allowed()`
)

var own = regex.New(accounts)

// Own reports whether a user is a ServiceAccount of lbremedy, which may not answer.
func Own(user string) bool { return own().MatchString(user) }

const groups = `!has(object.spec.groups) || has(request.userInfo.groups) && object.spec.groups.all(g, g in request.userInfo.groups)`

// Rules returns the conditions by which Approvals prove their author: those of the admission policy, without which an Approval does not count.
func Rules() []Rule {
	return []Rule{
		{`request.operation != 'CREATE' || (has(object.spec.chat) ? ` + relayed + ` : object.spec.user == request.userInfo.username)`,
			"spec.user must be the user who creates the Approval; only the notifier may say that it was somebody in a chat"},
		{`request.operation != 'CREATE' || has(object.spec.chat) || ` + groups,
			"spec.groups must be groups of the user who creates the Approval"},
		{`request.operation != 'CREATE' || !object.spec.user` + ours + ` && (has(object.spec.chat) || !request.userInfo.username` + ours + `)`,
			"lbremedy does not answer its own questions"},
		{`request.operation == 'CREATE' || object.spec == oldObject.spec`,
			"an Approval cannot be changed: create another one"},
	}
}

// settling is how long the API servers may take until all of them enforce a new policy.
const settling = 10 * time.Second

type unguarded struct{ error }

func (u unguarded) Unwrap() error { return u.error }

// Unguarded reports whether an error of Since means that Approvals prove nothing here, rather than that this is unknown.
func Unguarded(err error) bool { return errors.As(err, new(unguarded)) }

// Since returns from when, by the API server's clock, the admission policy makes Approvals prove their author. The error says why it does not.
func Since(ctx context.Context, c *kube.Cluster) (time.Time, error) {
	g, err := c.Guard(ctx, Policy)
	lacks := func(what say.Text) (time.Time, error) {
		return time.Time{}, unguarded{say.Errorf("nothing proves who created an Approval: the admission policy %s %s", Policy, what)}
	}
	if errors.Is(err, kube.ErrNotFound) {
		return lacks(say.F("is not in the cluster"))
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look at the admission policy of Approvals: %w", err)
	}
	switch {
	case !slices.Contains(g.Actions, "Deny"):
		return lacks(say.F("does not refuse anything: its binding lacks the action Deny"))
	case g.Limited:
		return lacks(say.F("is limited to some objects or namespaces by its binding"))
	case !g.Strict:
		return lacks(say.F("exempts requests"))
	case !slices.ContainsFunc(g.Resources, coversApprovals):
		return lacks(say.F("does not judge all Approvals"))
	}
	for _, r := range Rules() {
		if !slices.Contains(g.Rules, r.Expression) {
			return lacks(say.F("lacks the rule %q", r.Message))
		}
	}
	return g.Changed.Add(settling), nil
}

func coversApprovals(j kube.ResourceRule) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, word) || slices.Contains(list, "*")
	}
	group, resource := "lbremedy.io", strings.TrimSuffix(Kind, ".lbremedy.io")
	return has(j.Groups, group) && has(j.Versions, kube.ApprovalVersion) && has(j.Resources, resource) &&
		has(j.Operations, "CREATE") && has(j.Operations, "UPDATE") && len(j.Names) == 0
}
