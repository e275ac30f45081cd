package up

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Exports for the tests of this package.
var Ready = ready

type UpRun = upRun

func (u *upRun) Policy(file string) {
	u.policy, u.source = file, policyfile.FromFile(file, new(cli.Program).ParsePolicy)
}

func (u *upRun) Source() *policyfile.Source { return u.source }

func (u *upRun) Follow(ctx context.Context, s *stream.Stream) error { return u.follow(ctx, s) }

func (u *upRun) Secrets(dirs ...string) { u.secrets = dirs }

func (u *upRun) Begin(ctx context.Context, s *stream.Stream) error {
	u.parts.worker = true
	return u.begin(ctx, s)
}

func (u *upRun) Notifier(ctx context.Context, env *host.Connection) (*notifier, error) {
	u.metrics = observe.New("v1", u.Cluster)
	return u.notifier(ctx, env)
}

// Change takes what is followed next.
func (t *notifier) Change(ctx context.Context) *notifier {
	t.taken = *t.change(ctx)
	return t
}

func (t *notifier) People() []policy.Person { return t.people }

func (t *notifier) Sinks() []policy.Sink { return t.notified }

func (t *notifier) Fault(sink string) string { return t.faults[sink] }

// Refused returns the metric's value as text; empty for none.
func (t *notifier) Refused(sink string) string {
	w := httptest.NewRecorder()
	t.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, after, _ := strings.Cut(w.Body.String(), `kind="refused",sink="`+sink+`"} `)
	value, _, _ := strings.Cut(after, "\n")
	return value
}

func (t *notifier) Soon() { t.again = 0 }

func (t *notifier) Run(ctx context.Context) error { return t.run(ctx) }
