package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

const long = 30 * time.Second

func TestVerify(t *testing.T) {
	t.Parallel()
	annotated := func(short, value string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Annotations[ccm.Prefix+short] = value }
	}
	for _, tt := range []struct {
		name  string
		edit  func(*corev1.Service)
		after func(*rig) // happens right after the write
		want  event.Result
		note  string
	}{
		{name: "a new hash, its address", after: func(r *rig) { r.sync("h2", "192.168.0.9") }, want: event.Fixed},
		{name: "nothing happens", after: func(*rig) {}, want: event.Waiting},
		{name: "the hash of before", edit: fixture.Labels(map[string]string{ccm.HashLabel: "h1"}),
			after: func(r *rig) { r.sync("h1", "192.168.0.9") }, want: event.Waiting},
		{name: "no address", after: func(r *rig) { r.patch("status", `{"metadata":{"labels":{"`+ccm.HashLabel+`":"h2"}}}`) }, want: event.Waiting},
		{name: "not the load balancer's address", after: func(r *rig) { r.sync("h2", "192.168.0.8") }, want: event.Waiting},
		{name: "no such load balancer", after: func(r *rig) { r.cloud.DropLoadBalancer(r.lb); r.sync("h2", "192.168.0.9") }, want: event.Waiting},
		{name: "an EIP's address", edit: annotated("external-ip-type", "eip"), after: func(r *rig) { r.sync("h2", "8.8.8.8") }, want: event.Fixed},
		{name: "a host name", edit: annotated("hostname", "web.example.com"), after: func(r *rig) { r.sync("h2", "8.8.8.8") }, want: event.Fixed},
		{name: "an NLB", edit: func(svc *corev1.Service) {
			nlb := ccm.NLBClass
			svc.Spec.LoadBalancerClass = &nlb
		}, after: func(r *rig) { r.sync("h2", "8.8.8.8") }, want: event.Fixed},
		{name: "the cause still stands", after: func(r *rig) {
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
			r.sync("h2", "192.168.0.9")
		}, want: event.Waiting},
		{name: "whether the cause stands can't be told", after: func(r *rig) {
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, nil }
			r.sync("h2", "192.168.0.9")
		}, want: event.Waiting},
		{name: "somebody else changed an annotation", after: func(r *rig) { r.patch("", `{"metadata":{"annotations":{"a/b":"c"}}}`) },
			want: event.Waiting, note: "Somebody changed the Service"},
		{name: "somebody else changed the spec", after: func(r *rig) { r.patch("", `{"spec":{"sessionAffinity":"ClientIP"}}`) },
			want: event.Waiting, note: "Somebody changed the Service"},
		{name: "deleted", after: func(r *rig) { r.remove() }, want: event.Gone, note: "deleted"},
		{name: "being deleted", edit: finalizer("example.com/f"), after: func(r *rig) { r.remove() }, want: event.Gone, note: "deleted"},
		{name: "replaced", after: func(r *rig) { r.replace() }, want: event.Gone, note: "Another one has its name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			edit := tt.edit
			if edit == nil {
				edit = func(*corev1.Service) {}
			}
			r := build(t, edit)
			r.on("after 1", func(context.Context) error { tt.after(r); return nil })
			if tt.want != event.Waiting || tt.note != "" {
				r.env.Watch = long
			} else {
				r.env.Watch = time.Second
			}
			rec := r.ends(tt.want)
			if !strings.Contains(rec.Note.String(), tt.note) {
				t.Errorf("the note is %q, want it to say %q", rec.Note, tt.note)
			}
			if tt.want == event.Waiting && tt.note == "" && !rec.Done() {
				t.Error("it forgot its plan")
			}
		})
	}
}

// The record of a fix says how long the controller took to sync, by the times of the API server, unless the hash is of another state.
func TestSyncDelay(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Watch = long
	r.on("after 1", func(ctx context.Context) error {
		svc, err := r.clients.Kube.Service(ctx, r.svc.Namespace, r.svc.Name)
		if err != nil {
			return err
		}
		hash, _ := ccm.Hash(svc, ccm.Version{Major: 2, Minor: 14})
		r.sync(hash, "192.168.0.9")
		return nil
	})
	if got := r.ends(event.Fixed).Timings.Sync; got < time.Second || got > time.Minute {
		t.Errorf("the delay is %s", got)
	}
	foreign := build(t)
	foreign.env.Watch = long
	foreign.on("after 1", foreign.syncs)
	if got := foreign.ends(event.Fixed).Timings.Sync; got != 0 {
		t.Errorf("the delay of a sync of another state is %s", got)
	}
}

func TestStepSeen(t *testing.T) {
	t.Parallel()
	r := build(t, func(*corev1.Service) {})
	r.env.Watch = long
	ctx, cancel := context.WithCancel(t.Context())
	var followed sync.WaitGroup
	defer followed.Wait()
	defer cancel()
	followed.Go(func() {
		r.env.Stream.Tail(ctx, stream.Cases, event.CaseFilter(r.env.Cluster, string(r.svc.UID)), 0, func(m stream.Message) error {
			if rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data); err == nil && rec.Phase == event.Step {
				r.sync("h2", "192.168.0.9")
			}
			return nil
		})
	})
	r.ends(event.Fixed)
}

// A fix counts as fixed only if each port has a running listener, otherwise as synced with the reason.
func TestTraffic(t *testing.T) {
	t.Parallel()
	listener := func(r *rig, status string) {
		r.cloud.Edit(func(st *sim.State) {
			lb := st.LoadBalancers[r.lb]
			if lb.Listeners[0].Status = status; status == "" {
				lb.Listeners = nil
			}
		})
	}
	refuse := func(r *rig, status int, code string) (heal func()) {
		return r.cloud.Fault(sim.Fault{Product: "slb", Action: "DescribeLoadBalancerListeners", Caller: "fake", Status: status, Code: code})
	}
	for _, tt := range []struct {
		name   string
		before func(*rig) (after func()) // after comes once the fix is looked at
		looks  bool                      // it is looked at again
		want   event.Result
		note   string
	}{
		{name: "no listener", before: func(r *rig) func() { listener(r, ""); return nil }, want: event.Synced, note: "there is no listener tcp:80"},
		{name: "a stopped one", before: func(r *rig) func() { listener(r, "stopped"); return nil }, want: event.Synced, note: "listener tcp:80 is stopped"},
		{name: "one that starts", before: func(r *rig) func() {
			listener(r, "starting")
			return func() { listener(r, "running") }
		}, looks: true, want: event.Fixed},
		{name: "one that starts for ever", before: func(r *rig) func() {
			listener(r, "starting")
			return func() { r.advance(8 * time.Minute) }
		}, looks: true, want: event.Synced, note: "listener tcp:80 is starting"},
		{name: "no right to read it", before: func(r *rig) func() { refuse(r, 403, "NoPermission"); return nil }, want: event.Synced,
			note: "DescribeLoadBalancerListeners"},
		{name: "no answer", before: func(r *rig) func() { return refuse(r, 400, "Odd") }, looks: true, want: event.Fixed},
		{name: "no answer for long", before: func(r *rig) func() {
			refuse(r, 400, "Odd")
			return func() { r.advance(8 * time.Minute) }
		}, looks: true, want: event.Synced, note: "could not be checked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.env.Watch = long
			r.on("after 1", r.syncs)
			after := tt.before(r)
			if tt.looks {
				if rec := r.ends(event.Waiting); rec.Reason != event.ForSync || !rec.Done() || len(rec.Note) > 0 {
					t.Errorf("it waits for %q with the note %q", rec.Reason, rec.Note)
				}
				after()
			}
			if rec := r.ends(tt.want); !strings.Contains(rec.Note.String(), tt.note) || (tt.note == "") != (len(rec.Note) == 0) {
				t.Errorf("the note is %q, want it to say %q", rec.Note, tt.note)
			}
			r.ends(tt.want)
			r.event.ID = "older"
			r.ends(tt.want)
			r.wrote(1)
		})
	}
}

func TestSignComesLate(t *testing.T) {
	t.Parallel()
	r := build(t)
	rec := r.ends(event.Waiting)
	if rec.Wait != 10*time.Second {
		t.Errorf("waits %s", rec.Wait)
	}
	for range 2 {
		r.advance(ccm.Retry/2 + 15*time.Second)
		r.ends(event.Waiting)
	}
	r.sync("h2", "192.168.0.9")
	r.env.Watch = long
	r.ends(event.Fixed)
	r.wrote(1)
}

// A proof for which the watch leaves no time is not an error: it is looked for again.
func TestNoTimeToProve(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.on("after 1", r.syncs)
	r.once("still fails after", func(context.Context) error { return errors.Join(cloud.ErrThrottled, context.DeadlineExceeded) })
	if rec := r.ends(event.Waiting); rec.Reason != event.ForSync {
		t.Errorf("it waits for %q", rec.Reason)
	}
	r.env.Watch = long
	r.ends(event.Fixed)
	r.wrote(1)
}

// Without any sign an attempt has not worked: after 7 minutes for a CLB, 10 for an NLB.
func TestNoSign(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit time.Duration
		edit  func(*corev1.Service)
	}{
		{"CLB", 7 * time.Minute, func(*corev1.Service) {}},
		{"NLB", 10 * time.Minute, func(svc *corev1.Service) { c := ccm.NLBClass; svc.Spec.LoadBalancerClass = &c }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t, tt.edit)
			r.ends(event.Waiting)
			r.advance(tt.limit - 30*time.Second)
			r.ends(event.Waiting)
			r.advance(31 * time.Second)
			rec := r.ends(event.Unsettled)
			if !strings.Contains(rec.Note.String(), "There is no sign") || rec.Wait <= 0 {
				t.Errorf("the note is %q, it waits %s", rec.Note, rec.Wait)
			}
			r.wrote(1)
		})
	}
}

func TestFailuresAfterWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		class string
		after time.Duration // of the write
		holds remedy.Verdict
		want  event.Result
		note  string
	}{
		{"the same, an echo of before", class, 20 * time.Second, remedy.No, event.Waiting, ""},
		{"the same again", class, 40 * time.Second, remedy.No, event.Unsettled, "came back"},
		{"another one", "other", 2 * time.Second, remedy.No, event.Superseded, "another reason: other."},
		{"another one, and the cause stands", "other", 2 * time.Second, remedy.Yes, event.Waiting, ""},
		{"another one of before", "other", -5 * time.Second, remedy.No, event.Waiting, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.once("after 1", func(context.Context) error {
				r.publish(r.failure(tt.class, r.now().Add(tt.after)))
				r.class.StillFails = func(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
					if c.Service == nil {
						t.Error("the class is asked without a Service")
					}
					return tt.holds, nil
				}
				return nil
			})
			rec := r.ends(tt.want)
			if !strings.Contains(rec.Note.String(), tt.note) {
				t.Errorf("the note is %q, want %q", rec.Note, tt.note)
			}
		})
	}
}

// The failure that a plan answers did not come back: the writer's clock is behind the one that dates failures.
func TestFailureBeforeWriteBehind(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.advance(-2 * time.Minute)
	r.event = r.failure(class, time.Now().Add(-20*time.Second))
	r.publish(r.event)
	r.ends(event.Waiting)
	r.advance(time.Minute)
	r.ends(event.Waiting)
	r.publish(r.failure(class, time.Now().Add(20*time.Second))) // it is a new one now
	r.advance(time.Minute)
	if rec := r.ends(event.Unsettled); !strings.Contains(rec.Note.String(), "came back") {
		t.Errorf("the note is %q", rec.Note)
	}
	r.wrote(1)
}

// A run that takes the proof over and doesn't see the Service in its time still asks the class about it.
func TestHoldsWithoutWatch(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.ends(event.Waiting)
	r.publish(r.failure("other", r.now().Add(5*time.Second)))
	r.env.Watch = time.Nanosecond
	rec := r.ends(event.Superseded)
	if rec.Error != "" {
		t.Error(rec.Error)
	}
}

func TestUnsettledThrice(t *testing.T) {
	t.Parallel()
	r := build(t)
	for n := 1; n <= 3; n++ {
		rec := r.ends(event.Waiting)
		if !rec.Done() {
			t.Fatalf("attempt %d wrote nothing", n)
		}
		r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`)
		r.steps[0] = act{Name: "1", Annotate: set(key, "old", "old")} // changes nothing but the mark
		r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
		if n == 1 {
			r.ends(event.Waiting) // changed by somebody
			continue
		}
		r.advance(8 * time.Minute)
		want := event.Unsettled
		if n == 3 {
			want = event.Failed
		}
		rec = r.ends(want)
		if n == 3 && len(rec.Ask) == 0 {
			t.Error("it asks nothing")
		}
	}
}

// A failure that is over after a write was fixed, even if the proof got lost.
func TestGoneAfterWriteIsFixed(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	r.ends(event.Unsettled)
	r.sync("h2", "192.168.0.9")
	r.ends(event.Fixed)
	r.wrote(1)
}

func TestCleanUp(t *testing.T) {
	t.Parallel()
	leaving := func(r *rig) { r.class.Deleting = true; r.remove() }
	release := func(r *rig) { r.patch("", `{"metadata":{"finalizers":null}}`) }
	for name, before := range map[string]func(*rig){
		"seen": func(r *rig) { r.on("after 1", func(context.Context) error { release(r); return nil }) },
		"another one": func(r *rig) {
			r.on("after 1", func(context.Context) error { r.patch("", `{"metadata":{"finalizers":["example.com/f"]}}`); return nil })
		},
		"by the next": func(r *rig) {
			r.env.Watch = 200 * time.Millisecond
			r.ends(event.Waiting)
			release(r)
		},
		"type changed": func(*rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t, finalizer(ccm.CLBFinalizer), finalizer("example.com/f"))
			r.env.Watch = long
			if name == "type changed" {
				r.class.Deleting = true
				r.patch("", `{"spec":{"type":"ClusterIP"}}`)
				r.on("after 1", func(context.Context) error { release(r); return nil })
			} else {
				leaving(r)
			}
			before(r)
			r.ends(event.Fixed)
			r.wrote(1)
		})
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	synced := func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.0.9"}}
	}
	told := func(r *rig, edit func(*corev1.Event)) {
		at := metav1.NewTime(r.event.Failure.Last.Add(time.Second))
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: r.svc.Namespace, Name: "web.ok"},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: r.svc.Namespace, Name: "web", UID: r.svc.UID},
			Reason:         "EnsuredLoadBalancer", Type: "Normal", LastTimestamp: at, Source: corev1.EventSource{Component: "service-controller"},
		}
		edit(e)
		_, err := r.kube.Client().CoreV1().Events(r.svc.Namespace).Create(r.Context(), e, metav1.CreateOptions{})
		r.must(err)
	}
	for _, tt := range []struct {
		name   string
		edit   func(*corev1.Service)
		before func(*rig)
		want   event.Result
		says   string
	}{
		{name: "the hash, written by the controller", edit: synced, before: func(r *rig) { r.sync("h1", "192.168.0.9") }, want: event.Gone, says: "hash label"},
		{name: "the hash, in the second of the failure", edit: synced, before: func(r *rig) {
			r.sync("h1", "192.168.0.9")
			for _, f := range r.live().ManagedFields {
				if f.Subresource == "status" {
					r.event = r.failure(class, f.Time.Time)
				}
			}
		}, want: event.Waiting},
		{name: "the hash, sent along by a person", edit: synced, before: func(r *rig) { r.patch("", `{"metadata":{"labels":{"`+ccm.HashLabel+`":"h1"}}}`) },
			want: event.Waiting},
		{name: "an event", edit: synced, before: func(r *rig) { told(r, func(*corev1.Event) {}) }, want: event.Gone, says: "EnsuredLoadBalancer"},
		{name: "an event of nlb-controller", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) { e.Source.Component = "nlb-controller" })
		}, want: event.Gone, says: "EnsuredLoadBalancer"},
		{name: "an event of my-operator", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) { e.Source.Component = "my-operator" })
		}, want: event.Waiting},
		{name: "an event of my-operator, by its other name", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) {
				e.Source.Component, e.ReportingController, e.ReportingInstance = "", "my-operator", "i"
			})
		}, want: event.Waiting},
		{name: "an event of nobody", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) { e.Source.Component = "" })
		}, want: event.Waiting},
		{name: "an event, for a class that sees the failure", edit: synced, before: func(r *rig) {
			r.class.IgnoresEvent = true
			told(r, func(*corev1.Event) {})
		}, want: event.Waiting},
		{name: "an event, in the second of the failure", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(r.event.Failure.Last) })
		}, want: event.Waiting},
		{name: "an event of a day to come", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(time.Now().AddDate(70, 0, 0)) })
		}, want: event.Waiting},
		{name: "an event of another reason", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) { e.Reason = "EnsuringLoadBalancer" })
		}, want: event.Waiting},
		{name: "an event by its time", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) {
				e.EventTime, e.LastTimestamp = metav1.NewMicroTime(e.LastTimestamp.Time), metav1.Time{}
				e.Source.Component, e.ReportingController, e.ReportingInstance, e.Action = "", "service-controller", "i", "a"
			})
		}, want: event.Gone, says: "EnsuredLoadBalancer"},
		{name: "an event of a series", edit: synced, before: func(r *rig) {
			told(r, func(e *corev1.Event) {
				e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(e.LastTimestamp.Time)}
				e.LastTimestamp = metav1.NewTime(r.event.Failure.Last.Add(-time.Hour))
				e.EventTime = metav1.NewMicroTime(e.LastTimestamp.Time)
				e.Source.Component, e.ReportingController, e.ReportingInstance, e.Action = "", "service-controller", "i", "a"
			})
		}, want: event.Gone, says: "EnsuredLoadBalancer"},
		{name: "the cause is gone", before: func(r *rig) { r.patch("", `{"metadata":{"annotations":{"`+key+`":"other"}}}`) }, want: event.Gone,
			says: "cause of the failure is gone"},
		{name: "unknown", before: func(r *rig) {
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, nil }
		}, want: event.Waiting, says: "could not be determined"},
		{name: "deleted", before: func(r *rig) { r.remove() }, want: event.Gone, says: "no longer exists"},
		{name: "being deleted", edit: finalizer(ccm.CLBFinalizer), before: func(r *rig) { r.remove() }, want: event.Gone, says: "being deleted"},
		{name: "being deleted, for a class that answers", edit: finalizer(ccm.CLBFinalizer), before: func(r *rig) { r.class.Deleting = true; r.remove() },
			want: event.Waiting},
		{name: "being deleted, and the controller has let go", edit: finalizer("example.com/f"), before: func(r *rig) { r.class.Deleting = true; r.remove() },
			want: event.Gone, says: "cleaned up"},
		{name: "another of its name", before: func(r *rig) { r.event.Failure.Service.UID = "00000000-0000-0000-0000-000000000000" }, want: event.Gone,
			says: "Another one has its name"},
		{name: "another type", before: func(r *rig) { r.patch("", `{"spec":{"type":"ClusterIP"}}`) }, want: event.Gone, says: "ClusterIP"},
		{name: "another type, not cleaned up", edit: finalizer(ccm.CLBFinalizer), before: func(r *rig) { r.patch("", `{"spec":{"type":"NodePort"}}`) },
			want: event.Gone, says: "NodePort"},
		{name: "another type, not cleaned up, for a class that answers", edit: finalizer(ccm.NLBFinalizer), before: func(r *rig) {
			r.class.Deleting = true
			r.patch("", `{"spec":{"type":"NodePort"}}`)
		}, want: event.Waiting},
		{name: "a newer failure of another class", before: func(r *rig) { r.publish(r.failure("other", r.event.Failure.Last.Add(2*time.Second))) },
			want: event.Superseded, says: "other"},
		{name: "a newer failure of another class, for a class that sees its own", before: func(r *rig) {
			r.class.IgnoresEvent = true
			r.publish(r.failure("other", r.event.Failure.Last.Add(2*time.Second)))
		}, want: event.Waiting},
		{name: "an older failure of another class", before: func(r *rig) { r.publish(r.failure("other", r.event.Failure.Last.Add(-2*time.Second))) },
			want: event.Waiting},
		{name: "newer news of another class that is no failure", before: func(r *rig) {
			ev := r.failure("other", r.event.Failure.Last.Add(2*time.Second))
			ev.Failure.Type = "Normal"
			r.publish(ev)
		}, want: event.Waiting},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			edit := tt.edit
			if edit == nil {
				edit = func(*corev1.Service) {}
			}
			r := build(t, edit)
			tt.before(r)
			patched := r.patches.Load()
			rec := r.ends(tt.want)
			if !strings.Contains(rec.Finding.String(), tt.says) {
				t.Errorf("finds %q, want it to say %q", rec.Finding, tt.says)
			}
			if wrote := r.patches.Load() > patched; wrote != (tt.want == event.Waiting && tt.says == "") {
				t.Errorf("wrote: %t", wrote)
			}
			if tt.want != event.Gone || tt.name == "another of its name" {
				return
			}
			look, err := engine.Look(t.Context(), r.env, r.class, r.event)
			if err != nil || look.Result != event.Gone || look.Finding.String() != rec.Finding.String() {
				t.Errorf("a look ends as %q: %s, %v", look.Result, look.Finding, err)
			}
		})
	}
}

func TestGoneBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		after func(*rig)
	}{
		{"deleted", func(r *rig) { r.remove() }},
		{"replaced", func(r *rig) { r.replace() }},
		{"being deleted", func(r *rig) { r.patch("", `{"metadata":{"finalizers":["example.com/f"]}}`); r.remove() }},
	} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, parked), func(t *testing.T) {
				t.Parallel()
				r := build(t)
				r.steps = []remedy.Step{
					act{Name: "1", Annotate: set("example.com/a", "1", "0")},
					act{Name: "2", Annotate: set(key, "new", "old")},
				}
				r.on("after 1", func(context.Context) error {
					if parked {
						r.setPolicy(remedy.Policy{})
					} else {
						tt.after(r)
					}
					return nil
				})
				if parked {
					r.ends(event.Waiting)
					tt.after(r)
					r.setPolicy(remedy.Policy{Mode: remedy.Fix})
					r.advance(time.Minute)
				}
				if rec := r.ends(event.Gone); len(rec.Note) == 0 {
					t.Error("the record doesn't say that the plan is not done")
				}
				r.wrote(1)
			})
		}
	}
}
