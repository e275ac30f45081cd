package checkup

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Patrol surveys a cluster on a timer and tells what changed since the time before.
//
// The findings of one check about one thing are a case of the class that Remedy gives
// the check. It stands in the journal as one that asks a person, and as gone when the
// finding is: so tickets are opened and closed for it as for any case, and what a fix
// of "lbremedy doctor" did counts. Findings of the severity info are no cases.
//
// What a check could not tell stands as it stood. The result that is compared with lies
// in the stream; a survey that ends before it is stored tells the same once more, which
// changes nothing.
type Patrol struct {
	Env    *remedy.Env // with a stream
	Checks []*Check
}

// A Round is what a survey found to have changed.
type Round struct {
	Result Result
	Opened int // cases that are new, or of which something else is said
	Closed int
	Stands int // cases that stand now
}

// ErrElsewhere says that another process surveys the cluster now.
var ErrElsewhere = errors.New("another process surveys the cluster now")

// longest is how long a survey may take before another process begins one.
const longest = 10 * time.Minute

// Run surveys the cluster once and tells what changed. ErrElsewhere: another does.
func (p *Patrol) Run(ctx context.Context) (Round, error) {
	unlock, held, err := p.Env.Stream.Lock(ctx, "survey."+p.Env.Cluster, p.Env.Who, longest)
	if err != nil {
		return Round{}, fmt.Errorf("lock the survey: %w", err)
	}
	if !held {
		return Round{}, ErrElsewhere
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s, r, err := Survey(ctx, Source{Cluster: p.Env.Cluster, Kube: p.Env.Kube, Cloud: p.Env.Cloud, Now: p.now(), Policy: p.Env.Policy}, p.Checks)
	if err != nil {
		return Round{}, fmt.Errorf("survey the cluster: %w", err)
	}
	return p.tell(ctx, s, r)
}

func (p *Patrol) now() time.Time {
	if p.Env.Now != nil {
		return p.Env.Now()
	}
	return time.Now()
}

// A matter is what findings of one check are about.
type matter struct {
	check string
	about About
}

// matters returns the findings of each matter, in order.
func matters(findings []Finding) map[matter][]Finding {
	all := map[matter][]Finding{}
	for _, f := range findings {
		m := matter{f.Check, f.About}
		all[m] = append(all[m], f)
	}
	for _, list := range all {
		arrange(list, order)
	}
	return all
}

// tell journals what changed since the result before, and stores this one.
func (p *Patrol) tell(ctx context.Context, s *Snapshot, r Result) (Round, error) {
	before, err := p.load(ctx)
	if err != nil {
		return Round{}, err
	}
	now := r.AtLeast(Warning)
	_, kept := Changes(Result{Findings: before}, now)
	had, have := matters(before), matters(slices.Concat(now.Findings, kept))
	round := Round{Result: r}
	for _, m := range sorted(had, have) {
		if same(had[m], have[m]) {
			continue
		}
		told, err := p.journal(ctx, s, m, have[m])
		switch {
		case errors.Is(err, stream.ErrConflict), err == nil && !told:
			// A run is at work on it: the next survey sees what came of it.
			if have[m] = had[m]; len(had[m]) == 0 {
				delete(have, m)
			}
		case err != nil:
			return round, fmt.Errorf("tell of %s, %s: %w", m.about, m.check, err)
		case len(have[m]) > 0:
			round.Opened++
		default:
			round.Closed++
		}
	}
	var stand []Finding
	for _, m := range sorted(have, nil) {
		if len(have[m]) > 0 {
			round.Stands++
			stand = append(stand, have[m]...)
		}
	}
	return round, p.store(ctx, stand)
}

// sorted returns the matters of both, each once, in a fixed order.
func sorted(a, b map[matter][]Finding) []matter {
	var all []matter
	for _, of := range []map[matter][]Finding{a, b} {
		for m := range of {
			all = append(all, m)
		}
	}
	arrange(all, func(x, y matter) int {
		return cmp.Or(cmp.Compare(x.check, y.check), cmp.Compare(x.about.Kind, y.about.Kind), cmp.Compare(x.about.String(), y.about.String()), cmp.Compare(x.about.UID, y.about.UID))
	})
	return slices.Compact(all)
}

// same reports whether nothing is new, gone or of another severity. Figures in the
// texts may differ.
func same(a, b []Finding) bool {
	return slices.EqualFunc(a, b, func(x, y Finding) bool { return x.Key == y.Key && x.Severity == y.Severity })
}

// muted reports whether a label says that nobody is to be asked about the thing.
func (p *Patrol) muted(ctx context.Context, s *Snapshot, about About) (bool, error) {
	i := slices.IndexFunc(s.Services, func(svc corev1.Service) bool { return OfService(&svc) == about })
	if i < 0 {
		return false, nil
	}
	at := remedy.Place{Cluster: s.Cluster, Namespace: about.Namespace, Labels: s.Services[i].Labels}
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

// journal appends how a matter stands. It reports false where a run is at work on it.
func (p *Patrol) journal(ctx context.Context, s *Snapshot, m matter, findings []Finding) (bool, error) {
	class, svc, now := ClassPrefix+m.check, serviceOf(p.Env.Cluster, m.about), p.now()
	j := p.Env.Stream.Journal(p.Env.Cluster, svc.UID, class)
	kept, err := j.Load(ctx)
	if err != nil {
		return false, err
	}
	rec := events.Record{
		Case: fmt.Sprintf("%s-%s", svc.UID[:8], now.UTC().Format("20060102T150405")), Cluster: p.Env.Cluster, Class: class, Service: svc,
		EventTime: now, First: now, Attempts: []time.Time{},
	}
	open := false
	if kept != nil {
		e, err := events.DecodeNATS(kept.Header, kept.Data)
		if err != nil {
			return false, fmt.Errorf("read the journal: %w", err)
		}
		last, err := events.ReadRecord(e)
		if err != nil {
			return false, fmt.Errorf("read the journal: %w", err)
		}
		if last.Phase != events.Settled || !last.Result.Settled() {
			return false, nil
		}
		if open = last.Result == events.Asked || last.Result == events.Planned || last.Result == events.Failed; open {
			rec.Case, rec.First, rec.Attempts, rec.Attempt = last.Case, last.First, last.Attempts, last.Attempt
		}
	}
	if len(findings) == 0 && !open {
		return true, nil // a fix has closed it
	}
	rec.Event = fmt.Sprintf("%s.%s.%s", svc.UID, class, now.UTC().Format("20060102T150405"))
	rec.Began, rec.At, rec.Who, rec.Phase, rec.Mode = now, now, p.Env.Who, events.Settled, string(remedy.Observe)
	if rec.Muted, err = p.muted(ctx, s, m.about); err != nil {
		return false, err
	}
	rec.Result = events.Gone
	rec.Message = "The survey finds nothing of it any more."
	if len(findings) > 0 {
		var texts, asks []string
		for _, f := range findings {
			if len(texts) == told {
				texts = append(texts, fmt.Sprintf("And %s: lbremedy doctor --checks %s.", remedy.Count(len(findings)-told, "finding"), m.check))
				break
			}
			texts, asks = append(texts, f.Text), append(asks, f.Do)
		}
		rec.Result, rec.Message = events.Asked, findings[0].Text
		rec.Finding, rec.Ask = strings.Join(texts, " "), strings.Join(asks, " ")
	}
	e, err := events.NewRecord(rec)
	if err != nil {
		return false, fmt.Errorf("write the journal: %w", err)
	}
	header, data, err := events.EncodeNATS(e)
	if err != nil {
		return false, fmt.Errorf("write the journal: %w", err)
	}
	if err := j.Append(ctx, e.ID(), header, data); err != nil {
		return false, fmt.Errorf("write the journal: %w", err)
	}
	return true, nil
}

// told is how many findings of one check about one thing are told in full.
const told = 10

// serviceOf returns what a matter is called in the journal, whose cases are about
// Services. What is none is called kube-system/<its ID>, where the controller lives and
// an Event about it may lie, with a UID that stays the same.
func serviceOf(cluster string, about About) events.Service {
	if about.Kind == Service {
		return events.Service{Namespace: about.Namespace, Name: about.Name, UID: about.UID}
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(cluster+"|"+string(about.Kind)+"|"+about.Name)))
	uid := strings.Join([]string{sum[:8], sum[8:12], sum[12:16], sum[16:20], sum[20:32]}, "-")
	return events.Service{Namespace: "kube-system", Name: about.Name, UID: uid}
}

// key is where the last result lies in the stream's bucket.
func (p *Patrol) key() string { return "survey." + p.Env.Cluster }

// load returns the findings that stood after the last survey; none before the first.
func (p *Patrol) load(ctx context.Context) ([]Finding, error) {
	data, err := p.Env.Stream.Get(ctx, p.key())
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last survey: %w", err)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(unzip)
	}
	var list []Finding
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read the last survey: %w", err)
	}
	return list, nil
}

// store keeps what findings are known by: a thousand take 20 KB.
func (p *Patrol) store(ctx context.Context, findings []Finding) error {
	list := make([]Finding, len(findings))
	for i, f := range findings {
		list[i] = Finding{Check: f.Check, Severity: f.Severity, About: f.About, Key: f.Key, Text: f.Text, Do: f.Do}
	}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	err := json.NewEncoder(zip).Encode(list)
	if err = errors.Join(err, zip.Close()); err != nil {
		return fmt.Errorf("encode the survey: %w", err)
	}
	if err := p.Env.Stream.Put(ctx, p.key(), b.Bytes()); err != nil {
		return fmt.Errorf("keep the survey: %w", err)
	}
	return nil
}
