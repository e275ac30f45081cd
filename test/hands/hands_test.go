// Package hands checks that the engine's contract is complete: a class in Python, with only its standard library, passes the tests of one in Go.
package hands

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	clusterID  = "c-hands"
	annotation = "example.com/owner"
	sample     = "../../functions/examples/python"
)

// declared reads the declaration that the Python class and the engine share.
func declared(t *testing.T) *remedy.Remedy {
	t.Helper()
	text, err := os.ReadFile(sample + "/class.yaml")
	var r *remedy.Remedy
	if err == nil {
		r, err = cli.ParseDeclaration(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func inGo(t *testing.T) *remedy.Remedy {
	r := declared(t)
	r.StillFails = func(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
		return remedy.Is(c.Service.Annotations[annotation] == ""), nil
	}
	r.Diagnose = func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		if c.Service.Labels["team"] == "" {
			return remedy.Plan{
				Finding: say.F("The annotation %s and the label %s are missing.", annotation, "team"),
				Ask:     say.F("Set the label %s to the team that owns the Service.", "team"),
			}, nil
		}
		return remedy.Plan{
			Finding: say.F("The annotation %s is missing, and the label %s is %s.", annotation, "team", "checkout"),
			Steps:   []remedy.Step{step.Annotate{Set: map[string]string{annotation: "checkout"}}},
		}, nil
	}
	return r
}

type world struct {
	testing.TB
	cluster *cluster.Cluster
	class   *remedy.Remedy
	key     hand.Key
	private ed25519.PrivateKey
	id      string       // of the cluster; empty: clusterID
	as      string       // user that the hand is in the cluster; empty: the tests'
	url     string       // of the hand
	headers http.Header  // of each call
	asked   atomic.Int64 // requests to the API server
	writes  atomic.Int64
}

func both(t *testing.T, test func(*testing.T, *world)) {
	for name, start := range map[string]func(*testing.T, *world, string){"go": startGo, "python": startPython} {
		t.Run(name, func(t *testing.T) {
			key, err := hand.NewKey()
			if err != nil {
				t.Fatal(err)
			}
			w := &world{TB: t, cluster: cluster.Join(t), class: declared(t), key: key}
			start(t, w, w.proxy(t))
			test(t, w)
		})
	}
}

func (w *world) proxy(t *testing.T) string {
	t.Helper()
	to, err := url.Parse(w.cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(w.cluster.Config)
	if w.as != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: w.as, Groups: []string{"system:authenticated"}}
	}
	through, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(to)
	p.Transport = through
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		if r.Method != http.MethodGet {
			w.writes.Add(1)
		}
		r.Host = to.Host
		r.Header.Del("Authorization") // the transport has the tests' credentials
		p.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func startGo(t *testing.T, w *world, apiServer string) {
	c, err := kube.New(&rest.Config{Host: apiServer})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := hand.ParsePublicKeys(w.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	r := inGo(t)
	account := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: clusterID}})
	caller := account.Client("hand", "*:*")
	read, write, err := cloud.New(cloud.Config{
		Region: account.Region(), ClusterID: clusterID, Endpoint: account.Addr(), Scheme: "HTTP",
		Credentials: func(context.Context) (cloud.Key, error) {
			return cloud.Key{ID: caller.AccessKeyID, Secret: caller.Secret, Token: caller.Token}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(read.Close)
	clients := &hand.Clients{Kube: c, KubeWriter: kube.NewWriter(c), Cloud: read, CloudWriter: write, Decode: step.Decode}
	served := &hand.Served{Hand: clients.Hand(r), Cluster: clusterID, Class: r.Class, Declares: r.Declaration().Digest(), Keys: keys}
	ready := func(ctx context.Context) error {
		_, err := c.Version(ctx)
		return err
	}
	server := httptest.NewServer((&serve.Endpoint{Hand: served, Ready: ready}).Handler())
	t.Cleanup(server.Close)
	w.url = server.URL
}

func startPython(t *testing.T, w *world, apiServer string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("the class in Python needs python3 on the PATH")
	}
	c := exec.Command(python, "-S", sample+"/hand.py") // without -S it would find more than the standard library
	c.Env = append(os.Environ(), "LBREMEDY_CLUSTER="+cmp.Or(w.id, clusterID), "LBREMEDY_ENGINE_KEYS="+w.key.Public(), "KUBE_URL="+apiServer, "PORT=0",
		"PYTHONDONTWRITEBYTECODE=1")
	w.run(t, c)
}

// run starts a hand until the test ends.
func (w *world) run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	w.url = strings.TrimSpace(line)
}

func (w *world) send(ctx context.Context, call []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(call))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(r.Header, w.headers)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return a.StatusCode, body, err
}

func (w *world) remote() (*hand.Remote, *[]byte) {
	last := new([]byte)
	c, err := kube.New(w.cluster.Config)
	if err != nil {
		w.Fatal(err)
	}
	return &hand.Remote{
		Class: w.class, Key: w.key, Decode: step.Decode, Known: chinese.Language().Has, Read: c.Service, Pause: func(time.Duration) {},
		Send: func(ctx context.Context, call []byte) ([]byte, error) {
			*last = call
			_, answer, err := w.send(ctx, call)
			w.fits(call, answer)
			if err != nil {
				err = errors.Join(err, hand.ErrUnsure)
			}
			return answer, err
		},
	}, last
}

func (w *world) fits(call, answer []byte) {
	w.Helper()
	name := map[string]string{"io.lbremedy.look.v1": "look", "io.lbremedy.apply.v1": "apply"}
	event := payload(w, call)
	of := name[event["type"].(string)]
	var said map[string]any
	if err := json.Unmarshal(answer, &said); err != nil {
		w.Errorf("the answer is not JSON: %v", err)
		return
	}
	for schema, value := range map[string]any{of: event["data"], "answer": said, of + "-answer": said["answer"]} {
		if value == nil {
			continue // of a rejected call
		}
		s, err := jsonschema.NewCompiler().Compile("../../shared/hand/schema/" + schema + ".v1.json")
		if err == nil {
			err = s.Validate(value)
		}
		if err != nil {
			w.Errorf("%s: %v", schema, err)
		}
	}
}

func (w *world) service() hand.About {
	w.Helper()
	ns := w.cluster.Namespace(w)
	svc, err := w.cluster.Client().CoreV1().Services(ns).Create(context.Background(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "checkout"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return hand.About{Class: w.class.Class, Case: "case-1", Attempt: 1, Service: svc, Now: time.Now(), Failure: event.Failure{
		Cluster: clusterID, Class: w.class.Class, Service: event.Service{Namespace: ns, Name: "web", UID: string(svc.UID)},
	}}
}

// TestReaches: a reachable hand answers without reading anything, and a hand of another cluster refuses.
func TestReaches(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		h, _ := w.remote()
		if err := h.Reaches(t.Context(), clusterID); err != nil {
			t.Error(err)
		}
		if err := h.Reaches(t.Context(), "c-2"); !errors.Is(err, hand.ErrDenied) {
			t.Errorf("from another cluster: %v", err)
		}
		if n := w.asked.Load(); n != 0 {
			t.Errorf("%d requests reached the API server", n)
		}
	})
}

func TestLife(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		h, _ := w.remote()
		about := w.service()
		look := func(q hand.LookRequest) hand.LookAnswer {
			t.Helper()
			q.About = about
			a, err := h.Look(t.Context(), q)
			if err != nil {
				t.Fatalf("look to %s: %v", q.For, err)
			}
			return a
		}
		apply := func(o hand.Order) hand.ApplyAnswer {
			t.Helper()
			o.About = about
			a, err := h.Apply(t.Context(), o)
			if err != nil {
				t.Fatalf("apply: %v", err)
			}
			if a.Service != nil && !o.Dry {
				about.Service = a.Service
			}
			return a
		}
		plan := look(hand.LookRequest{For: hand.Diagnose}).Plan
		if plan == nil || len(plan.Steps) != 1 || plan.Finding.String() != "The annotation example.com/owner is missing, and the label team is checkout." {
			t.Fatalf("the plan is %+v", plan)
		}
		steps := plan.Steps
		if a := look(hand.LookRequest{For: hand.Check, Steps: steps}); a.State != hand.Todo {
			t.Errorf("before the step it is %q", a.State)
		}
		if a := apply(hand.Order{Step: steps[0], Dry: true}); a.State != hand.Done || w.value(about) != "" {
			t.Errorf("a dry run ends as %q and leaves %q", a.State, w.value(about))
		}
		stale := about
		if a := apply(hand.Order{Step: steps[0]}); a.State != hand.Done || len(a.Calls) != 1 || w.value(about) != "checkout" {
			t.Errorf("the step ends as %q with %d calls and leaves %q", a.State, len(a.Calls), w.value(about))
		}
		if about.Service.Annotations["lbremedy.io/resync"] != "case-1.1" {
			t.Error("the step does not bear the mark of its attempt")
		}
		if a := apply(hand.Order{Step: steps[0]}); a.State != hand.Found || len(a.Calls) != 0 {
			t.Errorf("a step that is made ends as %q with %d calls", a.State, len(a.Calls))
		}
		if a, err := h.Apply(t.Context(), hand.Order{About: stale, Step: steps[0]}); !errors.Is(err, hand.ErrMoved) || a.State != hand.Todo {
			t.Errorf("a step on an older version ends as %q: %v", a.State, err)
		}
		for _, why := range []hand.Purpose{hand.Cause, hand.Prove} {
			if a := look(hand.LookRequest{For: why}); a.Verdict != remedy.No {
				t.Errorf("after the step %s answers %s", why, a.Verdict)
			}
		}
		if a := apply(hand.Order{Step: steps[0], Undo: true}); a.State != hand.Done || w.value(about) != "" {
			t.Errorf("the undo ends as %q and leaves %q", a.State, w.value(about))
		}
		about.Service.Annotations = map[string]string{annotation: "other"}
		if a := look(hand.LookRequest{For: hand.Check, Steps: steps}); a.State != hand.Moved {
			t.Errorf("a step whose target has another value is %q", a.State)
		}
	})
}

func (w *world) value(of hand.About) string {
	w.Helper()
	svc, err := w.cluster.Client().CoreV1().Services(of.Service.Namespace).Get(context.Background(), of.Service.Name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return svc.Annotations[annotation]
}

// TestHostileCallers: a call that is not the engine's, or not for this hand, or expired, reads and writes nothing.
func TestHostileCallers(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		h, last := w.remote()
		order := hand.Order{About: w.service(), Step: hand.Step{Kind: "annotate", Step: json.RawMessage(`{"set":{"example.com/owner":"checkout"}}`)}}
		if _, err := h.Apply(t.Context(), order); err != nil {
			t.Fatal(err)
		}
		good := *last
		der, _ := pemBytes(t, w.key)
		w.private = der
		event := payload(t, good)
		before := w.asked.Load()
		other, err := hand.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		otherPrivate, _ := pemBytes(t, other)
		soon, now := time.Now().Add(20*time.Second), time.Now()
		with := func(changes map[string]any) []byte {
			return w.sign(t, w.private, map[string]any{"kid": w.key.Public()}, event, changes)
		}
		fresh := func(more map[string]any) map[string]any {
			all := map[string]any{"id": fmt.Sprint("n", time.Now().UnixNano()), "expires": soon.UTC().Format(time.RFC3339Nano)}
			maps.Copy(all, more)
			return all
		}
		parts := strings.Split(string(with(fresh(nil))), ".")
		plain := base64.RawURLEncoding.EncodeToString
		for name, tt := range map[string]struct {
			call []byte
			kind error
		}{
			"nothing":                   {nil, hand.ErrInvalid},
			"JSON without a frame":      {[]byte(`{"specversion":"1.0"}`), hand.ErrInvalid},
			"10 MiB":                    {bytes.Repeat([]byte("a"), 10<<20), hand.ErrInvalid},
			"no signature":              {[]byte(parts[0] + "." + parts[1] + "."), hand.ErrDenied},
			"another's signature":       {w.sign(t, otherPrivate, map[string]any{"kid": w.key.Public()}, event, fresh(nil)), hand.ErrDenied},
			"an unknown key":            {w.sign(t, otherPrivate, map[string]any{"kid": other.Public()}, event, fresh(nil)), hand.ErrDenied},
			"no key ID":                 {w.sign(t, w.private, nil, event, fresh(nil)), hand.ErrDenied},
			"critical extensions":       {w.sign(t, w.private, map[string]any{"kid": w.key.Public(), "crit": []string{"exp"}}, event, fresh(nil)), hand.ErrDenied},
			"alg none":                  {[]byte(plain([]byte(`{"alg":"none","kid":"`+w.key.Public()+`"}`)) + "." + parts[1] + "."), hand.ErrDenied},
			"a symmetric key":           {hmac(t, w.key.Public(), parts[1]), hand.ErrDenied},
			"a payload of another call": {[]byte(parts[0] + "." + strings.Split(string(good), ".")[1] + "." + parts[2]), hand.ErrDenied},
			"it came before":            {good, hand.ErrUnsure},
			"another class":             {with(fresh(map[string]any{"subject": "quota"})), hand.ErrDenied},
			"another cluster":           {with(fresh(map[string]any{"source": "c-2"})), hand.ErrDenied},
			"expired":                   {with(fresh(map[string]any{"expires": now.Add(-time.Second).UTC().Format(time.RFC3339Nano)})), hand.ErrClock},
			"40 s ahead":                {with(fresh(map[string]any{"expires": now.Add(40 * time.Second).UTC().Format(time.RFC3339Nano)})), hand.ErrClock},
			"no expiry":                 {with(fresh(map[string]any{"expires": ""})), hand.ErrInvalid},
			"another declaration":       {with(fresh(map[string]any{"declares": "0123"})), hand.ErrOutdated},
		} {
			status, body, err := w.send(t.Context(), tt.call)
			var a hand.Answer
			if err == nil {
				err = json.Unmarshal(body, &a)
			}
			if name == "10 MiB" && err != nil {
				continue // the hand may close the connection
			}
			if err != nil || a.Problem == nil || !errors.Is(a.Problem, tt.kind) || status < 400 || a.ID != "" {
				t.Errorf("%s: %d %s (%v), want %v", name, status, body, err, tt.kind)
			}
		}
		if n := w.asked.Load() - before; n != 0 {
			t.Errorf("%d requests reached the API server", n)
		}
		began := time.Now()
		for range 30 { // these need no signature
			for path, method := range map[string]string{"readyz": http.MethodGet, "health/readiness": http.MethodGet, "initialize": http.MethodPost} {
				r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(w.url, "/")+"/"+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				a, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				a.Body.Close()
			}
		}
		if n, most := w.asked.Load()-before, 1+int64(time.Since(began)/(2*time.Second)); n > most {
			t.Errorf("%d requests reached the API server for 90 about readiness, want %d at most", n, most)
		}
		if status, body, err := w.send(t.Context(), with(fresh(nil))); err != nil || status != http.StatusOK {
			t.Errorf("the same call with a signature of now: %d %s (%v)", status, body, err)
		}
	})
}

// TestUndeclared: a hand refuses the engine's call of a step that the class does not declare.
func TestUndeclared(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		h, _ := w.remote()
		about := w.service()
		for _, text := range []string{`{"set":{"example.com/other":"yes"}}`, `{"set":{"example.com/owner":"checkout","example.com/other":"yes"}}`} {
			before := w.writes.Load()
			a, err := h.Apply(t.Context(), hand.Order{About: about, Step: hand.Step{Kind: "annotate", Step: json.RawMessage(text)}})
			if err == nil || a.State == hand.Done || w.writes.Load() != before {
				t.Errorf("%s ends as %q: %v", text, a.State, err)
			}
		}
	})
}

func pemBytes(t *testing.T, k hand.Key) (ed25519.PrivateKey, error) {
	t.Helper()
	parsed, err := jwt.ParseEdPrivateKeyFromPEM(k.PEM())
	if err != nil {
		t.Fatal(err)
	}
	return parsed.(ed25519.PrivateKey), nil
}

func payload(t testing.TB, call []byte) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(string(call), ".")[1])
	event := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func (w *world) sign(t *testing.T, key ed25519.PrivateKey, header, event, changes map[string]any) []byte {
	t.Helper()
	claims := jwt.MapClaims(maps.Clone(event))
	maps.Copy(claims, changes)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	maps.Copy(token.Header, header)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

func hmac(t *testing.T, public, body string) []byte {
	t.Helper()
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"` + public + `"}`))
	sum, err := jwt.SigningMethodHS256.Sign(head+"."+body, []byte(public))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(head + "." + body + "." + base64.RawURLEncoding.EncodeToString(sum))
}
