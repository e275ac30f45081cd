package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A ScheduledRun examines a cluster on a timer and tells what changed since the time before.
//
// The findings of one check about one thing are a case of the class that Remedy gives
// the check. It stands as one that asks a person, and as gone when the
// finding is: so tickets are opened and closed for it as for any case, and what a fix
// of "lbremedy doctor" did counts. Findings of the severity info are no cases.
//
// The documents, and their records in CASES, are all that a scheduled run remembers: each record holds what was found, and the
// next run is compared with it. So a run that ends anywhere, at whatever moment, has
// told what it told and no more, and the next one tells the rest; of two that look at
// once one wins each case. What a check could not tell stands as it stood. A case that
// stands is written again, unchanged, before CASES forgets it.
//
// # Permissions
//
// Of NATS a scheduled run needs: to read CASES, FAILED and the bucket ($JS.API.DIRECT.GET of
// the three streams, $JS.API.STREAM.INFO of CASES and FAILED, without which it can't
// know which cases stand), to write lbremedy.case.*.*.<ClassPrefix><check> for each of its
// checks, and the keys state.*.*, engine.*.*, claim.<event.DoctorLock>* and event.DoctorKey.
type ScheduledRun struct {
	Env    *engine.Env   // with a stream
	Cloud  *cloud.Reader // what it reads of the account
	Checks []*Check
}

// ScheduledRunGrants returns what a scheduled run with these checks reads, and it writes nothing: the
// parts, of all Services at once and never of one, and the labels of the namespaces.
func ScheduledRunGrants(checks []*Check) []grant.Grant {
	one := func(g grant.Grant) bool { return g == grant.GetServices }
	return grant.Set(append(slices.DeleteFunc(Grants(checks), one), grant.GetNamespaces))
}

// A RunResult is what a scheduled run found to have changed.
type RunResult struct {
	Result Result
	Opened int // cases that are new, or of which something else is said
	Closed int
	Stands int // cases that stand now
}

// ErrElsewhere says that another process runs the doctor on the cluster now.
var ErrElsewhere = errors.New("another process runs the doctor on the cluster now")

const (
	// longest is how long a scheduled run may take before another process begins one. A run
	// takes less, so that one which has said nothing for as long has ended.
	longest = 10 * time.Minute
	// reading is how long it reads. What it has not read by then it does not know, as it says, and leaves as it stood.
	reading = longest - 2*time.Minute
	// renewed is the age at which a record of a case that stands is written again.
	renewed = stream.CasesAge / 2
	// told is how many findings of one check about one thing are told in full, and noted
	// how many are known by their keys.
	told, noted = 10, 500
)

// Run checks the cluster once and tells what changed. ErrElsewhere: another does.
func (p *ScheduledRun) Run(ctx context.Context) (RunResult, error) {
	unlock, held, err := control.Lock(ctx, p.Env.Stream, event.DoctorLock+p.Env.Cluster, p.Env.Who, longest)
	if err != nil {
		return RunResult{}, fmt.Errorf("lock the scheduled run: %w", err)
	}
	if !held {
		return RunResult{}, ErrElsewhere
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s, r, err := Run(ctx, Source{
		Cluster: p.Env.Cluster, Kube: p.Env.Kube, Cloud: p.Cloud, Now: p.now(), Policy: p.Env.Policy, Limit: reading,
		Stream: func(context.Context) (*stream.Stream, error) { return p.Env.Stream, nil },
	}, p.Checks)
	if err != nil {
		return RunResult{}, fmt.Errorf("check the cluster: %w", err)
	}
	out, err := p.tell(ctx, s, r)
	if err == nil {
		err := p.Env.Stream.Put(ctx, event.DoctorKey(p.Env.Cluster), []byte(p.now().UTC().Format(time.RFC3339)))
		if err != nil {
			p.log().Warn("that the scheduled run ended well can't be kept", "error", event.Redact(err.Error()))
		}
	}
	return out, err
}

// Ended returns when a scheduled run of the cluster last ended well, in whichever process: a process that
// dies in its runs can't tell by itself. Before the first such run it is when that was first asked.
func (p *ScheduledRun) Ended(ctx context.Context) (time.Time, error) {
	key, now := event.DoctorKey(p.Env.Cluster), p.now()
	at, err := p.Env.Stream.Entry(ctx, key)
	if errors.Is(err, stream.ErrNotFound) {
		_, err = p.Env.Stream.Swap(ctx, key, []byte(now.UTC().Format(time.RFC3339)), at.Revision, 0)
		if !errors.Is(err, stream.ErrConflict) {
			return now, err
		}
		at, err = p.Env.Stream.Entry(ctx, key) // a run has ended meanwhile
	}
	if err != nil {
		return now, err
	}
	return time.Parse(time.RFC3339, string(at.Value))
}

func (p *ScheduledRun) now() time.Time {
	if p.Env.Now != nil {
		return p.Env.Now()
	}
	return time.Now()
}

func (p *ScheduledRun) log() *slog.Logger {
	if p.Env.Log != nil {
		return p.Env.Log
	}
	return slog.New(slog.DiscardHandler)
}

// A matter is what findings of one check are about, and what stands of it.
type matter struct {
	check    string
	about    About
	findings []Finding
	was      *standing // nil: no case of it stands
	blind    bool      // whether what stood still does can't be told
	over     string    // why there is nothing to find; empty: there may be
}

// stands reports whether there is something to tell people of.
func (m *matter) stands() bool { return len(m.findings) > 0 || m.blind && m.was != nil }

// news reports whether people are to be told something else than what stands. What a
// run has told of a case, in words of its own, says it already.
func (m *matter) news() bool {
	switch {
	case len(m.findings) == 0:
		return false
	case m.was == nil, !m.was.settled():
		return true
	}
	return m.was.Found != nil && !same(m.was.Found, m.findings)
}

// aged reports whether the record of a case is to be written again: the journal forgets
// it soon, or it does not say what was found.
func (m *matter) aged(now time.Time) bool {
	return m.was.settled() && (m.was.Found == nil && len(m.findings) > 0 || now.Sub(m.was.stored) > renewed)
}

// A standing is a case of the doctor that stands, by its last record.
type standing struct {
	event.Record
	stored time.Time // by the clock of NATS
}

// settled reports whether no run was to go on with the case.
func (s *standing) settled() bool { return s.Phase == event.Settled && s.Result.Settled() }

// tell stores what changed since the last records.
func (p *ScheduledRun) tell(ctx context.Context, s *Snapshot, r Result) (RunResult, error) {
	if p.Env.Engine == nil {
		env := *p.Env
		env.Engine = document.Start(ctx, env.Stream, env.Cluster, env.Log)
		defer env.Engine.Stop()
		p = &ScheduledRun{Env: &env, Cloud: p.Cloud, Checks: p.Checks}
	}
	now := p.now()
	open, server, err := p.open(ctx, r.Checks)
	if err != nil {
		return RunResult{}, err
	}
	if server.Before(now) {
		server = now // its own newest record tells that a clock here has gone back
	}
	all := p.matters(s, r.AtLeast(Warning), open)
	out := RunResult{Result: r}
	ids := map[string]bool{}
	var errs []error
	for _, subject := range sortedKeys(all) {
		m := all[subject]
		if m.was != nil && m.stands() && !m.news() && !m.aged(server) {
			out.Stands++
			continue
		}
		done, err := p.journal(ctx, s, m, ids)
		switch {
		case err != nil && !errors.Is(err, stream.ErrConflict):
			errs = append(errs, fmt.Errorf("tell of %s, %s: %w", m.about, m.check, err))
			if errors.Is(err, stream.ErrUnavailable) || ctx.Err() != nil {
				return out, errors.Join(errs...) // the others would not get through either
			}
		case err != nil || !done: // a run is at work on it: the next scheduled run sees what came of it
			if m.was != nil {
				out.Stands++
			}
		case !m.stands():
			out.Closed++
		default:
			out.Stands++
			if m.news() {
				out.Opened++
			}
		}
	}
	return out, errors.Join(errs...)
}

// open returns the cases of these checks that stand, by subject, and the time at which
// the newest record of all was stored. A record that can't be read is passed over: a
// finding that stands is told anew in its place.
func (p *ScheduledRun) open(ctx context.Context, checks []string) (map[string]*standing, time.Time, error) {
	var newest time.Time
	open := map[string]*standing{}
	for _, check := range checks {
		err := p.Env.Stream.EachLast(ctx, stream.Cases, event.CaseSubject(p.Env.Cluster, "*", ClassPrefix+check), func(m stream.Message) error {
			if m.Time.After(newest) {
				newest = m.Time
			}
			rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
			if err != nil {
				p.log().Warn("a record of the doctor can't be read and is passed over", "subject", m.Subject, "sequence", m.Sequence, "error", event.Redact(err.Error()))
				return nil
			}
			if stands(rec) {
				open[m.Subject] = &standing{rec, m.Time}
			}
			return nil
		})
		if err != nil {
			return nil, newest, fmt.Errorf("read which cases stand: %w", err)
		}
	}
	return open, newest, nil
}

// stands reports whether the case of a record is not over. A run that was to come back
// to it does not: nothing delivers it again.
func stands(r event.Record) bool {
	switch r.Result {
	case event.Asked, event.Planned, event.Failed, event.Waiting, event.Unsettled:
		return true
	}
	return r.Phase != event.Settled
}

// matters returns what there is to tell of, by subject: what is found now, with what of
// a case that stands can't be told this time.
func (p *ScheduledRun) matters(s *Snapshot, r Result, open map[string]*standing) map[string]*matter {
	all := map[string]*matter{}
	for _, f := range r.Findings {
		subject := event.CaseSubject(p.Env.Cluster, serviceOf(p.Env.Cluster, f.About).UID, ClassPrefix+f.Check)
		if all[subject] == nil {
			all[subject] = &matter{check: f.Check, about: f.About}
		}
		all[subject].findings = append(all[subject].findings, f)
	}
	for subject, was := range open {
		m := all[subject]
		if m == nil {
			m = &matter{check: strings.TrimPrefix(was.Class, ClassPrefix), about: aboutOf(was.Service)}
			all[subject] = m
		}
		m.was = was
		switch {
		case s.without(m.about):
			m.over = "The Service is gone."
		case len(r.untold(m.check, m.about)) > 0:
			m.blind = true
			m.keep()
		}
	}
	for _, m := range all {
		slices.SortStableFunc(m.findings, order)
	}
	return all
}

// keep adds what stood of the matter and was not found this time.
func (m *matter) keep() {
	found := map[string]bool{}
	for _, f := range m.findings {
		found[f.Key] = true
	}
	for _, f := range m.was.Found {
		if found[f.Key] {
			continue
		}
		kept := Finding{Check: m.check, About: m.about, Key: f.Key, Text: f.Text, Do: f.Do}
		if err := kept.Severity.UnmarshalText([]byte(f.Severity)); err != nil {
			kept.Severity = Warning // of another release
		}
		m.findings = append(m.findings, kept)
	}
}

// without reports whether the snapshot shows that there is no such Service any more.
func (s *Snapshot) without(about About) bool {
	if about.Kind != Service || s.Err(Services) != nil {
		return false
	}
	for i := range s.Services {
		if string(s.Services[i].UID) == about.UID {
			return false
		}
	}
	return true
}

// same reports whether nothing is new, gone or of another severity. Figures in the
// texts may differ.
func same(was []event.Found, now []Finding) bool {
	is := foundOf(now)
	if len(was) != len(is) {
		return false
	}
	for i := range is {
		if was[i].Key != is[i].Key || was[i].Severity != is[i].Severity {
			return false
		}
	}
	return true
}

// foundOf returns findings as the journal keeps them. Of very many the last entry stands
// for all that are left out, and changes when one of them does.
func foundOf(findings []Finding) []event.Found {
	var list []event.Found
	rest := sha256.New()
	for i, f := range findings {
		found := event.Found{Key: f.Key, Severity: f.Severity.String()}
		if i < told {
			found.Text, found.Do = f.Text.Map(event.Cut), f.Do.Map(event.Cut)
		}
		if i < noted-1 || len(findings) == noted {
			list = append(list, found)
			continue
		}
		fmt.Fprintf(rest, "%q %q\n", found.Key, found.Severity)
	}
	if len(findings) > noted {
		list = append(list, event.Found{Key: fmt.Sprintf("%x", rest.Sum(nil)[:8]), Severity: findings[noted-1].Severity.String()})
	}
	return list
}

// muted reports whether a label says that nobody is to be asked about the thing.
func (p *ScheduledRun) muted(ctx context.Context, s *Snapshot, about About) (bool, error) {
	var svc *corev1.Service
	for i := range s.Services {
		if OfService(&s.Services[i]) == about {
			svc = &s.Services[i]
		}
	}
	if svc == nil {
		return false, nil
	}
	at := remedy.Place{Cluster: s.Cluster, Namespace: about.Namespace, Labels: svc.Labels}
	ns, err := p.Env.Kube.Namespace(ctx, about.Namespace)
	switch {
	case errors.Is(err, kube.ErrNotFound):
	case err != nil:
		return false, fmt.Errorf("read the namespace: %w", err)
	default:
		at.Around = ns.Labels
	}
	return s.Policy.At("", at).Muted, nil
}

// journal stores how a matter stands. It reports false where a run is at work on it,
// and stream.ErrConflict where somebody has written since the cases were read. The ID of
// a new case is none of ids, and is added: several may begin for one Service at once, and
// people name a case by its ID alone.
func (p *ScheduledRun) journal(ctx context.Context, s *Snapshot, m *matter, ids map[string]bool) (bool, error) {
	uid, class := serviceOf(p.Env.Cluster, m.about).UID, ClassPrefix+m.check
	noted, err := p.Env.Documents().Note(ctx, uid, class, func(last event.Record) (event.Record, error) {
		if last.Phase != "" && (last.Phase != event.Settled || !last.Result.Settled()) {
			if ago := p.now().Sub(last.At); ago < longest+last.Wait && ago > -longest { // a clock may have gone back
				return last, errGoesOn
			}
		}
		return p.record(ctx, s, m, ids, last)
	})
	if errors.Is(err, errGoesOn) {
		err = nil
	}
	return noted, err
}

// errGoesOn says that a fix of the case goes on between two of its runs.
var errGoesOn = errors.New("a fix goes on")

// record returns the record of a matter behind the newest one that there is.
func (p *ScheduledRun) record(ctx context.Context, s *Snapshot, m *matter, ids map[string]bool, last event.Record) (event.Record, error) {
	class, svc, now := ClassPrefix+m.check, serviceOf(p.Env.Cluster, m.about), p.now()
	rec := event.Record{
		Origin: event.Origin{Cluster: p.Env.Cluster, Class: class, Service: svc, EventTime: now},
		Run:    event.Run{First: now, Attempts: []time.Time{}},
	}
	if last.Phase != "" && (m.was == nil && stands(last) || m.was != nil && (last.Case != m.was.Case || !last.At.Equal(m.was.At))) {
		return rec, stream.ErrConflict // it is another scheduled run's, or a case's
	}
	if m.was != nil {
		was := m.was.Record
		rec.Case, rec.First, rec.Attempts, rec.Attempt = was.Case, was.First, was.Attempts, was.Attempt
	}
	for at := now; rec.Case == ""; at = at.Add(time.Second) {
		if id := event.CaseID(svc.UID, at); !ids[id] {
			rec.Case, ids[id] = id, true
		}
	}
	rec.Event = fmt.Sprintf("%s.%s.%s", svc.UID, class, now.UTC().Format("20060102T150405"))
	rec.Began, rec.Phase, rec.Mode = now, event.Settled, string(remedy.Observe)
	rec.Result, rec.Message = event.Gone, cmp.Or(m.over, "The doctor finds nothing of it any more.")
	switch {
	case m.stands() && !m.news():
		rec = m.was.Record // as it stands, with what was told of it and may be agreed to
	case m.stands():
		rec.Result, rec.Message = event.Asked, m.findings[0].Text.String()
		finding, ask := m.words()
		rec.Finding = finding
		rec.Ask = ask
	}
	rec.At, rec.Who = now, p.Env.Who
	if m.stands() {
		if len(m.findings) > 0 {
			rec.Found = foundOf(m.findings)
		}
		var err error
		if rec.Muted, err = p.muted(ctx, s, m.about); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// words returns what people are told of the findings, and what they are asked to do.
func (m *matter) words() (finding, ask say.Text) {
	n, more := 0, 0
	for _, f := range m.findings {
		if n == told || len(f.Text) == 0 {
			more++
			continue
		}
		n++
		finding, ask = finding.Then(cut(f.Text)), ask.Then(cut(f.Do))
	}
	if more > 0 {
		finding = finding.And("And %s more: lbremedy doctor --checks %s.", say.Count(more, "finding"), m.check)
	}
	return finding, ask
}

// cut returns a text that is no longer than event.Cut leaves it.
func cut(t say.Text) say.Text {
	if whole := t.String(); event.Cut(whole) != whole {
		return say.Literal(event.Cut(whole))
	}
	return t
}

// serviceOf returns what a matter is called in the journal. What is no Service has a
// digest for a UID.
func serviceOf(cluster string, about About) event.Service {
	if about.Kind == Service {
		return event.Service{Namespace: about.Namespace, Name: about.Name, UID: about.UID}
	}
	return event.Thing(cluster, string(about.Kind), about.Name)
}

// aboutOf is the way back.
func aboutOf(s event.Service) About {
	if s.Kind != "" {
		return About{Kind: Kind(s.Kind), Name: s.Name}
	}
	return About{Kind: Service, Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}
