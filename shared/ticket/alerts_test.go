package ticket

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// An alertServer accepts alerts as Alertmanager does. test/alertmanager sends the recorded ones to the real program.
type alertServer struct {
	*hook
	w      *world
	alerts map[string]alert // by labels
	broken int              // status of all answers; zero: good ones
	header http.Header
}

func newAlertServer(w *world) *alertServer {
	d := &alertServer{hook: newHook(w), w: w, alerts: map[string]alert{}}
	d.answers(func(_ int, p post) (int, http.Header, string) {
		if d.broken != 0 {
			return d.broken, d.header, "no such token: t0ken-of-alerts"
		}
		if p.url != "/am/api/v2/alerts" || p.header.Get("Authorization") != "Bearer t0ken-of-alerts" || p.header.Get("Content-Type") != "application/json" {
			return 404, nil, p.url
		}
		var all []alert
		dec := json.NewDecoder(strings.NewReader(p.body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&all); err != nil || len(all) != 1 {
			return 400, nil, fmt.Sprint(err)
		}
		a := all[0]
		for name, value := range a.Labels {
			if value == "" || !utf8.ValidString(value) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
				return 400, nil, "a label"
			}
		}
		if a.StartsAt.IsZero() {
			a.StartsAt = a.EndsAt
		}
		if a.Labels["alertname"] == "" || a.EndsAt.Before(a.StartsAt) {
			return 400, nil, "no alert"
		}
		d.alerts[fmt.Sprint(a.Labels)] = a
		return 200, nil, ""
	})
	return d
}

func (d *alertServer) sink() policy.Sink {
	return policy.Sink{Name: "am", Kind: policy.Alertmanager, URL: d.server.URL + "/am/", SecretFrom: secret(d, "t0ken-of-alerts")}
}

func (d *alertServer) firing() []string {
	var all []string
	for _, a := range d.alerts {
		if a.EndsAt.After(d.w.now()) {
			all = append(all, a.Annotations["summary"])
		}
	}
	slices.Sort(all)
	return all
}

// lives lets time pass in steps, repeats open tickets as a running follower does, and calls see after each.
func (q *queue) lives(d time.Duration, see func()) {
	const step = 30 * time.Second
	for ; d > 0; d -= step {
		q.pass(step)
		if err := q.o.repeat(q.w.ctx); err != nil {
			q.w.Fatal(err)
		}
		if see != nil {
			see()
		}
	}
}

func TestAlertmanager(t *testing.T) {
	w := newWorld(t)
	w.clock = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	d := newAlertServer(w)
	f := w.follower(nil, d.sink())
	q := w.queue(f, 0)
	one, two := []string{"The vSwitch is full (vsw-1), 1 Service"}, []string{"The vSwitch is full (vsw-1), 2 Services"}
	fires := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string(nil), want...), d.firing()); diff != "" {
			t.Fatalf("what fires at %s (-want +got)\n%s\n%s", w.now(), diff, w.log.String())
		}
	}
	var recorded bytes.Buffer // what test/alertmanager sends to the real program
	record := func(step string) {
		t.Helper()
		posts := d.take()
		if len(posts) == 0 {
			t.Fatalf("nothing was sent: %s", step)
		}
		fmt.Fprintf(&recorded, "{\"step\":%q,\"at\":%q,\"alerts\":%s}\n", step, w.now().Format(time.RFC3339), posts[len(posts)-1].body)
	}

	q.put(w.write(w.record(9, "throttling", event.Fixed, cause("slb"))))
	if n := len(d.take()); n != 0 {
		t.Errorf("a fix is no alert, and %d were sent", n)
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	fires(one...)
	record("opened")
	q.lives(2*time.Hour, func() { fires(one...) })
	if n := len(d.posts); n < 45 || n > 65 || stats(f).Updated != 0 || strings.Count(w.log.String(), "people were notified") != 1 {
		t.Errorf("in two hours it was sent %d times, %d times as news\n%s", n, stats(f).Updated, w.log.String())
	}
	record("sent again")
	clear(d.alerts)
	q.lives(3*time.Minute, nil)
	fires(one...)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Failed)))
	q.lives(time.Minute, nil)
	fires(two...)
	record("joined")
	// The server is down for an hour. Then ended alerts are over and the others fire again.
	q.put(w.write(w.record(3, "arrearage", event.Asked, cause("bill"))))
	q.lives(time.Minute, nil)
	d.take()
	d.broken = 503
	q.lives(30*time.Minute, nil)
	q.put(w.write(w.record(3, "arrearage", event.Gone, cause("bill"))))
	q.lives(30*time.Minute, nil)
	fires()
	if n := len(d.take()); n < 10 || n > 60 {
		t.Errorf("while it was down it was tried %d times in an hour", n)
	}
	d.broken = 0
	q.lives(6*time.Minute, nil)
	fires(two...)
	d.broken, d.header = 429, http.Header{"Retry-After": {"1200"}}
	d.take()
	q.lives(15*time.Minute, nil)
	if n := len(d.take()); n != 1 {
		t.Errorf("it was asked %d times in 15 minutes, and wanted none for 20", n)
	}
	d.broken, d.header = 0, nil
	q.lives(10*time.Minute, nil)
	fires(two...)

	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Fixed)), w.write(w.record(2, "vswitch-ip-exhausted", event.Gone)))
	q.lives(time.Minute, nil)
	fires()
	record("closed")
	q.lives(time.Hour, nil)
	if n := len(d.take()); n != 0 {
		t.Errorf("what is over was sent %d times", n)
	}
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	fires("Again: The vSwitch is full (vsw-1), 1 Service")
	record("reopened")
	list, err := List(w.ctx, w.s)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(i Incident) bool { return i.Class == "vswitch-ip-exhausted" })
	if _, err := Close(w.ctx, w.s, list[i].ID, "ann", w.now()); err != nil {
		t.Fatal(err)
	}
	q.pass(time.Minute)
	if err := q.o.close(w.ctx); err != nil {
		t.Fatal(err)
	}
	fires()
	// A refusal is logged without the secret, and retried in an hour.
	d.broken = 401
	q.put(w.write(w.record(4, "busy", event.Asked)))
	q.lives(50*time.Minute, nil)
	if n := len(d.take()); n != 2 || stats(f).Refused != 1 || strings.Contains(w.log.String(), "t0ken-of-alerts") {
		t.Errorf("%d posts, %d refused\n%s", n, stats(f).Refused, w.log.String())
	}
	d.broken = 0
	q.lives(time.Hour, nil)
	fires("Busy (vsw-1), 1 Service")
	q.empty()

	const file = "testdata/alertmanager.jsonl"
	if *update {
		if err := os.WriteFile(file, recorded.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), recorded.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nread it and write it with -update", file, diff)
	}
}

func TestAlertOfAnotherCluster(t *testing.T) {
	w := newWorld(t)
	d := newAlertServer(w)
	q := w.queue(w.follower(nil, d.sink()), 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	other := w.queue(w.follower(func(c *Config) { c.Cluster = "c2" }, d.sink()), 0)
	d.take()
	other.lives(time.Hour, nil)
	if n := len(d.take()); n != 0 {
		t.Errorf("the follower of another cluster sent %d alerts", n)
	}
}

// An unencrypted connection may only lead to this cluster, and carries no token.
func TestAlertmanagerAddress(t *testing.T) {
	for address, want := range map[string][2]string{ // with a token, without
		"https://alerts.aliyuncs.com":                        {},
		"http://alertmanager.monitoring.svc:9093":            {"https:// alone"},
		"http://alertmanager.monitoring.svc.cluster.local/x": {"https:// alone"},
		"http://alertmanager.monitoring:9093":                {"begin with https://", "begin with https://"},
		"http://evil.example/.svc":                           {"begin with https://", "begin with https://"},
		"http://u:p@am.monitoring.svc":                       {"user or password", "user or password"},
	} {
		for i, from := range []policy.Reference{{Env: "LBREMEDY_TELL_AM"}, {}} {
			err := policy.Sink{Kind: policy.Alertmanager, SecretFrom: from}.CheckURL(address)
			if (err == nil) != (want[i] == "") || err != nil && !strings.Contains(err.Error(), want[i]) {
				t.Errorf("%s, token %v: %v, want %q", address, i == 0, err, want[i])
			}
		}
	}
}

type pagerEvent struct {
	RoutingKey string `json:"routing_key"`
	Action     string `json:"event_action"`
	DedupKey   string `json:"dedup_key"`
	Client     string
	Payload    *struct {
		Summary, Source, Severity, Component, Class string
		Timestamp                                   time.Time
		Details                                     map[string]any `json:"custom_details"`
	}
}

type pagerServer struct {
	*hook
	open   map[string]pagerEvent // last trigger of each open alert
	acked  map[string]bool
	opened int // number of alerts ever opened
	broken int
	wrong  []string
}

const routingKey = "0123456789abcdef0123456789abcdef"

func newPagerServer(t testing.TB) *pagerServer {
	d := &pagerServer{hook: newHook(t), open: map[string]pagerEvent{}, acked: map[string]bool{}}
	d.answers(func(_ int, p post) (int, http.Header, string) {
		if d.broken != 0 {
			return d.broken, nil, ""
		}
		var e pagerEvent
		dec := json.NewDecoder(strings.NewReader(p.body))
		dec.DisallowUnknownFields()
		bad := func(why string) (int, http.Header, string) {
			d.wrong = append(d.wrong, why)
			return 400, nil, `{"status":"invalid event","errors":["` + why + ` of ` + e.RoutingKey + `"]}`
		}
		switch err := dec.Decode(&e); {
		case err != nil:
			return bad(err.Error())
		case p.url != "/v2/enqueue", len(p.body) > 512<<10:
			return bad(p.url)
		case e.RoutingKey != routingKey:
			return bad("routing_key")
		case e.DedupKey == "" || len(e.DedupKey) > 255:
			return bad("dedup_key")
		}
		switch e.Action {
		case "trigger":
			if e.Payload == nil || e.Payload.Summary == "" || utf8.RuneCountInString(e.Payload.Summary) > 1024 || e.Payload.Source == "" ||
				!slices.Contains([]string{"critical", "error", "warning", "info"}, e.Payload.Severity) {
				return bad("payload")
			}
			if _, ok := d.open[e.DedupKey]; !ok {
				d.opened++
			}
			d.open[e.DedupKey] = e
		case "acknowledge":
			d.acked[e.DedupKey] = true
		case "resolve":
			delete(d.open, e.DedupKey)
			delete(d.acked, e.DedupKey)
		default:
			return bad("event_action")
		}
		return 202, nil, `{"status":"success","message":"Event processed","dedup_key":"` + e.DedupKey + `"}`
	})
	return d
}

func (d *pagerServer) summaries() []string {
	var all []string
	for _, e := range d.open {
		all = append(all, e.Payload.Severity+": "+e.Payload.Summary)
	}
	slices.Sort(all)
	return all
}

func TestPagerDuty(t *testing.T) {
	w := newWorld(t)
	d := newPagerServer(t)
	f := w.follower(d.wired, policy.Sink{Name: "pager", Kind: policy.PagerDuty, SecretFrom: secret(t, routingKey)})
	q := w.queue(f, 0)
	open := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string(nil), want...), d.summaries()); diff != "" {
			t.Fatalf("open alerts (-want +got)\n%s\n%q\n%s", diff, d.wrong, w.log.String())
		}
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	open("critical: The vSwitch is full (vsw-1), 1 Service")
	p := slices.Collect(maps.Values(d.open))[0].Payload
	if p.Source != "cluster c1" || p.Component != "shop/web-1" || p.Class != "vswitch-ip-exhausted" || p.Details["impact"] != string(event.NeverUp) ||
		!strings.Contains(fmt.Sprint(p.Details["text"]), "Add a vSwitch.") {
		t.Errorf("got %+v", p)
	}
	d.broken = 500
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Hour)
	d.broken = 0
	q.pass(5 * time.Minute)
	open("critical: The vSwitch is full (vsw-1), 2 Services")
	if d.opened != 1 {
		t.Errorf("%d alerts were opened", d.opened)
	}
	// An approved plan acknowledges the alert, unless something else is asked.
	approved := func(r *event.Record) {
		r.Ask, r.Approved = nil, &event.Approved{By: "ann"}
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	q.pass(time.Minute)
	if len(d.acked) != 0 {
		t.Error("nobody has approved anything")
	}
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Unsettled, approved)))
	q.pass(time.Minute)
	if len(d.acked) != 1 || len(d.open) != 1 {
		t.Errorf("%d alerts are acknowledged, %d open", len(d.acked), len(d.open))
	}
	d.broken = 429
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Fixed)))
	q.pass(10 * time.Minute)
	if n := len(d.open); n != 1 || stats(f).Refused != 0 {
		t.Errorf("%d alerts are open, %d refused", n, stats(f).Refused)
	}
	d.broken = 0
	q.pass(5 * time.Minute)
	open()
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Failed, func(r *event.Record) { r.Impact = event.Frozen })))
	open("warning: Again: The vSwitch is full (vsw-1), 1 Service")
	if d.opened != 2 {
		t.Errorf("%d alerts were opened", d.opened)
	}
	huge := strings.Repeat("漏\x1b[31m<>&", 3000)
	for n := range 30 {
		q.put(w.write(w.record(10+n, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) {
			r.Finding, r.Ask, r.Error, r.Cause, r.Service.Name = say.Literal(huge), say.Literal(huge), huge, huge, strings.Repeat("x", 63)
		})))
	}
	q.pass(time.Minute)
	if len(d.open) != 2 || len(d.wrong) > 0 {
		t.Errorf("%d alerts are open; refused: %q", len(d.open), d.wrong)
	}
	q.empty()
	wrong := policy.Sink{Name: "wrong", Kind: policy.PagerDuty, URL: "https://events.eu.pagerduty.com", SecretFrom: secret(t, "s3cr3t-routing-key")}
	f = w.follower(d.wired, wrong)
	q = w.queue(f, 0)
	q.put(w.write(w.record(50, "busy", event.Asked)))
	if stats(f).Refused != 1 || strings.Contains(w.log.String(), "s3cr3t-routing-key") || strings.Contains(w.log.String(), routingKey) {
		t.Errorf("%d refused\n%s", stats(f).Refused, w.log.String())
	}
}
