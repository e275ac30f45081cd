// Package status holds the commands "status", for the running lbremedy, and "preflight", before installing or fixing. They only read. Begin with Of.
package status

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{statusCommand(p), preflight(p)}
}

// A Status is the state of lbremedy in a cluster. Values that could not be read are missing, and listed in Unknown.
type Status struct {
	Version    string            `json:"version"`
	Cluster    string            `json:"cluster"`
	Region     string            `json:"region,omitempty"`
	Namespace  string            `json:"namespace,omitempty"`  // only its cases are counted; empty: all
	Controller string            `json:"controller,omitempty"` // version
	Newer      say.Text          `json:"newer,omitempty"`      // says that the controller is newer than all known releases
	NATS       Connection        `json:"nats"`
	Mode       string            `json:"mode,omitempty"`
	Policy     say.Text          `json:"policy,omitempty"` // what it allows
	Freeze     say.Text          `json:"freeze,omitempty"` // in force
	Pauses     []control.Pause   `json:"pauses,omitempty"` // in force here
	Breakers   []control.Breaker `json:"breakers,omitempty"`
	Budgets    []Budget          `json:"spentBudgets,omitempty"` // the next one to free a place first
	Exporter   *Exporter         `json:"exporter,omitempty"`
	Backlog    *Backlog          `json:"backlog,omitempty"`
	Cases      *journal.Tally    `json:"cases,omitempty"`
	Unknown    map[string]string `json:"unknown,omitempty"` // reason by field
	Verdict    Verdict           `json:"verdict"`

	InForce  policy.Version `json:"-"` // the policy
	Reported policy.InForce `json:"-"` // as reported by the engine
	Places   control.Left   `json:"-"` // left in budgets
}

// A Budget is a spent budget.
type Budget struct {
	Class string    `json:"class,omitempty"` // empty: the cluster's
	Until time.Time `json:"until"`           // when a place becomes free
}

// A Connection describes the connection to NATS.
type Connection struct {
	URL     string `json:"url,omitempty"`
	Reached bool   `json:"reached"`
}

// An Exporter is the exporter with the latest sign of life.
type Exporter struct {
	Name  string    `json:"name,omitempty"`
	At    time.Time `json:"at,omitzero"`
	Alive bool      `json:"alive"`
}

// A Backlog is what waits in NATS, or was lost.
type Backlog struct {
	Queued      int              `json:"queued"`             // failures that nobody has looked at
	Undelivered int              `json:"undelivered"`        // messages not delivered to any worker
	Lost        int              `json:"lost"`               // failures that are overdue
	Dead        uint64           `json:"dead"`               // in all clusters
	Classes     []ledger.Account `json:"classes,omitempty"`  // outcomes of the failures of each class
	Losses      []ledger.Loss    `json:"losses,omitempty"`   // the oldest first
	Problems    []string         `json:"problems,omitempty"` // other imbalances, one sentence each
}

// A Verdict is the overall result of a status.
type Verdict string

// Verdicts.
const (
	Well    Verdict = "ok"
	Waits   Verdict = "waits" // for a person
	Problem Verdict = "problem"
	Unknown Verdict = "unknown"
)

func (v Verdict) code() int {
	switch v {
	case Well:
		return 0
	case Waits:
		return cli.CodeOpen
	}
	return command.CodeFailed
}

// patience limits the time for reading one part of a status.
const patience = 10 * time.Second

func statusCommand(p *cli.Program) *cobra.Command {
	var scope cli.Scope
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of lbremedy on one screen",
		Long: `Show the status of lbremedy in a cluster on one screen: connection, policy, pauses, open
breakers, spent budgets, whether the exporter is alive, what is queued, which cases wait for whom,
and what was fixed in the last 24 hours. It only reads. What cannot be read is shown as
unknown. The cluster is that of --cluster, or else the only one that NATS knows.

Every failure must be accounted for. Each Event that an exporter has seen was published, or
needed not be; each failure that the stream keeps is queued, waiting, settled, dead or lost.
A failure is lost if it is not settled 15 minutes after it was due. -o wide lists all that
are lost, and what became of the failures of each class.

Exit codes: 0 all is well; 1 NATS cannot be reached, the exporter is silent, failures are
not accounted for, or something is unknown; 2 the usage or the configuration is wrong; 3 something
waits for a person: a case that needs approval or action or is only planned, an open
breaker, or a dead letter. The version of the controller may stay unknown; one that is
newer than what lbremedy knows is shown as such, and makes every plan riskier by one step.`,
		Example: `  lbremedy status
  lbremedy status -n shop
  lbremedy status --cluster c1234 -o json | jq -e '.verdict == "ok"'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := scope.Check(); err != nil {
				return err
			}
			st, err := read(cmd.Context(), p, scope)
			if err != nil {
				return err
			}
			if err := p.Print(st.english(), func() { show(p, st) }); err != nil {
				return err
			}
			if code := st.Verdict.code(); code != 0 {
				return command.Exit(code)
			}
			return nil
		},
	}
	p.AddNamespace(cmd, &scope, "count only cases in this `namespace`")
	return cmd
}

type reading struct {
	p     *cli.Program
	scope cli.Scope // of the cases
	Status
}

func (s Status) english() Status {
	for _, t := range []*say.Text{&s.Newer, &s.Policy, &s.Freeze} {
		*t = say.Literal(t.String())
	}
	s.Breakers = permission.English(s.Breakers)
	return s
}

// read returns mistakes of the caller, and the error of an ended context.
func read(ctx context.Context, p *cli.Program, scope cli.Scope) (Status, error) {
	r := &reading{p, scope, Status{Version: p.Version, Cluster: p.Cluster, Region: p.Region, Namespace: scope.Namespace, Unknown: map[string]string{}}}
	g := p.Progress()
	defer g.Done()
	g.Say("asking NATS")
	in, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := p.Stream(in)
	switch {
	case err == nil:
		defer s.Close()
		if err := r.ofStream(ctx, s); err != nil {
			return Status{}, err
		}
	case errors.As(err, new(command.Mistake)) && p.Known():
		return Status{}, err
	default:
		r.NATS.URL = p.Address()
		r.unknown(err, "nats", "mode", "pauses", "breakers", "budgets", "exporter", "backlog", "cases")
	}
	if r.Cluster == "" {
		r.unknown(command.Wrong("no cluster is named: set --cluster or LBREMEDY_CLUSTER to the ID of the ACK cluster"), "cluster")
	}
	g.Say("asking the cluster")
	if err := r.ofCluster(ctx); err != nil {
		return Status{}, err
	}
	r.setVerdict()
	return r.Status, ctx.Err()
}

func (r *reading) unknown(err error, fields ...string) {
	for _, f := range fields {
		r.Unknown[f] = strings.Join(strings.Fields(command.Clean(event.Redact(err.Error()))), " ")
	}
}

func (r *reading) ofStream(ctx context.Context, s *stream.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	r.NATS = Connection{URL: s.Where(), Reached: true}
	if r.Cluster == "" {
		var err error
		if r.Cluster, err = r.p.OneCluster(ctx, s); err != nil {
			return err
		}
	}
	r.kept(ctx, s)
	r.readLedger(ctx, s)
	tally, err := journal.Count(ctx, r.p, s, r.Cluster, r.scope, r.p.Now().Add(-24*time.Hour))
	r.cases(tally, err)
	return nil
}

// Of returns lbremedy's state in a cluster from NATS, with these counts of its cases and without the controller's version. It copies
// exporter and backlog from an earlier status, if given: they require reading all failures.
func Of(ctx context.Context, p *cli.Program, s *stream.Stream, cluster string, tally journal.Tally, before *Status) Status {
	r := &reading{p, cli.Scope{}, Status{Version: p.Version, Cluster: cluster, Unknown: map[string]string{}}}
	if cluster == p.Cluster {
		r.Region = p.Region
	}
	r.NATS = Connection{URL: s.Where(), Reached: true}
	r.kept(ctx, s)
	if before == nil {
		r.readLedger(ctx, s)
	} else {
		r.Exporter, r.Backlog = before.Exporter, before.Backlog
		for _, field := range []string{"exporter", "backlog"} {
			if why, ok := before.Unknown[field]; ok {
				r.Unknown[field] = why
			}
		}
	}
	r.cases(tally, nil)
	r.setVerdict()
	return r.Status
}

func (r *reading) cases(tally journal.Tally, err error) {
	if err == nil && tally.Unread > 0 {
		err = say.Errorf("%d records of the journal can't be read", tally.Unread)
	}
	if err != nil {
		r.unknown(err, "cases")
		return
	}
	r.Cases = &tally
}

func (r *reading) kept(ctx context.Context, s *stream.Stream) {
	var err error
	if r.InForce, r.Reported, err = r.p.InForce(ctx, s, r.Cluster); err != nil {
		r.unknown(err, "mode", "budgets")
	} else {
		allowed := r.InForce.Policy
		r.budgets(ctx, s, allowed.Budgets)
		r.Mode, r.Policy = string(remedy.Observe), permission.Describe(allowed)
		if allowed.Mode != "" {
			r.Mode = string(allowed.Mode)
		}
		if frozen, _ := allowed.Frozen(r.p.Now()); len(frozen) > 0 {
			r.Freeze = frozen
		}
	}
	if r.Pauses, err = control.PausesIn(ctx, s, r.Cluster); err != nil {
		r.unknown(err, "pauses")
	}
	if r.Breakers, err = control.Breakers(ctx, s, r.Cluster); err != nil {
		r.unknown(err, "breakers")
	}
}

func (r *reading) budgets(ctx context.Context, s *stream.Stream, b remedy.Budgets) {
	var err error
	if r.Places, err = control.PlacesLeft(ctx, s, r.Cluster, r.p.Classes(), b.OfClass(), b.OfCluster); err != nil {
		r.unknown(err, "budgets")
	}
	for class, until := range r.Places.Free {
		r.Budgets = append(r.Budgets, Budget{class, until})
	}
	slices.SortFunc(r.Budgets, func(x, y Budget) int { return cmp.Or(x.Until.Compare(y.Until), cmp.Compare(x.Class, y.Class)) })
}

func (r *reading) readLedger(ctx context.Context, s *stream.Stream) {
	l, err := ledger.Draw(ctx, s, r.Cluster, r.p.Now(), ledger.Late)
	if err != nil {
		r.unknown(err, "exporter", "backlog")
		return
	}
	page, alive := l.Alive()
	r.Exporter = &Exporter{page.Exporter, page.At, alive}
	b := Backlog{Lost: len(l.Lost), Classes: l.Classes, Losses: l.Lost, Problems: l.Problems}
	for _, a := range l.Classes {
		b.Queued += a.Queued
		b.Undelivered += a.Undelivered
	}
	fills, err := s.Fills(ctx)
	if err != nil {
		r.unknown(err, "backlog")
		return
	}
	for _, f := range fills {
		if f.Stream == stream.Dead {
			b.Dead = f.Messages
		}
	}
	r.Backlog = &b
}

// ofCluster returns a mistake if the cluster lacks the namespace: a count of no cases must not report health.
func (r *reading) ofCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := r.p.Host()
	c.Cluster = r.Cluster
	env, err := prepare(r.p, c, nil)
	if ns := r.scope.Namespace; ns != "" {
		missing := err
		if err == nil {
			missing = cli.Namespace(ctx, env, ns)
		}
		switch {
		case err == nil && errors.As(missing, new(command.Mistake)):
			return missing
		case missing != nil && (r.Cases == nil || *r.Cases == journal.Tally{}):
			r.Cases = nil
			r.unknown(say.Errorf("whether the cluster has the namespace %s: %w", ns, missing), "cases")
		}
	}
	var runs ccm.Controller
	if err == nil {
		view := ccm.View{Kube: env.Kube, Cloud: env.Clients.Cloud}
		if runs, err = view.Controller(ctx); err != nil {
			err = say.Errorf("the %s could not be read: %w", say.F("controller"), err)
		}
	}
	switch {
	case err != nil:
		r.unknown(err, "controller")
	case runs.Version == ccm.Version{}:
		r.unknown(errors.New(ccm.NoVersion().String()), "controller")
	default:
		r.Controller = runs.Version.String()
		if runs.Version.TooNew() {
			r.Newer = say.F("newer than %s, the newest release known here", ccm.Newest())
		}
	}
	return nil
}

// setVerdict puts problems before what waits.
func (r *reading) setVerdict() {
	// A plan in observe mode leads nowhere unless a person applies it.
	waits := len(r.Breakers) > 0 || r.Backlog != nil && r.Backlog.Dead > 0 ||
		r.Cases != nil && r.Cases.NeedsApproval+r.Cases.NeedsAction+r.Cases.Planned > 0
	unknown := len(r.Unknown)
	if _, ok := r.Unknown["controller"]; ok {
		unknown--
	}
	switch {
	case !r.NATS.Reached, r.Exporter != nil && !r.Exporter.Alive, r.Backlog != nil && r.Backlog.Lost+len(r.Backlog.Problems) > 0:
		r.Verdict = Problem
	case unknown > 0:
		r.Verdict = Unknown
	case waits:
		r.Verdict = Waits
	default:
		r.Verdict = Well
	}
}

// Headline returns the verdict in words.
func (s Status) Headline() say.Text {
	switch {
	case s.Verdict == Well:
		return say.F("All is well.")
	case s.Verdict == Waits:
		return say.F("Something waits for a person.")
	case s.Verdict == Unknown:
		return say.F("Not everything could be read.")
	case !s.NATS.Reached:
		return say.F("NATS cannot be reached.")
	case !s.Exporter.Alive:
		return say.F("The exporter is silent: failures are not seen.")
	}
	return say.F("Not all failures are accounted for.")
}
