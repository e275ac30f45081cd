package up

import (
	"context"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Ready is the check of /readyz.
var Ready = ready

// UpRun is one call of up.
type UpRun = upRun

// Policy makes the policy a file.
func (u *upRun) Policy(file string) {
	u.policy, u.source = file, policyfile.FromFile(file, new(cli.Program).ParsePolicy)
}

// Source returns the source of the policy.
func (u *upRun) Source() *policyfile.Source { return u.source }

// Follow prints and reports the policy in force.
func (u *upRun) Follow(ctx context.Context, s *stream.Stream) error { return u.follow(ctx, s) }

// Secrets sets the directories with the secrets of sinks.
func (u *upRun) Secrets(dirs ...string) { u.secrets = dirs }

// Begin sets the stream up and reports the policy, as the engine does.
func (u *upRun) Begin(ctx context.Context, s *stream.Stream) error {
	u.parts.worker = true
	return u.begin(ctx, s)
}

// Notifier returns the notifier of the sinks in force.
func (u *upRun) Notifier(ctx context.Context, env *host.Connection) (*notifier, error) {
	return u.notifier(ctx, env)
}

// Change waits for other sinks and returns their notifier.
func (t *notifier) Change(ctx context.Context) *notifier { return t.change(ctx) }

// People returns the people whose clicks count.
func (t *notifier) People() []policy.Person { return t.people }

// Sinks returns the sinks that are notified.
func (t *notifier) Sinks() []policy.Sink { return t.notified }

// Fault returns why a sink is not notified as the policy says.
func (t *notifier) Fault(sink string) string { return t.faults[sink] }

// Refused returns how often a sink has refused.
func (t *notifier) Refused(sink string) int64 { return t.notifications()[sink].Refused }

// Soon makes retries of faulty sinks immediate.
func (t *notifier) Soon() { t.again = 0 }

// Run notifies until ctx ends.
func (t *notifier) Run(ctx context.Context) error { return t.run(ctx) }
