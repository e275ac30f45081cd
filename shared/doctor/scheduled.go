package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

// A ScheduledRun examines a cluster on a timer and records what changed since the last run.
//
// The findings of one check about one object, except those of severity info, are a case of the class that Remedy gives the check. The case
// asks a person, and ends when the findings do; tickets and fixes by "lbremedy doctor" work as for any case.
//
// A run compares itself with the findings in the records of CASES and remembers nothing else, so it may stop at any moment. If two run at
// once, one of them wins each case. Objects that a check could not judge stay unchanged. A case of a check that this release does not have
// ends. The record of an open case is written again before CASES forgets it.
//
// A run needs these permissions of NATS: to read CASES, FAILED and the bucket ($JS.API.DIRECT.GET of the three streams, $JS.API.STREAM.INFO
// of CASES and FAILED, without which it can't know the open cases), to write lbremedy.case.*.*.<ClassPrefix><check> for each of its checks and
// those of earlier releases, and the keys state.*.*, engine.*.*, claim.<event.DoctorLock>* and event.DoctorKey.
type ScheduledRun struct {
	Env    *engine.Env   // with a stream
	Cloud  *cloud.Reader // for reading the account
	Checks []*Check
}

// ScheduledRunGrants returns the permissions to read the checks' parts for all Services, never for one, and the labels of the namespaces.
func ScheduledRunGrants(checks []*Check) []grant.Grant {
	one := func(g grant.Grant) bool { return g == grant.GetServices }
	return grant.Set(append(slices.DeleteFunc(Grants(checks), one), grant.GetNamespaces))
}

// A RunResult is what a scheduled run found to have changed.
type RunResult struct {
	Result    Result
	Opened    int // cases that are new or changed
	Closed    int
	StillOpen int // open cases
}

// ErrElsewhere says that another process is running the doctor on the cluster.
var ErrElsewhere = errors.New("another process runs the doctor on the cluster now")

const (
	// longest is how long a scheduled run may take before another process starts one; one silent for as long has ended.
	longest = 10 * time.Minute
	// reading is its reading time. Anything unread by then is reported as unknown.
	reading = longest - 2*time.Minute
	renewed = stream.CasesAge / 2
	// rollout is how old a case is before it ends because this release lacks its check: another release may be running, too.
	rollout = 24 * time.Hour
	// inFull is how many findings of a check about one object are recorded in full, and keysOnly how many by their keys.
	inFull, keysOnly = 10, 500
)

// Run checks the cluster once and records what changed. ErrElsewhere: another process is running.
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
		Cluster: p.Env.Cluster, Kube: p.Env.Kube, Cloud: p.Cloud, Now: p.Env.Time(), Policy: p.Env.Policy, Limit: reading,
		Stream: func(context.Context) (*stream.Stream, error) { return p.Env.Stream, nil },
	}, p.Checks)
	if err != nil {
		return RunResult{}, fmt.Errorf("check the cluster: %w", err)
	}
	out, err := p.tell(ctx, s, r)
	if err == nil {
		err := p.Env.Stream.Put(ctx, event.DoctorKey(p.Env.Cluster), []byte(p.Env.Time().UTC().Format(time.RFC3339)))
		if err != nil {
			p.Env.Logger().Warn("that the scheduled run ended well can't be kept", "error", event.Redact(err.Error()))
		}
	}
	return out, err
}

// Ended returns when any process last completed a scheduled run, or before the first, when it was first called: a dying process can't report.
func (p *ScheduledRun) Ended(ctx context.Context) (time.Time, error) {
	key, now := event.DoctorKey(p.Env.Cluster), p.Env.Time()
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

type matter struct {
	check    string
	about    About
	findings []Finding
	was      *openCase // nil: no open case
	blind    bool      // whether what was found still exists is unknown
	over     string    // why nothing can be found; empty: something may be
}

func (m *matter) isOpen() bool { return len(m.findings) > 0 || m.blind && m.was != nil }

// news reports whether people should hear about the case's change. A change that a fix has reported counts as reported.
func (m *matter) news() bool {
	switch {
	case len(m.findings) == 0:
		return false
	case m.was == nil, !m.was.settled():
		return true
	}
	return m.was.Found != nil && !same(m.was.Found, m.findings)
}

// aged reports whether to write a record again: CASES forgets it soon, or it doesn't say what was found.
func (m *matter) aged(now time.Time) bool {
	return m.was.settled() && (m.was.Found == nil && len(m.findings) > 0 || now.Sub(m.was.stored) > renewed)
}

type openCase struct {
	event.Record
	stored time.Time // by the clock of NATS
}

func (s *openCase) settled() bool { return s.Phase == event.Settled && s.Result.Settled() }

func (p *ScheduledRun) tell(ctx context.Context, s *Snapshot, r Result) (RunResult, error) {
	if p.Env.Engine == nil {
		env := *p.Env
		env.Engine = document.Start(ctx, env.Stream, env.Cluster, env.Log)
		defer env.Engine.Stop()
		p = &ScheduledRun{Env: &env, Cloud: p.Cloud, Checks: p.Checks}
	}
	now := p.Env.Time()
	open, server, err := p.open(ctx)
	if err != nil {
		return RunResult{}, err
	}
	if server.Before(now) {
		server = now // its own newest record proves that this clock went back
	}
	all := p.matters(s, r.AtLeast(Warning), open, server)
	out := RunResult{Result: r}
	ids := map[string]bool{}
	var errs []error
	for _, subject := range sortedKeys(all) {
		m := all[subject]
		if m.was != nil && m.isOpen() && !m.news() && !m.aged(server) {
			out.StillOpen++
			continue
		}
		done, err := p.journal(ctx, s, m, ids)
		switch {
		case err != nil && !errors.Is(err, stream.ErrConflict):
			errs = append(errs, fmt.Errorf("tell of %s, %s: %w", m.about, m.check, err))
			if errors.Is(err, stream.ErrUnavailable) || ctx.Err() != nil {
				return out, errors.Join(errs...) // the others would fail too
			}
		case err != nil || !done: // a fix is working on it: the next scheduled run sees the result
			if m.was != nil {
				out.StillOpen++
			}
		case !m.isOpen():
			out.Closed++
		default:
			out.StillOpen++
			if m.news() {
				out.Opened++
			}
		}
	}
	return out, errors.Join(errs...)
}

// open returns the open cases of the doctor by subject, and when the newest record was stored. It skips unreadable records, to be made anew.
func (p *ScheduledRun) open(ctx context.Context) (map[string]*openCase, time.Time, error) {
	var newest time.Time
	open := map[string]*openCase{}
	subjects, err := p.Env.Stream.Subjects(ctx, stream.Cases, event.CaseFilter(p.Env.Cluster, "*"))
	if err != nil {
		return nil, newest, fmt.Errorf("read the open cases: %w", err)
	}
	classes := map[string]bool{} // also those of checks that only another release has
	for _, subject := range subjects {
		if class := subject[strings.LastIndexByte(subject, '.')+1:]; strings.HasPrefix(class, ClassPrefix) {
			classes[class] = true
		}
	}
	for class := range classes {
		err := p.Env.Stream.EachLast(ctx, stream.Cases, event.CaseSubject(p.Env.Cluster, "*", class), func(m stream.Message) error {
			if m.Time.After(newest) {
				newest = m.Time
			}
			rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
			if err != nil {
				p.Env.Logger().Warn("a record of the doctor can't be read and is passed over", "subject", m.Subject, "sequence", m.Sequence,
					"error", event.Redact(err.Error()))
				return nil
			}
			if isOpen(rec) {
				open[m.Subject] = &openCase{rec, m.Time}
			}
			return nil
		})
		if err != nil {
			return nil, newest, fmt.Errorf("read the open cases: %w", err)
		}
	}
	return open, newest, nil
}

// dropped is the note on a case whose check was removed or renamed.
const dropped = "The doctor does not have this check any more."

// isOpen reports whether a record's case is open. Nothing delivers it to a fix again.
func isOpen(r event.Record) bool {
	switch r.Result {
	case event.Asked, event.Planned, event.Failed, event.Waiting, event.Unsettled:
		return true
	}
	return r.Phase != event.Settled
}

// matters returns what to record, by subject: present findings, and open cases that can't be judged this time.
func (p *ScheduledRun) matters(s *Snapshot, r Result, open map[string]*openCase, now time.Time) map[string]*matter {
	all := map[string]*matter{}
	for _, f := range r.Findings {
		subject := event.CaseSubject(p.Env.Cluster, f.About.InJournal(p.Env.Cluster).UID, ClassPrefix+f.Check)
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
		case !slices.Contains(r.Checks, m.check) && now.Sub(was.stored) > rollout:
			m.over = dropped
		case !slices.Contains(r.Checks, m.check): // of another release that still runs
			m.keep([]Unknown{{Check: m.check, About: m.about}})
		default:
			m.keep(r.untold(m.check, m.about))
		}
	}
	for _, m := range all {
		slices.SortStableFunc(m.findings, order)
	}
	return all
}

// keep adds the findings of the open case that may still hold. A record of another release may not say what was found.
func (m *matter) keep(unknown []Unknown) {
	m.blind = len(unknown) > 0 && len(m.was.Found) == 0
	found := map[string]bool{}
	for _, f := range m.findings {
		found[f.Key] = true
	}
	for _, f := range m.was.Found {
		if found[f.Key] || !slices.ContainsFunc(unknown, func(u Unknown) bool { return len(u.Keys) == 0 || slices.Contains(u.Keys, f.Key) }) {
			continue
		}
		kept := Finding{Check: m.check, About: m.about, Key: f.Key, Text: f.Text, Do: f.Do}
		if err := kept.Severity.UnmarshalText([]byte(f.Severity)); err != nil {
			kept.Severity = Warning // of another release
		}
		m.findings = append(m.findings, kept)
	}
}

func (s *Snapshot) without(about About) bool {
	return about.Kind == Service && s.Err(Services) == nil && s.service(about) == nil
}

func (s *Snapshot) service(about About) *corev1.Service {
	for i := range s.Services {
		if about.Kind == Service && string(s.Services[i].UID) == about.UID {
			return &s.Services[i]
		}
	}
	return nil
}

// same reports whether no finding is new, gone or of another severity, whatever figures the texts contain.
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

// foundOf returns findings in the form of the journal. The last entry may represent all that did not fit, and changes with them.
func foundOf(findings []Finding) []event.Found {
	var list []event.Found
	rest := sha256.New()
	for i, f := range findings {
		found := event.Found{Key: f.Key, Severity: f.Severity.String()}
		if i < inFull {
			found.Text, found.Do = f.Text.Map(event.Cut), f.Do.Map(event.Cut)
		}
		if i < keysOnly-1 || len(findings) == keysOnly {
			list = append(list, found)
			continue
		}
		fmt.Fprintf(rest, "%q %q\n", found.Key, found.Severity)
	}
	if len(findings) > keysOnly {
		list = append(list, event.Found{Key: fmt.Sprintf("%x", rest.Sum(nil)[:8]), Severity: findings[keysOnly-1].Severity.String()})
	}
	return list
}

func (p *ScheduledRun) muted(ctx context.Context, s *Snapshot, about About) (bool, error) {
	svc := s.service(about)
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

// journal stores the state of a matter. It returns false if a fix is working on it, and stream.ErrConflict if somebody has written since the
// cases were read. It adds the ID of a new case to ids and uses none of those: people name a case by its ID alone.
func (p *ScheduledRun) journal(ctx context.Context, s *Snapshot, m *matter, ids map[string]bool) (bool, error) {
	uid, class := m.about.InJournal(p.Env.Cluster).UID, ClassPrefix+m.check
	noted, err := p.Env.Documents().Note(ctx, uid, class, func(last event.Record) (event.Record, error) {
		if last.Phase != "" && (last.Phase != event.Settled || !last.Result.Settled()) {
			if ago := p.Env.Time().Sub(last.At); ago < longest+last.Wait && ago > -longest { // a clock may have gone back
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

var errGoesOn = errors.New("a fix goes on")

func (p *ScheduledRun) record(ctx context.Context, s *Snapshot, m *matter, ids map[string]bool, last event.Record) (event.Record, error) {
	class, svc, now := ClassPrefix+m.check, m.about.InJournal(p.Env.Cluster), p.Env.Time()
	rec := event.Record{
		Origin: event.Origin{Cluster: p.Env.Cluster, Class: class, Service: svc, EventTime: now},
		Run:    event.Run{First: now, Attempts: []time.Time{}},
	}
	if last.Phase != "" && (m.was == nil && isOpen(last) || m.was != nil && (last.Case != m.was.Case || !last.At.Equal(m.was.At))) {
		return rec, stream.ErrConflict // another scheduled run or another case wrote it
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
	case m.isOpen() && !m.news():
		rec = m.was.Record // unchanged, with what was reported and may be approved
	case m.isOpen():
		rec.Result, rec.Message = event.Asked, m.findings[0].Text.String()
		finding, ask := m.words()
		rec.Finding = finding
		rec.Ask = ask
	}
	rec.At, rec.Who = now, p.Env.Who
	if m.isOpen() {
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

// words returns the finding, and what people are asked to do.
func (m *matter) words() (finding, ask say.Text) {
	n, more := 0, 0
	for _, f := range m.findings {
		if n == inFull || len(f.Text) == 0 {
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

func cut(t say.Text) say.Text {
	if whole := t.String(); event.Cut(whole) != whole {
		return say.Literal(event.Cut(whole))
	}
	return t
}

func aboutOf(s event.Service) About {
	if s.Kind != "" {
		return About{Kind: Kind(s.Kind), Name: s.Name}
	}
	return About{Kind: Service, Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}
