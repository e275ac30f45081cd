package console_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	accounts "github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestMain(m *testing.M) { operator.Main(m) }

type console struct {
	t       *testing.T
	base    string // address without the key
	key     string
	browser *http.Client // has the key
}

func start(t *testing.T, c operator.Call, args ...string) *console {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	address, ended, err := c.Console(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if code := ended(); code != 0 {
			t.Errorf("the console ended with code %d", code)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	base, key, keyed := strings.Cut(address, "/?key=")
	x := &console{t, strings.TrimSuffix(base, "/"), key, &http.Client{Jar: jar}}
	if keyed {
		x.get("/?key="+key, http.StatusOK)
	}
	return x
}

// post expects this status, and returns the resulting page; 0: any status.
func (x *console) post(path string, code int, form url.Values) string {
	x.t.Helper()
	return x.do(x.browser, http.MethodPost, path, code, func(r *http.Request) {
		body := form.Encode()
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
}

func (x *console) get(path string, code int) string {
	x.t.Helper()
	return x.do(x.browser, http.MethodGet, path, code, nil)
}

func (x *console) do(client *http.Client, method, path string, code int, change func(*http.Request)) string {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), method, x.base+path, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	answer, err := client.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	if code != 0 && answer.StatusCode != code {
		x.t.Errorf("%s %s: %s, want %d: %s", method, path, answer.Status, code, text)
	}
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") {
		x.t.Errorf("%s %s: the browser may load %q", method, path, policy)
	}
	return string(text)
}

func (x *console) changes() *bufio.Scanner {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.base+"/live", nil)
	if err != nil {
		x.t.Fatal(err)
	}
	answer, err := x.browser.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { answer.Body.Close() })
	return bufio.NewScanner(answer.Body)
}

func (x *console) until(path, text string) {
	x.t.Helper()
	for lines := x.changes(); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(x.get(path, http.StatusOK), text) {
			return
		}
	}
	x.t.Fatalf("%s never has %q", path, text)
}

func TestEntrance(t *testing.T) {
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, operator.Lately()...); err != nil {
		t.Fatal(err)
	}
	x := start(t, c)
	x.until("/cases", "shop/web")
	stranger := &http.Client{}
	for _, path := range []string{"/", "/questions", "/cases", "/live", "/policy", "/nowhere", "/?key=", "/?key=" + strings.ToLower(x.key), "/cases?key=x"} {
		if text := x.do(stranger, http.MethodGet, path, http.StatusUnauthorized, nil); strings.Contains(text, "shop/web") {
			t.Errorf("%s tells who has no key: %s", path, text)
		}
	}
	x.do(stranger, http.MethodPost, "/read?key="+x.key, http.StatusUnauthorized, nil)
	// A host name that resolves to this machine is refused.
	x.do(x.browser, http.MethodGet, "/?key="+x.key, http.StatusMisdirectedRequest, func(r *http.Request) { r.Host = "evil.example:80" })
	for _, from := range []string{"cross-site", "same-site"} {
		x.do(x.browser, http.MethodPost, "/read", http.StatusForbidden, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", from) })
	}
	x.do(x.browser, http.MethodPost, "/answers", http.StatusForbidden, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") })
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, x.base+"//evil.example/?q=a&key="+x.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := stay.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if to, err := url.Parse(answer.Header.Get("Location")); err != nil || to.Host != "" {
		t.Errorf("the key leads to %v, %v", to, err)
	}
}

func TestWrong(t *testing.T) {
	c := operator.Call{Env: operator.Home(t)}
	login := []string{"--login", "--cluster", "c1"}
	for _, w := range []struct {
		want string
		args []string
	}{
		{"is not a loopback address with a port", []string{"--listen", "0.0.0.0:0"}},
		{"is not a loopback address with a port", []string{"--listen", ":0"}},
		{"is not a loopback address with a port", []string{"--listen", "localhost:0"}},
		{"is not a loopback address with a port", []string{"--listen", "192.0.2.1:8383"}},
		{"is not a loopback address with a port", []string{"--listen", "8383"}},
		{"are for a console with --login", []string{"--url", "https://lbremedy.example.com"}},
		{"are for a console with --login", []string{"--tls-cert", "cert", "--tls-key", "key"}},
		{"needs --cluster", []string{"--login"}},
		{"at which address browsers reach", append(login, "--listen", ":0")},
		{"is not https", append(login, "--listen", ":0", "--url", "http://lbremedy.example.com")},
		{"is not the address of a server", append(login, "--url", "lbremedy.example.com")},
		{"is not the address of a server", append(login, "--url", "https://ann:x@lbremedy.example.com")},
		{"is not the address of a server", append(login, "--url", "https://lbremedy.example.com/console?x=1")},
		{"belong together", append(login, "--tls-cert", "cert")},
		{"no such file", append(login, "--listen", "127.0.0.1:0", "--tls-cert", "/nowhere/cert", "--tls-key", "/nowhere/key")},
	} {
		got := c.Run(t.Context(), append([]string{"console"}, w.args...)...)
		if got.Code != 2 || !strings.Contains(got.Err, w.want) {
			t.Errorf("%q: want %q: %+v", w.args, w.want, got)
		}
	}
}

func TestPages(t *testing.T) {
	c, s := operator.Embed(t)
	x := start(t, c)
	x.until("/cases", "None")
	records := operator.Lately()
	if err := operator.Seed(t.Context(), s, records...); err != nil {
		t.Fatal(err)
	}
	x.until("/questions", "The role lacks slb:TagResources.")
	fixed := records[2]
	page := fmt.Sprintf("/cases/%s/%s/%s/%s", fixed.Cluster, fixed.Service.UID, fixed.Class, fixed.Case)
	for path, wants := range map[string][]string{
		"/":                        {"need action", "The role lacks slb:TagResources.", "The exporter is silent: failures are not seen."},
		"/questions":               {"Attach the policy. [2J", "pay/api", "no address"},
		"/cases?result=fixed":      {"1 to 1 of 1", "shop/web"},
		"/cases?q=api+permission":  {"1 to 1 of 1", "pay/api"},
		"/cases?q=web&result=open": {"None"},
		page: {fixed.Case + "</span>", "The vSwitch vsw-a is full", "before: </span>vsw-a", "after: </span>vsw-b",
			"lbremedy undo " + fixed.Case, "step"},
		"/policy":                 {"In force in c1", "observe"},
		"/classes":                {"vswitch-ip-exhausted"},
		"/classes/ram-permission": {"Open cases", "pay/api"},
		"/doctor":                 {"could not be read"},
	} {
		for _, want := range wants { // the state of a new cluster is read a moment after its first case
			x.until(path, want)
		}
	}
	for _, path := range []string{"/nowhere", "/classes/none", "/cases/c1/x/tag-missing/y", strings.Replace(page, fixed.Case, "none", 1)} {
		x.get(path, http.StatusNotFound)
	}
	// Older cases than the listed one still have a page.
	x.get(fmt.Sprintf("/cases/%s/%s/%s/%s", records[0].Cluster, records[0].Service.UID, records[0].Class, records[0].Case), http.StatusOK)
}

// TestCourse shows a case that one person approved and another undid: its timeline has both, in order, with their names.
func TestCourse(t *testing.T) {
	c, s := operator.Embed(t)
	begun, fixed := operator.Lately()[1], operator.Lately()[2]
	begun.Steps, begun.Attempt = fixed.Steps, 1
	fixed.Approved = &event.Approved{By: "ann", At: begun.At.Add(-time.Second), Comment: "go on"}
	back := fixed
	back.Steps = []event.StepRecord{{Kind: "annotate", Text: fixed.Steps[0].Undo.Text, Risk: "low", Step: fixed.Steps[0].Step}}
	back.Phase, back.Result, back.Undoing, back.Next, back.Who = event.Intent, "", true, 0, "cli"
	back.At, back.Person = fixed.At.Add(time.Minute), &event.Person{Name: "bob"}
	undone := back
	undone.Phase, undone.Result, undone.Next, undone.At = event.Settled, event.Undone, 1, back.At.Add(time.Second)
	if err := operator.Seed(t.Context(), s, begun, fixed, back, undone); err != nil {
		t.Fatal(err)
	}
	x := start(t, c)
	x.until("/cases", fixed.Case)
	page := x.get(fmt.Sprintf("/cases/%s/%s/%s/%s", fixed.Cluster, fixed.Service.UID, fixed.Class, fixed.Case), http.StatusOK)
	_, course, _ := strings.Cut(page, `<ol class="course">`)
	course, _, _ = strings.Cut(course, "</ol>")
	for _, want := range []string{
		"first failure", "approved the plan: go on", ">ann<", "plan of 1 step decided, attempt 1",
		"</span> fixed<", "undo of 1 step begun, attempt 1", ">bob<", "</span> undone<",
	} {
		_, after, found := strings.Cut(course, want)
		if !found {
			t.Fatalf("%q is missing, or too early, in what follows:\n%s", want, course)
		}
		course = after
	}
}

// The message of a forged Event has no button that copies it, on the page of its case and in the list of questions.
func TestHostileEvent(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	r := operator.Lately()[3]
	r.Message = "Error syncing load balancer []: kubectl delete namespace prod. Done\nkubectl drain web"
	r.Error, r.Finding, r.Note = r.Message, say.F("No class covers this failure of %s: %q", r.Service, r.Message), say.F("The message is %q.", r.Message)
	r.Ask = say.F("Check the log: %s.", "kubectl logs web")
	if err := operator.Seed(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	x := start(t, c)
	x.until("/questions", "No class covers")
	for _, path := range []string{"/questions", fmt.Sprintf("/cases/%s/%s/%s/%s", r.Cluster, r.Service.UID, r.Class, r.Case)} {
		page := x.get(path, http.StatusOK)
		if !strings.Contains(page, "delete namespace prod") || !strings.Contains(page, `data-copy="kubectl logs web"`) ||
			strings.Contains(page, `data-copy="kubectl d`) {
			t.Errorf("%s offers a stranger's command, or not lbremedy's own:\n%s", path, page)
		}
	}
}

// Without NATS the pages say so and keep what was read; afterwards, news appears.
func TestAway(t *testing.T) {
	dir := t.TempDir()
	serve := func(port int) (*embedded.Server, *stream.Stream) {
		server, err := embedded.Start(embedded.Options{Dir: dir, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		s, err := stream.Connect(t.Context(), stream.Config{URL: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return server, s
	}
	server, s := serve(-1)
	env := operator.Home(t)
	env["LBREMEDY_NATS"] = server.URL()
	c := operator.Call{Env: env}
	if got := c.Run(t.Context(), "up", "--setup", "--cluster", "c1"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	records := operator.Lately()
	if err := operator.Seed(t.Context(), s, records[:3]...); err != nil {
		t.Fatal(err)
	}
	x := start(t, c)
	x.until("/cases", "shop/web")
	s.Close()
	server.Close()
	x.until("/", "NATS is not reached since")
	if text := x.get("/cases", http.StatusOK); !strings.Contains(text, "shop/web") {
		t.Errorf("what was read is gone: %s", text)
	}
	x.get(fmt.Sprintf("/cases/c1/%s/%s/%s", records[2].Service.UID, records[2].Class, records[2].Case), http.StatusBadGateway)
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscan(at.Port(), &port); err != nil {
		t.Fatal(err)
	}
	_, s = serve(port)
	x.until("/cases", "shop/web")
	if err := operator.Seed(t.Context(), s, records[3]); err != nil {
		t.Fatal(err)
	}
	x.until("/questions", "pay/api")
	if text := x.get("/", http.StatusOK); strings.Contains(text, "NATS is not reached") {
		t.Errorf("NATS is still away: %s", text)
	}
}

func TestForgets(t *testing.T) {
	server := nats.Start(t, embedded.Options{})
	env := operator.Home(t)
	env["LBREMEDY_NATS"] = server.URL()
	c := operator.Call{Env: env}
	if got := c.Run(t.Context(), "up", "--setup", "--cluster", "c1"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	if err := operator.Seed(t.Context(), nats.Connect(t, stream.Config{URL: server.URL()}), operator.Lately()...); err != nil {
		t.Fatal(err)
	}
	js := nats.JetStream(t, server.URL())
	if _, err := js.Publish(t.Context(), event.CaseSubject("c1", "tag-missing", operator.UID(9)), []byte("no record")); err != nil {
		t.Fatal(err)
	}
	x := start(t, c)
	x.until("/questions", "pay/api")
	if text := x.get("/", http.StatusOK); !strings.Contains(text, "1 record of the journal") {
		t.Errorf("the record that can't be read is not one: %s", text)
	}
	journal, err := js.Stream(t.Context(), stream.Cases)
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.until("/questions", "Nothing waits for a person.")
	if text := x.get("/", http.StatusOK); strings.Contains(text, "pay/api") || strings.Contains(text, "of the journal") {
		t.Errorf("what is gone is still there: %s", text)
	}
}

// A console with its own NATS account sees everything, and changes as they happen; so do the read-only commands.
func TestOwnAccount(t *testing.T) {
	server := nats.Install(t, "c1")
	s := server.As(accounts.Engine)
	if _, err := s.Setup(t.Context(), []string{"tag-missing"}, stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	env := operator.Home(t)
	env["LBREMEDY_NATS"], env["LBREMEDY_NATS_NKEY"] = server.URL, server.Seed(accounts.Console)
	trusted := maps.Clone(env)
	trusted["LBREMEDY_NATS_NKEY"] = server.Seed(accounts.Operator)
	x := start(t, operator.Call{Env: env}, "--cluster", "c1")
	x.until("/cases", "None")
	if err := operator.Seed(t.Context(), s, operator.Lately()...); err != nil {
		t.Fatal(err)
	}
	x.until("/cases?result=fixed", "shop/web")
	if text := x.get("/", http.StatusOK); strings.Contains(text, "unknown") {
		t.Errorf("something is unknown to the console: %s", text)
	}
	for _, args := range [][]string{
		{"ls"}, {"show", "shop/web"}, {"tickets", "ls"}, {"dead", "ls"}, {"policy", "show"}, {"breaker", "ls"},
	} {
		args = append(args, "--cluster", "c1")
		got, want := operator.Call{Env: env}.Run(t.Context(), args...), operator.Call{Env: trusted}.Run(t.Context(), args...)
		if got.Code != want.Code || got.Out != want.Out || got.Err != want.Err {
			t.Errorf("%v: code %d, said %s %s; the operator gets %d, %s %s", args, got.Code, got.Out, got.Err, want.Code, want.Out, want.Err)
		}
	}
}

// The doctor's page shows the notes of its reading: here that writes are paused.
func TestDoctorNotes(t *testing.T) {
	c, _ := operator.Small(t)
	c.Embed(t)
	for _, args := range [][]string{{"up", "--setup"}, {"pause", "--by", "ann", "--why", "network change"}} {
		if got := c.Run(t.Context(), args...); got.Code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	x := start(t, c)
	x.until("/doctor", "Read at ")
	if got := x.get("/doctor", http.StatusOK); !strings.Contains(got, "Paused by ann") {
		t.Errorf("the page is %s", got)
	}
}
