package ticket

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/forge"
)

const web = `# The shop.
apiVersion: v1
kind: Service
metadata:
  name: web-1
  annotations:
    x.io/vswitch: vsw-a # zone h
---
apiVersion: v1
kind: Service
metadata: {name: web-2, namespace: shop}
`

var sources = []policy.Source{
	{Application: "shop", Paths: []string{"apps/other.yaml", "apps/web.yaml"}},
	{Kustomization: "flux-system/shop", Paths: []string{"flux.yaml"}},
}

// fromSource makes a record one that asks for a change to a source.
func fromSource(vswitch string, change ...func(*event.Source)) func(*event.Record) {
	return func(r *event.Record) {
		r.Digest = ""
		r.Source = &event.Source{Manager: "argocd-controller", Kind: "Application", Name: "shop", Digest: hash(vswitch) + hash("d"),
			Patch: json.RawMessage(fmt.Sprintf(`{"metadata":{"annotations":{"x.io/vswitch":%q}}}`, vswitch))}
		for _, f := range change {
			f(r.Source)
		}
		r.Ask = say.Literal("Commit this patch to the source of the Service: " + string(r.Source.Patch))
	}
}

// A mergeWorld is a world with a forge.
type mergeWorld struct {
	*world
	forge *forge.Server
	sink  policy.Sink
}

// forges runs a test with each kind of forge.
func forges(t *testing.T, test func(w *mergeWorld)) {
	for _, kind := range []string{policy.GitHub, policy.GitLab, policy.Codeup} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := &mergeWorld{world: newWorld(t)}
			w.forge = forge.New(t, kind, map[string]string{"apps/web.yaml": web, "apps/other.yaml": "kind: ConfigMap\n", "flux.yaml": web})
			w.sink = policy.Sink{Name: "source", Kind: kind, SecretFrom: secret(t, forge.Token), Repository: w.forge.Repository(), Branch: "main",
				Sources: sources, Namespaces: []string{"shop"}}
			test(w)
			if strings.Contains(w.log.String(), forge.Token) {
				t.Errorf("the log has the token\n%s", w.log.String())
			}
		})
	}
}

// starts returns a new follower's queue, as after a restart.
func (w *mergeWorld) starts() *queue {
	w.Helper()
	return w.queue(w.follower(func(c *Config) { c.wire = wire(w.forge.URL) }, w.sink), 0)
}

// has checks the states of the requests in order, and how many branches are left.
func (w *mergeWorld) has(branches int, states ...string) {
	w.Helper()
	var got []string
	for _, r := range w.forge.Requests() {
		if got = append(got, r.State); r.Target != "main" {
			w.Errorf("request %+v", r)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(states) || len(w.forge.Branches()) != branches {
		w.Fatalf("the requests are %v, and the branches %v; want %v and %d\n%s", got, w.forge.Branches(), states, branches, w.log.String())
	}
}

func (w *mergeWorld) asks(n int, change ...func(*event.Record)) event.Record {
	return w.record(n, "vswitch-ip-exhausted", event.Asked, change...)
}

func (w *mergeWorld) ends(result event.Result, change ...func(*event.Record)) event.Record {
	return w.record(1, "vswitch-ip-exhausted", result, change...)
}

// A request is opened once for a plan, replaced with the plan, and closed with the case.
func TestMergeRequest(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		q := w.starts()
		q.put(w.write(w.asks(3)), w.write(w.asks(4, fromSource("vsw-b", func(s *event.Source) { s.Name = "billing" }))))
		if calls := w.forge.Calls(); len(calls) > 0 {
			w.Fatalf("for Services of no source of the policy it calls %q", calls)
		}
		m := w.write(w.asks(1, fromSource("vsw-b")))
		q.put(m, m)
		w.has(1, "open")
		one, branch := w.forge.Requests()[0], w.forge.Branches()[0]
		if one.Branch != branch || !strings.HasSuffix(branch, hash("vsw-b")+hash("d")) || !strings.HasPrefix(branch, "lbremedy-") {
			w.Errorf("request %+v, branch %s", one, branch)
		}
		if !strings.HasPrefix(one.Title, "shop/web-1: The vSwitch is full (lbremedy-") || !strings.Contains(one.Text, "Commit this patch") {
			w.Errorf("title %q, text\n%s", one.Title, one.Text)
		}
		if got, want := w.forge.File(branch, "apps/web.yaml"), strings.Replace(web, "vsw-a #", `"vsw-b" #`, 1); got != want {
			w.Errorf("the file is\n%s", got)
		}
		if w.forge.File("main", "apps/web.yaml") != web {
			w.Error("main was changed")
		}
		w.forge.Calls()
		q.pass(time.Hour)
		w.starts().put(m, w.write(w.asks(1, fromSource("vsw-b"))))
		if calls := w.forge.Calls(); len(calls) > 0 {
			w.Errorf("an unchanged plan makes the calls %q", calls)
		}
		// Another plan of the same failure.
		w.forge.Fork(branch)
		q.put(w.write(w.asks(1, fromSource("vsw-c"))))
		q.pass(2 * time.Minute)
		w.has(1, "closed", "open", "open")
		// It recovers, and fails again.
		q.put(w.write(w.ends(event.Gone)))
		q.pass(time.Minute)
		w.has(0, "closed", "open", "closed")
		q.put(w.write(w.asks(1, fromSource("vsw-c"))))
		q.pass(time.Minute)
		w.has(1, "closed", "open", "closed", "open")
		// The case ends otherwise: the plan is another one now, and a person has rejected it.
		q.put(w.write(w.ends(event.Planned, func(r *event.Record) { r.Rejected = &event.Approved{By: "eve"} })))
		q.pass(time.Minute)
		w.has(0, "closed", "open", "closed", "closed")
		// A Service of another repository, by Flux.
		q.put(w.write(w.asks(2, fromSource("vsw-b", func(s *event.Source) { s.Kind, s.Name = "Kustomization", "flux-system/shop" }))))
		w.has(1, "closed", "open", "closed", "closed", "open")
		if got := w.forge.File(w.forge.Branches()[0], "flux.yaml"); !strings.Contains(got, `metadata: {annotations: {x.io/vswitch: "vsw-b"}, name: web-2,`) {
			w.Errorf("the file is\n%s", got)
		}
		// No plan for the source any more, such as in a namespace that allows drift.
		q.put(w.write(w.asks(2)))
		q.pass(2 * time.Minute)
		w.has(0, "closed", "open", "closed", "closed", "closed")
	})
}

// A process dies, or loses the answer, after any call: the next one goes on, and one request results. The same at the end.
func TestMergeRequestKilled(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		for n := 1; ; n++ {
			cut, now := false, n
			w.forge.Faults(func(call int, _ string) forge.Fault { cut = cut || call == now; return forge.Fault{Cut: call == now} })
			m := w.write(w.ends(event.Asked, fromSource(fmt.Sprint("vsw-", n))))
			q := w.starts()
			q.put(m)
			q.pass(2 * time.Minute)
			opened := cut
			open := 0
			for _, r := range w.forge.Requests() {
				if r.State == "open" {
					open++
				}
			}
			if open != 1 || len(w.forge.Branches()) != 1 || len(w.forge.Requests()) != n {
				w.Fatalf("after call %d: %+v, %v\n%s", n, w.forge.Requests(), w.forge.Branches(), w.log.String())
			}
			cut = false
			w.forge.Faults(func(call int, _ string) forge.Fault { cut = cut || call == now; return forge.Fault{Cut: call == now} })
			// The plan was opened by a process whose note was lost.
			m = w.write(w.ends(event.Gone))
			q.put(m)
			q.pass(2 * time.Minute)
			for _, r := range w.forge.Requests() {
				if r.State != "closed" || len(w.forge.Branches()) > 0 {
					w.Fatalf("at the end, after call %d: %+v, %v\n%s", n, r, w.forge.Branches(), w.log.String())
				}
			}
			if !opened && !cut {
				if n < 7 {
					w.Errorf("it made only %d calls", n)
				}
				return
			}
		}
	})
}

// The process dies between the request and the note of it, and the case ends before the next one starts.
func TestMergeRequestOrphan(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		w.forge.Faults(func(_ int, call string) forge.Fault {
			return forge.Fault{Cut: strings.HasPrefix(call, "POST") && (strings.HasSuffix(call, "/pulls") || strings.HasSuffix(call, "requests") ||
				strings.HasSuffix(call, "changeRequests"))}
		})
		q := w.starts()
		q.put(w.write(w.asks(1, fromSource("vsw-b"))))
		w.has(1, "open")
		w.forge.Faults(nil)
		q = w.starts()
		q.put(w.write(w.ends(event.Gone)))
		q.pass(2 * time.Minute)
		w.has(0, "closed")
	})
}

// A request stays as a person has left it.
func TestMergeRequestOfPerson(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		q := w.starts()
		for n, state := range []string{"closed", "merged"} {
			vswitch := fmt.Sprint("vsw-", n)
			q.put(w.write(w.asks(1, fromSource(vswitch))))
			q.pass(10 * time.Minute)
			if n == 0 {
				w.has(1, "open")
			}
			w.forge.End(n+1, state)
			q.put(w.write(w.asks(1, fromSource(vswitch), func(r *event.Record) { r.Finding = say.Literal("It is full again.") })))
			q.pass(2 * time.Hour)
			if all := w.forge.Requests(); len(all) != n+1 || all[n].State != state {
				w.Fatalf("%+v", all)
			}
			// The memory of it is lost: the forge has it.
			heads, err := w.s.Entries(w.ctx, "ticket.>")
			if err != nil || len(heads) != 1 {
				w.Fatal(heads, err)
			}
			if _, err = w.s.Swap(w.ctx, heads[0].Key, []byte(`{"status":""}`), heads[0].Revision, 0); err != nil {
				w.Fatal(err)
			}
			q = w.starts()
			q.put(w.write(w.asks(1, fromSource(vswitch))))
			q.pass(2 * time.Hour)
			if all := w.forge.Requests(); len(all) != n+1 || all[n].State != state {
				w.Fatalf("%+v", all)
			}
		}
		q.put(w.write(w.ends(event.Gone)))
		q.pass(time.Minute)
		w.has(0, "closed", "merged")
		// The source has the change already: the tool has not applied it.
		q.put(w.write(w.asks(1, fromSource("vsw-1"))))
		q.pass(10 * time.Minute)
		w.has(0, "closed", "merged")
		if !strings.Contains(w.log.String(), "the target branch has the change already") {
			w.Error(w.log.String())
		}
	})
}

// Answers of a forge that is down, refuses, lies or is another one.
func TestMergeRequestFaults(t *testing.T) {
	t.Parallel()
	var came atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { came.Add(1) }))
	defer elsewhere.Close()
	for name, tt := range map[string]struct {
		fault    forge.Fault
		at       string // prefix of the call; empty: all calls
		refused  bool   // tried again in an hour, not soon
		says     string
		requests int // after all is well again
	}{
		"down":     {fault: forge.Fault{Status: 503, Body: "down " + forge.Token}, says: "status 503", requests: 1},
		"limited":  {fault: forge.Fault{Status: 403, Header: http.Header{"Retry-After": {"60"}}}, says: "status 403", requests: 1},
		"denied":   {fault: forge.Fault{Status: 403, Body: "Resource not accessible with " + forge.Token}, refused: true, says: "status 403", requests: 1},
		"no-file":  {fault: forge.Fault{Status: 404}, at: "GET .*(contents|files)", refused: true, says: "status 404", requests: 1},
		"half":     {fault: forge.Fault{Status: 200, Body: `[{"name": "x`}, refused: true, says: "the answer is not what the API documents", requests: 1},
		"short":    {fault: forge.Fault{Status: 200, Header: http.Header{"Content-Length": {"900"}}, Body: "["}, says: "read the answer", requests: 1},
		"huge":     {fault: forge.Fault{Status: 200, Body: `["` + strings.Repeat("x", 8<<20)}, refused: true, says: "longer than 256 KiB", requests: 1},
		"redirect": {fault: forge.Fault{Status: 307, Header: http.Header{"Location": {elsewhere.URL + "/evil"}}}, refused: true, says: "status 307", requests: 1},
		"moved":    {fault: forge.Fault{Status: 301, Header: http.Header{"Location": {elsewhere.URL + "/evil"}}}, refused: true, says: "status 301", requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forges(t, func(w *mergeWorld) {
				w.forge.Faults(func(_ int, call string) forge.Fault {
					if tt.at == "" || strings.HasPrefix(call, "GET") && (strings.Contains(call, "/contents/") || strings.Contains(call, "/files/")) {
						return tt.fault
					}
					return forge.Fault{}
				})
				q := w.starts()
				q.put(w.write(w.asks(1, fromSource("vsw-b"))))
				all, err := List(w.ctx, w.s)
				if err != nil || len(all) != 1 || len(all[0].Tickets) != 1 {
					w.Fatal(all, err)
				}
				if got := all[0].Tickets[0]; got.Refused != tt.refused || !strings.Contains(got.Error, tt.says) || strings.Contains(got.Error, forge.Token) {
					w.Errorf("the list of tickets says %+v", got)
				}
				calls := len(w.forge.Calls())
				if q.pass(30 * time.Minute); tt.refused && len(w.forge.Calls()) > 0 || calls > 9 {
					w.Errorf("it was called %d times at once, and again", calls)
				}
				w.forge.Faults(nil)
				q.pass(90 * time.Minute)
				w.has(1, "open")
			})
		})
	}
	t.Cleanup(func() {
		if came.Load() > 0 {
			t.Error("it followed a redirect")
		}
	})
}

// A wrong token, and a forge at another address than the platform's.
func TestMergeRequestToken(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		w.sink.SecretFrom = secret(w, "wrong-t0ken")
		q := w.starts()
		q.put(w.write(w.asks(1, fromSource("vsw-b"))))
		if s := w.log.String(); !strings.Contains(s, "status 401") || !strings.Contains(s, `Bad credentials: ***`) || strings.Contains(s, "wrong-t0ken") {
			w.Error(s)
		}
		w.has(0)
	})
}

// The file does not have the Service, or has it twice, or is not YAML: nothing is written, and the ticket gives the reason.
func TestMergeRequestFiles(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		q := w.starts()
		for _, tt := range []struct{ text, want string }{
			{"kind: ConfigMap\n", "it does not have the Service shop/web-1"},
			{web + "---\n" + web, "it has the Service shop/web-1 twice"},
			{"{{ .Values }}", "it is not YAML"},
		} {
			w.forge.Put("main", "apps/web.yaml", tt.text)
			q.put(w.write(w.asks(1, fromSource("vsw-b"))))
			q.pass(2 * time.Hour)
			if !strings.Contains(w.log.String(), tt.want) && !strings.Contains(w.log.String(), "the change is about another file") {
				w.Errorf("want %s\n%s", tt.want, w.log.String())
			}
			w.has(0)
		}
		w.forge.Put("main", "apps/other.yaml", web)
		w.forge.Put("main", "apps/web.yaml", web)
		q.pass(2 * time.Hour)
		if !strings.Contains(w.log.String(), "both apps/other.yaml and apps/web.yaml have it") {
			w.Error(w.log.String())
		}
		w.has(0)
	})
}

// Annotations name no repository, path or branch, whatever is in them, and their text does nothing in a description.
func TestMergeRequestHostile(t *testing.T) {
	t.Parallel()
	forges(t, func(w *mergeWorld) {
		q := w.starts()
		for i, name := range []string{"", "../other", "shop/../other", "shop/apps/web.yaml", "evil/repo", "shop?ref=evil", "*", "shop\n"} {
			for _, kind := range []string{"Application", "Kustomization", "HelmRelease", "", "github"} {
				q.put(w.write(w.asks(10+i, fromSource("vsw-b", func(s *event.Source) { s.Kind, s.Name, s.Object, s.Manager = kind, name, name, name }))))
			}
		}
		q.put(w.write(w.asks(20, fromSource("vsw-b"), func(r *event.Record) { r.Service.Namespace = "other" }))) // the sink is for shop
		if calls := w.forge.Calls(); len(calls) > 0 {
			w.Fatalf("it calls %q", calls)
		}
		q.put(w.write(w.asks(1, fromSource("vsw-b\n---\nkind: Evil\n#", func(s *event.Source) { s.Object = "main" }), func(r *event.Record) {
			r.Message = "```\n@everyone [click](https://evil.invalid) closes #1"
			r.Cause = "x"
		})))
		w.has(1, "open")
		for _, call := range w.forge.Calls() {
			if strings.Contains(call, "evil") || strings.Contains(call, "Evil") {
				w.Error(call)
			}
		}
		one := w.forge.Requests()[0]
		if !strings.HasPrefix(one.Text, "````text\n") || !strings.HasSuffix(one.Text, "\n````") || strings.Contains(one.Title, "@") {
			w.Errorf("title %q, text\n%s", one.Title, one.Text)
		}
		if got := w.forge.File(one.Branch, "apps/web.yaml"); !strings.Contains(got, `x.io/vswitch: "vsw-b\n---\nkind: Evil\n#" # zone h`) {
			w.Errorf("the file is\n%s", got)
		}
	})
}
