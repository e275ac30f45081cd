package hand_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

func class(diagnose func(context.Context, *remedy.Case) (remedy.Plan, error)) *remedy.Remedy {
	return &remedy.Remedy{
		Class: "fake", Doc: "# Fake", Steps: []remedy.Step{step.Annotate{}, step.ClearStatus{}}, Annotations: []string{"vswitch-id"}, Diagnose: diagnose,
	}
}

func about() hand.About {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name, svc.UID = "shop", "web", "3f9a12bc-0000-4000-8000-000000000001"
	return hand.About{Class: "fake", Case: "3f9a12bc-1", Attempt: 1, Service: svc, Now: time.Now(), Failure: event.Failure{
		Cluster: "c-1", Class: "fake", Service: event.Service{Namespace: "shop", Name: "web", UID: string(svc.UID)},
	}}
}

func local(r *remedy.Remedy) hand.Hand { return (&hand.Clients{Decode: step.Decode}).Hand(r) }

func known(t *testing.T) *kube.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[{"metadata":{"name":%q},`+
			`"spec":{"template":{"spec":{"containers":[{"name":%[1]q,"image":"%[1]s:%s"}]}}}}]}`, ccm.DaemonSet, ccm.Newest())
	}))
	t.Cleanup(server.Close)
	c, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func data(t *testing.T, s remedy.Step) hand.Step {
	t.Helper()
	list, err := hand.Steps([]remedy.Step{s})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func TestErrors(t *testing.T) {
	kinds := []error{hand.ErrDenied, hand.ErrThrottled, hand.ErrNotFound, hand.ErrMoved, hand.ErrBlocked, hand.ErrUnavailable, hand.ErrUnsure, hand.ErrInvalid}
	for _, tt := range []struct {
		cause, kind error
		late        bool
	}{
		{kube.ErrDenied, hand.ErrDenied, false},
		{cloud.ErrDenied, hand.ErrDenied, false},
		{cloud.ErrThrottled, hand.ErrThrottled, false},
		{errors.Join(cloud.ErrThrottled, context.DeadlineExceeded), hand.ErrThrottled, true},
		{kube.ErrNotFound, hand.ErrNotFound, false},
		{cloud.ErrNotFound, hand.ErrNotFound, false},
		{kube.ErrConflict, hand.ErrMoved, false},
		{remedy.ErrMoved, hand.ErrMoved, false},
		{cloud.ErrConflict, hand.ErrBlocked, false},
		{kube.ErrUnavailable, hand.ErrUnavailable, false},
		{kube.ErrGone, hand.ErrUnavailable, false},
		{cloud.ErrUnavailable, hand.ErrUnavailable, false},
		{kube.ErrNoDryRun, hand.ErrUnsure, false},
		{kube.ErrInvalid, hand.ErrInvalid, false},
		{remedy.ErrUndeclared, hand.ErrInvalid, false},
		{context.DeadlineExceeded, nil, true},
		{errors.New("something else"), nil, false},
	} {
		r := class(func(context.Context, *remedy.Case) (remedy.Plan, error) {
			return remedy.Plan{}, fmt.Errorf("read it: %w", tt.cause)
		})
		_, err := local(r).Look(t.Context(), hand.LookRequest{About: about(), For: hand.Diagnose})
		problem, ok := errors.AsType[*hand.Error](err)
		if !ok || !errors.Is(err, tt.cause) {
			t.Fatalf("%v: the error is %v", tt.cause, err)
		}
		wire, err := json.Marshal(problem)
		if err != nil {
			t.Fatal(err)
		}
		var read hand.Error
		if err := json.Unmarshal(wire, &read); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*hand.Error{problem, &read} {
			for _, kind := range kinds {
				if got := errors.Is(fmt.Errorf("wrapped: %w", e), kind); got != (kind == tt.kind) {
					t.Errorf("%s: it is of kind %v: %t", wire, kind, got)
				}
			}
			if hand.Late(fmt.Errorf("wrapped: %w", e)) != tt.late || !strings.Contains(e.Error(), "read it: ") {
				t.Errorf("%s: late is %t, and it says %q", wire, hand.Late(e), e)
			}
		}
	}
}

// A hand refuses a call for another class and a step that its class does not declare, that can't be undone or that is unknown.
func TestRefuses(t *testing.T) {
	asked := false
	r := class(func(context.Context, *remedy.Case) (remedy.Plan, error) { asked = true; return remedy.Plan{}, nil })
	h := local(r)
	other, none := about(), about()
	other.Class, none.Service = "other", nil
	annotate := data(t, step.Annotate{Set: map[string]string{"example.com/a": "b"}})
	for name, call := range map[string]func() error{
		"a look for another class": func() error {
			_, err := h.Look(t.Context(), hand.LookRequest{About: other, For: hand.Diagnose})
			return err
		},
		"a look at no Service": func() error {
			_, err := h.Look(t.Context(), hand.LookRequest{About: none, For: hand.Diagnose})
			return err
		},
		"a look for nothing": func() error { _, err := h.Look(t.Context(), hand.LookRequest{About: about()}); return err },
		"a check of no step": func() error {
			_, err := h.Look(t.Context(), hand.LookRequest{About: about(), For: hand.Check})
			return err
		},
		"a look at a step of others": func() error {
			_, err := h.Look(t.Context(), hand.LookRequest{About: about(), For: hand.Backup, Steps: []hand.Step{data(t, step.Resync{})}})
			return err
		},
		"an order for another class": func() error {
			_, err := h.Apply(t.Context(), hand.Order{About: other, Step: annotate})
			return err
		},
		"a step of another class": func() error {
			_, err := h.Apply(t.Context(), hand.Order{About: about(), Step: data(t, step.Resync{})})
			return err
		},
		"a key of another class": func() error {
			_, err := h.Apply(t.Context(), hand.Order{About: about(), Step: annotate})
			return err
		},
		"the undo of a step without one": func() error {
			_, err := h.Apply(t.Context(), hand.Order{About: about(), Step: data(t, step.ClearStatus{}), Undo: true})
			return err
		},
	} {
		if err := call(); !errors.Is(err, hand.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if asked {
		t.Error("the class was asked")
	}
}

func TestPlan(t *testing.T) {
	set := step.Annotate{Set: map[string]string{ccm.Prefix + "vswitch-id": "vsw-b"}, Was: map[string]string{ccm.Prefix + "vswitch-id": "vsw-a"}}
	clear := step.ClearStatus{Was: []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}}
	made := remedy.Plan{
		Finding: say.F("%s is full, %d of %d.", "vsw-a", 3, 4), Cause: "vsw-a", Risk: remedy.Medium, Steps: []remedy.Step{clear}, Ask: say.F("Look."),
		Note: say.F("%s.", say.F("It is so")), Claims: []remedy.Claim{{Key: "vswitch.vsw-b", Of: 4}}, Patience: time.Hour, Proven: true,
	}
	with := hand.Clients{Decode: step.Decode, Kube: known(t)}
	h := with.Hand(class(func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		if !c.Full("vswitch.vsw-b") || c.Idle != time.Minute || c.Cluster != "c-1" || c.Mark() != "3f9a12bc-1.1" {
			t.Errorf("the case is %+v", c)
		}
		return made, nil
	}))
	a, err := h.Look(t.Context(), hand.LookRequest{About: about(), For: hand.Diagnose, Idle: time.Minute, Held: []string{"vswitch.vsw-b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &hand.Plan{Plan: made, Steps: []hand.Step{data(t, clear)}}
	want.Plan.Steps, want.Proven = nil, false
	wire, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var read hand.LookAnswer
	if err := json.Unmarshal(wire, &read); err != nil {
		t.Fatal(err)
	}
	for _, got := range []hand.LookAnswer{a, read} {
		if diff := cmp.Diff(want, got.Plan); diff != "" || got.Verdict != remedy.Yes {
			t.Errorf("verdict %s (-want +got):\n%s", got.Verdict, diff)
		}
	}
	at := about()
	at.Service.Annotations = map[string]string{ccm.Prefix + "vswitch-id": "vsw-b"}
	for undo, want := range map[bool]hand.State{false: hand.Found, true: hand.Todo} {
		a, err := h.Look(t.Context(), hand.LookRequest{About: at, For: hand.Check, Steps: []hand.Step{data(t, set)}, Undo: undo})
		if err != nil || a.State != want {
			t.Errorf("undo %t: it is %s, %v", undo, a.State, err)
		}
	}
	at.Service.Annotations[ccm.Prefix+"vswitch-id"] = "vsw-c"
	o, err := h.Apply(t.Context(), hand.Order{About: at, Step: data(t, set)})
	if err != nil || o.State != hand.Moved || !strings.Contains(o.Differs, `"vsw-c"`) || o.Calls != nil || o.Service != nil {
		t.Errorf("an order for what has moved: %+v, %v", o, err)
	}
}

func TestPanic(t *testing.T) {
	_, err := local(class(func(context.Context, *remedy.Case) (remedy.Plan, error) { panic("oh") })).
		Look(t.Context(), hand.LookRequest{About: about(), For: hand.Diagnose})
	if err == nil || !strings.Contains(err.Error(), "class fake panicked: oh") {
		t.Errorf("got %v", err)
	}
}

// A refusal as expired that takes long may be the answer to a second delivery, after the first one was carried out.
func TestLateRefusal(t *testing.T) {
	for took, want := range map[time.Duration]hand.State{time.Second: "", 26 * time.Second: hand.Lost} {
		now := time.Now()
		h := lying(t, func(string) []byte {
			now = now.Add(took)
			return encode(t, hand.Answer{Problem: &hand.Error{Kind: hand.ErrClock.Error(), Text: "expired"}})
		})
		h.Now = func() time.Time { return now }
		a, err := h.Apply(t.Context(), hand.Order{About: about(), Step: data(t, step.ClearStatus{})})
		if a.State != want || errors.Is(err, hand.ErrUnsure) != (want == hand.Lost) {
			t.Errorf("after %s the state is %q, the error %v", took, a.State, err)
		}
	}
}
