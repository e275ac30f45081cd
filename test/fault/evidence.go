package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Evidence is the judge's input. Writes are from the logs of the API servers and the cloud; the journal is only compared with them.
type evidence struct {
	Services []witness
	Failures []failure
	Writes   []write
	Records  []recorded
	Pauses   []span
	Lost     []span   // times whose writes to the cluster were lost, by restoring a copy
	Budget   int      // maximum number of a class's Services that may be written to; zero: unlimited
	Ledger   []string // what does not balance in "lbremedy status"
	Undone   []string // differences from the state before an undone step
}

type witness struct {
	Name, UID, Class string
	Ends             event.Result // expected result
	Healed           bool
}

type failure struct {
	UID, Reason string
	At          time.Time
	Over        bool
}

type write struct {
	At       time.Time // of the request
	Who      string    // part
	UID      string    // of the Service; empty for a write to the cloud
	Where    string    // "cluster" or "cloud"
	What     string    // such as "patch services" or "slb:TagResources"
	Mark     string    // of the attempt, on a write to a Service; empty: none
	Keys     []string  // changed annotations, besides the mark
	Targets  []string  // its objects in the cloud
	Done     bool      // executed
	Refused  bool      // outside the caller's rights
	Presence string    // for people
}

type recorded struct {
	event.Record
	Sequence uint64
	Stored   time.Time
}

type audited struct {
	Verb             string
	User             struct{ Username string }
	ImpersonatedUser struct{ Username string }
	ObjectRef        struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus   struct{ Code int }
	RequestObject    json.RawMessage
	Received         time.Time `json:"requestReceivedTimestamp"`
}

type logs struct {
	files  []string
	offset map[string]int64
	events map[string]failure // first line of each Event, by name
	lines  []audited
	said   []failure // by the controller
}

func (w *world) logs() (*logs, error) {
	files, err := filepath.Glob(filepath.Join(w.cluster.Dir(), "audit-*.log"))
	if err != nil || len(files) != len(w.kube) {
		return nil, fmt.Errorf("%d audit logs of %d API servers: %w", len(files), len(w.kube), err)
	}
	return &logs{files: files, offset: map[string]int64{}, events: map[string]failure{}}, nil
}

// read reads new lines. A killed server may leave an incomplete one.
func (l *logs) read() error {
	var news []audited
	for _, name := range l.files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if _, err := f.Seek(l.offset[name], io.SeekStart); err != nil {
			f.Close()
			return err
		}
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break // the rest is incomplete
			}
			l.offset[name] += int64(len(line))
			// The line of a restarted server follows the incomplete line of the killed one.
			if i := bytes.LastIndex(line, []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/`)); i > 0 {
				line = line[i:]
			}
			var a audited
			if err := json.Unmarshal(line, &a); err != nil {
				f.Close()
				return fmt.Errorf("read the audit log %s: %w", name, err)
			}
			news = append(news, a)
		}
		f.Close()
	}
	slices.SortStableFunc(news, func(a, b audited) int { return a.Received.Compare(b.Received) })
	for _, a := range news {
		l.hear(a)
	}
	l.lines = append(l.lines, news...)
	return nil
}

var reasons = []string{"SyncLoadBalancerFailed", "UnAvailableLoadBalancer", "FailedAddFinalizer"}

var successes = []string{"EnsuredLoadBalancer"}

func (l *logs) hear(a audited) {
	if a.ObjectRef.Resource != "events" || a.ResponseStatus.Code >= 300 {
		return
	}
	var e struct {
		Metadata       struct{ Name string }
		InvolvedObject struct{ UID string }
		Reason         string
	}
	if json.Unmarshal(a.RequestObject, &e) != nil {
		return
	}
	f := failure{UID: e.InvolvedObject.UID, Reason: e.Reason, At: a.Received, Over: slices.Contains(successes, e.Reason)}
	if first, ok := l.events[a.ObjectRef.Name]; a.Verb == "patch" && ok {
		f.UID, f.Reason, f.Over = first.UID, first.Reason+" again", first.Over
	} else if a.Verb == "create" && (f.Over || slices.Contains(reasons, e.Reason)) {
		l.events[e.Metadata.Name] = f
	} else {
		return
	}
	l.said = append(l.said, f)
}

func (l *logs) failures(uids map[string]bool) []failure {
	out := slices.DeleteFunc(slices.Clone(l.said), func(f failure) bool { return !uids[f.UID] })
	slices.SortStableFunc(out, func(a, b failure) int { return a.At.Compare(b.At) })
	return out
}

func (l *logs) writes(since time.Time, uids map[string]string) []write {
	var out []write
	for _, a := range l.lines {
		who, ours := strings.CutPrefix(a.ImpersonatedUser.Username, userPrefix)
		if !ours || a.Received.Before(since) {
			continue
		}
		w := write{
			At: a.Received, Who: who, UID: uids[a.ObjectRef.Name], Where: "cluster",
			What: strings.TrimSuffix(a.Verb+" "+a.ObjectRef.Resource+"/"+a.ObjectRef.Subresource, "/"),
			Done: a.ResponseStatus.Code/100 == 2, Refused: a.ResponseStatus.Code == 403, Presence: a.ObjectRef.Namespace + "/" + a.ObjectRef.Name,
		}
		var patch struct {
			Metadata struct{ Annotations map[string]*string }
		}
		if json.Unmarshal(a.RequestObject, &patch) == nil {
			for k, v := range patch.Metadata.Annotations {
				if k == ccm.Resync && v != nil {
					w.Mark = *v
				} else if k != ccm.Resync {
					w.Keys = append(w.Keys, k)
				}
			}
		}
		slices.Sort(w.Keys)
		out = append(out, w)
	}
	return out
}

// reading are the prefixes of actions that change nothing.
var reading = []string{"Describe", "List", "Get", "Query", "Simulate"}

func cloudWrites(calls []sim.Call, since time.Time, parts []*part) []write {
	var out []write
	for _, c := range calls {
		ours := slices.ContainsFunc(parts, func(p *part) bool { return p.Name == c.Caller })
		read := slices.ContainsFunc(reading, func(begin string) bool { return strings.HasPrefix(c.Action, begin) })
		if !ours || c.At.Before(since) {
			continue
		}
		w := write{
			At: c.At, Who: c.Caller, Where: "cloud", What: c.Product + ":" + c.Action, Done: c.Done && !read,
			Refused: c.Status == 403 || c.Code == "NoPermission" || strings.HasPrefix(c.Code, "Forbidden"), Presence: fmt.Sprint(c.Params),
		}
		if read && !w.Refused {
			continue
		}
		for k, v := range c.Params {
			if strings.HasPrefix(k, "ResourceId") || strings.HasSuffix(k, "LoadBalancerId") {
				w.Targets = append(w.Targets, v)
			}
		}
		slices.Sort(w.Targets)
		out = append(out, w)
	}
	return out
}

// records returns the journal since the start of the world, in order. Any node of NATS answers, and one that was hit may lack the
// end, so the leader states the journal's length.
func (w *world) records(ctx context.Context) ([]recorded, error) {
	asked, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	journal, err := w.js.Stream(asked, stream.Cases)
	if err != nil {
		return nil, err
	}
	var out []recorded
	var last uint64
	err = w.stream.Each(ctx, stream.Cases, "lbremedy.>", w.began, func(m stream.Message) error {
		last = m.Sequence
		if !strings.HasPrefix(m.Subject, strings.TrimSuffix(event.CaseSubjects, ">")) {
			return nil
		}
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			return err
		}
		out = append(out, recorded{rec, m.Sequence, m.Time})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	if end := journal.CachedInfo().State.LastSeq; last < end {
		return nil, fmt.Errorf("a node answered that lacks the end of the journal: %d is the last that it has, of %d", last, end)
	}
	return out, nil
}

// answer is JetStream's time-out. A request to a leader that is then killed gets no answer.
const answer = 5 * time.Second

// late is how long after its due time a failure counts as lost.
const late = backlog + time.Minute

// midway is how long a run in progress may take after the end.
const midway = 30 * time.Second

// unheard reports whether a part's write to a Service was lost with the cluster and the controller has reported nothing about the
// restored Service since: then it has not checked the current state yet, and may report syncing what was lost.
func (w *world) unheard(ctx context.Context, service, uid string) bool {
	w.mu.Lock()
	e := evidence{Lost: slices.Clone(w.lost)}
	w.mu.Unlock()
	if len(e.Lost) == 0 || !slices.ContainsFunc(w.audit.writes(w.began, map[string]string{service: uid}), func(one write) bool {
		return one.UID == uid && one.Done && e.lost(one)
	}) {
		return false
	}
	since := e.Lost[len(e.Lost)-1].to
	said := w.audit.failures(map[string]bool{uid: true})
	if len(said) == 0 || !said[len(said)-1].At.After(since) {
		return true
	}
	svc, err := w.cluster.Client().CoreV1().Services(w.bed.Namespace).Get(ctx, service, metav1.GetOptions{})
	return err != nil || said[len(said)-1].Over && !ccm.InForce(svc)
}

func (w *world) works(ctx context.Context, service, uid string) bool {
	if !w.bed.Works(service) {
		return false
	}
	over := func(said []failure) bool { return len(said) > 0 && said[len(said)-1].Over }
	if over(w.audit.failures(map[string]bool{uid: true})) {
		return true
	}
	said, err := w.kept(ctx, uid)
	return err == nil && over(said)
}

// kept returns the controller's reports about a Service from the Events: an API server killed after a write can lose its audit line.
func (w *world) kept(ctx context.Context, uid string) ([]failure, error) {
	list, err := w.cluster.Client().CoreV1().Events(w.bed.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid})
	if err != nil {
		return nil, err
	}
	var said []failure
	for _, e := range list.Items {
		f := failure{UID: uid, Reason: e.Reason, At: e.LastTimestamp.Time, Over: slices.Contains(successes, e.Reason)}
		if f.Over || slices.Contains(reasons, e.Reason) {
			said = append(said, f)
		}
	}
	// Events have whole seconds: in the same second, a working Service was synced last.
	slices.SortStableFunc(said, func(a, b failure) int {
		if c := a.At.Compare(b.At); c != 0 || a.Over == b.Over {
			return c
		}
		if a.Over {
			return 1
		}
		return -1
	})
	return said, nil
}

// caughtUp returns an error while a node of NATS lacks data: any node answers readers, and one that was hit may lack the journal's end.
func (w *world) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	for _, name := range []string{stream.Failed, stream.Cases, "KV_lbremedy"} {
		s, err := w.js.Stream(ctx, name) // the leader answers
		if err != nil {
			return err
		}
		for _, r := range s.CachedInfo().Cluster.Replicas {
			if !r.Current || r.Offline || r.Lag > 0 {
				return fmt.Errorf("%s lacks %d messages of %s", r.Name, r.Lag, name)
			}
		}
	}
	return nil
}

// outwait lets running runs end after the deadline, within the time after which a run counts as dead and is taken over.
func (w *world) outwait(ctx context.Context, services []witness) {
	ctx, cancel := context.WithTimeout(ctx, midway)
	defer cancel()
	_ = insist(ctx, func() error { // the judge handles unfinished runs
		records, err := w.records(ctx)
		if err != nil {
			return err
		}
		e := evidence{Records: records}
		for _, s := range services {
			if rec := e.last(s.UID, s.Class, time.Time{}); rec != nil && rec.Phase != event.Settled {
				return fmt.Errorf("%s is in the middle", s.Name)
			}
		}
		return nil
	})
}

func (w *world) gather(ctx context.Context, h *history) (evidence, error) {
	e := evidence{Budget: h.budget}
	uids := map[string]bool{}
	for _, f := range h.services {
		uid, err := w.uid(ctx, f.Service)
		if err != nil {
			return e, err
		}
		e.Services = append(e.Services, witness{Name: f.Service, UID: uid, Class: f.Class, Ends: f.Ends})
		w.uids[f.Service], uids[uid] = uid, true
	}
	w.outwait(ctx, e.Services)
	if err := w.audit.read(); err != nil {
		return e, err
	}
	e.Failures = w.audit.failures(uids)
	for _, s := range e.Services {
		if slices.ContainsFunc(e.Failures, func(f failure) bool { return f.UID == s.UID && !f.Over }) {
			continue
		}
		if err := insist(ctx, func() error {
			said, err := w.kept(ctx, s.UID)
			e.Failures = append(e.Failures, said...)
			return err
		}); err != nil {
			return e, err
		}
	}
	e.Writes = append(w.audit.writes(h.began, w.uids), cloudWrites(w.bed.Cloud.Calls(), h.began, w.parts)...)
	slices.SortStableFunc(e.Writes, func(a, b write) int { return a.At.Compare(b.At) })
	if err := insist(ctx, func() error { return w.caughtUp(ctx) }); err != nil {
		return e, err
	}
	if err := insist(ctx, func() (err error) { e.Records, err = w.records(ctx); return err }); err != nil {
		return e, err
	}
	// Check whether Services work after reading the journal: after the deadline, cases end meanwhile.
	if err := w.audit.read(); err != nil {
		return e, err
	}
	for i, s := range e.Services {
		e.Services[i].Healed = w.works(ctx, s.Name, s.UID)
	}
	w.mu.Lock()
	e.Pauses, e.Lost = slices.Clone(w.pauses), slices.Clone(w.lost)
	w.mu.Unlock()
	var l ledger.Ledger
	if err := insist(ctx, func() (err error) { l, err = ledger.Draw(ctx, w.stream, w.bed.ID, time.Now(), late); return err }); err != nil {
		return e, err
	}
	e.Ledger = slices.Clone(l.Problems)
	for _, lost := range l.Lost {
		e.Ledger = append(e.Ledger, fmt.Sprintf("lost: %+v", lost))
	}
	return e, nil
}
