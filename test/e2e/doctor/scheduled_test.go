package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

func (r *rig) scheduled(what string, env *host.Connection, opened, closed int) {
	r.Helper()
	result, err := (&doctor.ScheduledRun{Env: env.Env, Cloud: env.Clients.Cloud, Checks: checks.Checks()}).Run(r.ctx)
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
	if result.Opened != opened || result.Closed != closed {
		r.Errorf("%s: %d cases opened and %d closed, want %d and %d", what, result.Opened, result.Closed, opened, closed)
	}
	if _, err := r.env.Stream.Get(r.ctx, event.DoctorKey(testbed.ClusterID)); err != nil {
		r.Errorf("%s: that it ended well: %v", what, err)
	}
}

func matter(line string) string {
	words := strings.Fields(line)
	return words[1] + " " + words[2]
}

func matters(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, matter(line))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func checksOf(matters []string) []string {
	var all []string
	for _, m := range matters {
		check, _, _ := strings.Cut(m, " ")
		all = append(all, check)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *rig) journal(result event.Result) []string {
	r.Helper()
	var all []string
	r.must(r.env.Stream.EachLast(r.ctx, stream.Cases, caseSubjects, func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err == nil && rec.Phase == event.Settled && rec.Result == result {
			all = append(all, nameOf(rec))
		}
		return err
	}))
	slices.Sort(all)
	return all
}

func (r *rig) told() []string {
	r.Helper()
	var all []string
	r.must(r.env.Stream.Each(r.ctx, stream.Cases, caseSubjects, time.Time{}, func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil || strings.HasPrefix(rec.Class, doctor.ClassPrefix) {
			all = append(all, nameOf(rec))
		}
		return err
	}))
	slices.Sort(all)
	return all
}

const caseSubjects = "lbremedy.case." + testbed.ClusterID + ".>"

func nameOf(rec event.Record) string {
	return strings.TrimPrefix(rec.Class, doctor.ClassPrefix) + " " + rec.Service.Name
}

func (r *rig) same(what string, want, got []string) {
	r.Helper()
	if d := cmp.Diff(want, got); d != "" {
		r.Errorf("%s (-want +got):\n%s", what, d)
	}
}

type receiver struct {
	r *rig

	mu   sync.Mutex
	came map[string]int // by kind and check, such as "opened drift"
}

func (r *rig) tell() *receiver {
	r.Helper()
	d := &receiver{r: r, came: map[string]int{}}
	server := httptest.NewServer(d)
	r.Cleanup(server.Close)
	secret := shell.File(r, "secret", "c2l4dGVlbiBieXRlcyBvciBtb3Jl")
	follower, err := ticket.New(ticket.Config{
		Stream: r.env.Stream, Remedies: checks.Remedies(), Cluster: testbed.ClusterID, Now: r.now,
		Sinks: []policy.Sink{{Name: "ops", Kind: policy.Webhook, URL: server.URL, SecretFrom: policy.Reference{File: secret}}},
	})
	r.must(err)
	shell.Beside(r, r.ctx, "the sinks", func(ctx context.Context) error { follower.Run(ctx); return nil })
	return d
}

func (d *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var e struct {
		Type string
		Data ticket.Facts
	}
	if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kind := map[string]string{ticket.TypeOpened: "opened", ticket.TypeClosed: "closed"}[e.Type]
	check, ok := strings.CutPrefix(e.Data.Class, doctor.ClassPrefix)
	if !ok {
		return // a fix that has measured the controller
	}
	d.mu.Lock()
	d.came[kind+" "+check]++
	d.mu.Unlock()
	d.r.testbed.Wake()
}

func (d *receiver) hears(kind string, checks []string) {
	d.r.Helper()
	told := func() []string {
		d.mu.Lock()
		defer d.mu.Unlock()
		var all []string
		for what, n := range d.came {
			if check, ok := strings.CutPrefix(what, kind+" "); ok {
				all = append(all, slices.Repeat([]string{check}, n)...)
			}
		}
		slices.Sort(all)
		return all
	}
	if err := d.r.testbed.Until(d.r.ctx, func() bool { return len(told()) >= len(checks) }); err != nil {
		d.r.Errorf("wait for tickets: %v", err)
	}
	d.r.same("tickets that were "+kind, checks, told())
}
