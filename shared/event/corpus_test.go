package event_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/test/corpus"
)

func input(r corpus.Row) event.Input {
	return event.Input{Reason: r.Reason, Type: r.Type, Component: r.Component, Message: r.Message}
}

func TestCorpus(t *testing.T) {
	c := event.NewClassifier(table.Table())
	rows := map[string]int{}
	for _, l := range corpus.Rows(t) {
		rows[l.Want]++
		if got := c.Classify(input(l)); got.Class != l.Want {
			t.Errorf("%s %q by %q:\n%s\ngot %+v, want %s", l.Type, l.Reason, l.Component, l.Message, got, l.Want)
		}
	}
	for _, r := range table.Table() {
		if rows[r.Class] < 10 {
			t.Errorf("%s has %d rows in the corpus; give it 10", r.Class, rows[r.Class])
		}
	}
	if n := rows[event.Ignored] + rows[event.Unclassified]; n < 100 {
		t.Errorf("%d negatives are in the corpus; give it 100", n)
	}
}

func TestCorpusRedacted(t *testing.T) {
	c := event.NewClassifier(table.Table())
	for _, l := range corpus.Rows(t) {
		in := input(l)
		in.Message = event.Cut(event.Redact(in.Message + " at https://a.aliyuncs.com/?AccessKeyId=LTAI5tExample0123&Signature=x%3D"))
		l.Message += " at https://a.aliyuncs.com/?x"
		if got, want := c.Classify(in), c.Classify(input(l)); got.Class != want.Class {
			t.Errorf("%s\ngot %+v, without a secret in it %+v", in.Message, got, want)
		}
	}
}

// The address of a signed call contains the controller's key ID, token and signature.
func TestCorpusHasNoSecretLeft(t *testing.T) {
	secret := regexp.MustCompile(`(?:AccessKeyId|SecurityToken|Signature)=([^&"\s]{3,})`)
	const uid = "3f9a12bc-0000-4000-8000-000000000000"
	found := 0
	for _, l := range corpus.Rows(t) {
		f := event.Failure{
			Cluster: "c1", Class: "busy", Reason: "SyncLoadBalancerFailed", Message: l.Message, Service: event.Service{Namespace: "shop", Name: "web", UID: uid},
			Event: event.Reference{UID: uid, ResourceVersion: "1"}, Count: 1, First: time.Now(), Last: time.Now(),
		}
		for _, m := range secret.FindAllStringSubmatch(l.Message, -1) {
			if m[1] == "***" {
				continue
			}
			found++
			published, err := event.NewFailed(f)
			if err != nil {
				t.Fatal(err)
			}
			if data := string(published.Data()); strings.Contains(data, m[1]) {
				t.Errorf("%q stands in %s", m[1], data)
			}
		}
	}
	if found < 50 {
		t.Errorf("%d secrets are in the corpus; give it those of the controller's addresses", found)
	}
}

func TestClassifyAtOnce(t *testing.T) {
	c := event.NewClassifier(table.Table())
	rows := corpus.Rows(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, l := range rows {
				if got := c.Classify(input(l)); got.Class != l.Want {
					t.Errorf("%s: got %s, want %s", l.Message, got.Class, l.Want)
				}
			}
		})
	}
	wg.Wait()
}

// A message made to be slow, or full of searched texts, does not take long.
func TestClassifyIsBounded(t *testing.T) {
	c := event.NewClassifier(table.Table())
	messages := event.Hostile()
	for _, r := range table.Table() {
		for _, text := range r.Texts {
			messages = append(messages, strings.Repeat(text+" ", 8192/len(text)))
		}
	}
	for _, message := range messages {
		if took, ok := event.Within(200*time.Millisecond, func() { event.Redact(message) }); !ok {
			t.Errorf("%.40q… took %v to redact", message, took)
		}
		in := event.Input{Reason: "SyncLoadBalancerFailed", Component: "service-controller", Message: message}
		if took, ok := event.Within(time.Millisecond, func() { c.Classify(in) }); !ok {
			t.Errorf("%.40q… took %v, more than 1 ms", message, took)
		}
	}
}

func FuzzClassify(f *testing.F) {
	c := event.NewClassifier(table.Table())
	known := map[string]bool{event.Unclassified: true, event.Ignored: true}
	for _, r := range table.Table() {
		known[r.Class] = true
	}
	for i, l := range corpus.Rows(f) {
		if i%10 == 0 {
			f.Add(l.Reason, l.Component, l.Message)
		}
	}
	f.Fuzz(func(t *testing.T, reason, component, message string) {
		in := event.Input{Reason: reason, Component: component, Message: message}
		var got event.Match
		if took, ok := event.Within(time.Millisecond, func() { got = c.Classify(in) }); !ok {
			t.Errorf("took %v, more than 1 ms", took)
		}
		if !known[got.Class] || got.Why == "" || got.RunnerUp == got.Class {
			t.Errorf("got %+v", got)
		}
		if (got.By == "") != (got.Matched == "") || (got.By == "") != (got.Class == event.Unclassified || got.Class == event.Ignored) {
			t.Errorf("got %+v", got)
		}
		in.Message = event.Cut(message)
		if cut := c.Classify(in); cut != got {
			t.Errorf("got %+v, and %+v of the cut message", got, cut)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	c := event.NewClassifier(table.Table())
	rows := corpus.Rows(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Classify(input(rows[i%len(rows)]))
		i++
	}
}

// The vendor's pages name failures by the code alone. A code among other words can mean anything.
func TestBareCode(t *testing.T) {
	c := event.NewClassifier(table.Table())
	for message, want := range map[string]string{
		"Throttling":                        "throttling",
		"Throttling.User":                   "throttling",
		"Throttlingxxx":                     "throttling",
		"RspoolVipExist":                    "vserver-group-in-use",
		"ORDER.ARREARAGE.":                  "arrearage",
		"RspoolVipExist Message: new words": "vserver-group-in-use",
		"Error syncing load balancer []: Throttling.Other":                        "throttling",
		"Error syncing load balancer [lb-1]: ORDER.ARREARAGE":                     "arrearage",
		"Status Code: 400 Code: Throttlingxxx":                                    "throttling",
		"Aliyun API Error":                                                        event.Unclassified,
		"Aliyun API Error: RequestId: 1 Status Code: 400 Code: Odd Message: new.": event.Unclassified,
		"Throttling requests":                                                     event.Ignored,
		"request of RspoolVipExist":                                               event.Ignored,
		"Error syncing load balancer []: no Throttling.User":                      event.Unclassified,
	} {
		if got := c.Classify(event.Input{Message: message}); got.Class != want {
			t.Errorf("%s: got %+v, want %s", message, got, want)
		}
	}
}
