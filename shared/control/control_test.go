package control_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fresh(t testing.TB) *stream.Stream {
	t.Helper()
	s := nats.Connect(t, stream.Config{URL: nats.Start(t, embedded.Options{}).URL()})
	_, err := s.Setup(t.Context(), nil, stream.Settings{})
	must(t, err)
	return s
}

func TestUpdate(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	began := time.Now()
	must(t, control.Update(ctx, s, "c1", func(d *control.Doc, now time.Time) error {
		d.Breakers = map[string]control.Breaker{"quota": {Cluster: "c1", Class: "quota", At: now, Why: say.Literal("It is a test.")}}
		return nil
	}))
	kept := errors.New("not now")
	err := control.Update(ctx, s, "c1", func(d *control.Doc, _ time.Time) error {
		d.Breakers = nil
		return kept
	})
	if !errors.Is(err, kept) {
		t.Errorf("the error of a change is %v", err)
	}
	must(t, control.SetPause(ctx, s, control.Pause{Cluster: "c1", By: "ann"}, false))
	view, err := s.View(ctx, control.Keys("c1")...)
	must(t, err)
	b, p := control.BreakerIn(view, "c1", "quota"), control.PauseIn(view, "c1")
	if b == nil || b.Why.String() != "It is a test." || b.At.Before(began.Add(-time.Second)) || p == nil || p.By != "ann" {
		t.Errorf("the document holds %+v, %+v", b, p)
	}
	err = control.Update(ctx, s, "c1", func(d *control.Doc, _ time.Time) error {
		d.Breakers["quota"] = control.Breaker{Cluster: "c1", Class: "quota", Why: say.Literal(strings.Repeat("x", stream.MostDocument))}
		return nil
	})
	if !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("a huge document is stored: %v", err)
	}
	for _, cluster := range []string{"a.b", "*", ">", strings.Repeat("c", 65)} {
		if err := control.Update(ctx, s, cluster, func(*control.Doc, time.Time) error { return nil }); err == nil {
			t.Errorf("there is a document of a cluster %q", cluster)
		}
	}
}

// Any other value under the key pauses the cluster and opens its breakers, until a person resumes.
func TestUnreadable(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	must(t, control.SetPause(ctx, s, control.Pause{Cluster: "other", By: "ann"}, false))
	other, err := s.Get(ctx, control.Key("other"))
	must(t, err)
	for name, value := range map[string][]byte{
		"empty":             {},
		"no JSON":           []byte("{"),
		"null":              []byte("null"),
		"a list":            []byte("[]"),
		"another cluster's": other,
		"no version":        []byte(`{"key":"control.c1"}`),
		"newer":             []byte(`{"v":2,"key":"control.c1"}`),
		"unknown field":     []byte(`{"v":1,"key":"control.c1","resumed":true}`),
		"more behind it":    []byte(`{"v":1,"key":"control.c1"}{}`),
		"wrong type":        []byte(`{"v":1,"key":"control.c1","breakers":["tag-missing"]}`),
		"unknown pause":     []byte(`{"v":1,"key":"control.c1","pause":{"by":"ann","until":"now"}}`),
		"unknown breaker":   []byte(`{"v":1,"key":"control.c1","breakers":{"tag-missing":{"open":false}}}`),
		"no time":           []byte(`{"v":1,"key":"control.c1","failed":{"tag-missing":{"a.1":"soon"}}}`),
		"huge":              bytes.Repeat([]byte(" "), 1<<20-1<<10),
	} {
		t.Run(name, func(t *testing.T) {
			must(t, s.Put(ctx, control.Key("c1"), value))
			view, err := s.View(ctx, control.Keys("c1")...)
			must(t, err)
			if p := control.PauseIn(view, "c1"); p == nil {
				t.Error("the cluster is not paused")
			}
			if all, err := control.Breakers(ctx, s, "c1"); err != nil || len(all) != 1 || all[0].Class != control.AnyClass {
				t.Errorf("the open breakers are %v, %v", all, err)
			}
			if _, err := control.CloseBreaker(ctx, s, "c1", "any"); !errors.Is(err, control.ErrUnreadable) {
				t.Errorf("to close a breaker says %v", err)
			}
			if err := control.Update(ctx, s, "c1", func(*control.Doc, time.Time) error { return nil }); !errors.Is(err, control.ErrUnreadable) {
				t.Errorf("a change says %v", err)
			}
			must(t, control.SetPause(ctx, s, control.Pause{Cluster: "c1", By: "ann"}, false)) // it is paused
			if was, err := control.Resume(ctx, s, "c1"); err != nil || was == nil || was.By != "somebody" {
				t.Errorf("resume ends %v, %v", was, err)
			}
			if p, err := control.Paused(ctx, s, "c1"); err != nil || p != nil {
				t.Errorf("after resume there is %v, %v", p, err)
			}
		})
	}
	must(t, s.Put(ctx, control.Key("c1"), []byte(`{"v":1,"key":"control.c1","pause":{"cluster":"c2","by":""},"breakers":{"tag-missing":{}}}`)))
	view, err := s.View(ctx, control.Keys("c1")...)
	must(t, err)
	if p := control.PauseIn(view, "c1"); p == nil || p.Cluster != "c1" {
		t.Errorf("a pause of nobody is %+v", p)
	}
	if b := control.BreakerIn(view, "c1", "tag-missing"); b == nil || b.Cluster != "c1" || b.Class != "tag-missing" {
		t.Errorf("a breaker that says nothing is %+v", b)
	}
	if b := control.BreakerIn(view, "c1", "other"); b != nil {
		t.Errorf("another one is %+v", b)
	}
	must(t, s.Put(ctx, control.Key(""), []byte(`{"v":1,"key":"control.c1"}`)))
	if p, err := control.Paused(ctx, s, "c1"); err != nil || p == nil {
		t.Errorf("an unreadable document of all clusters does not pause: %v", err)
	}
}
