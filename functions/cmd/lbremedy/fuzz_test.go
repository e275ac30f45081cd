package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// FuzzReadFile reads anything as a file with failures. What can't be one is a mistake
// of the caller, in words of the file.
func FuzzReadFile(f *testing.F) {
	ev := `{"kind":"Event","metadata":{"namespace":"shop","name":"web.1","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"7"},"involvedObject":{"kind":"Service","namespace":"shop","name":"web","uid":"22222222-2222-2222-2222-222222222222"},"reason":"SyncLoadBalancerFailed","type":"Warning","message":"` + full + `","source":{"component":"service-controller"}}`
	for _, s := range []string{ev, ev[:90], "[" + ev + "]", ev + ev, `{"kind":"List","items":[` + ev + `,null]}`, "kind: Event\n---\nkind: Pod\n", "null", "[[[]]]", "1", "a: &a [*a]", `{"specversion":"1.0"}`, "--- \r\n"} {
		f.Add(s)
	}
	by := event.NewClassifier(table.Table())
	f.Fuzz(func(t *testing.T, text string) {
		p := &program{in: strings.NewReader(text), out: io.Discard, err: io.Discard, now: time.Now, getenv: func(string) string { return "" }, terminal: func(any) int { return 0 }}
		p.cluster = "c1"
		list, err := p.readFile("-")
		var m command.Mistake
		if err != nil && !errors.As(err, &m) {
			t.Errorf("%q: %v is no mistake of the caller", text, err)
		}
		if err == nil && len(list) == 0 {
			t.Errorf("%q is a file with failures and holds none", text)
		}
		for _, it := range list {
			if it.remedy == nil || it.event.ID == "" {
				t.Errorf("%q: %+v", text, it)
			}
		}
		if in, err := object([]byte(text)); err == nil {
			by.Classify(in)
		}
	})
}

// FuzzLetter reads anything that may lie in DEAD, shows it, and looks where it could be sent.
func FuzzLetter(f *testing.F) {
	f.Add("lbremedy.failed.c1.tag-missing.22222222-2222-2222-2222-222222222222", "r", "", []byte("{}"))
	f.Add("exporter.c1", "r", "", []byte(`{"metadata":{"name":"x"},"involvedObject":{"kind":"Service"}}`))
	f.Add("exporter.", "\x1b[2J", "9999999999999999999", []byte{0xff})
	f.Add("", "", "-1", []byte{})
	f.Fuzz(func(t *testing.T, origin, reason, cut string, data []byte) {
		var out strings.Builder
		p := &program{out: &out, err: io.Discard, now: time.Now, getenv: func(string) string { return "" }, terminal: func(any) int { return 0 }}
		l := newLetter(stream.Message{Sequence: 1, Data: data, Header: map[string][]string{
			stream.HeaderOrigin: {origin}, stream.HeaderReason: {reason}, stream.HeaderCut: {cut}, "ce-id": {origin},
		}})
		p.listLetters([]letter{l})
		p.showLetter(l.whole())
		if strings.ContainsAny(out.String(), "\x1b\x00\x07") {
			t.Errorf("it printed %q", out.String())
		}
		if subject, _, _, err := p.revived(l); err == nil {
			if _, _, _, err := event.ParseFailedSubject(subject); err != nil {
				t.Errorf("it would be sent to %q: %v", subject, err)
			}
		}
	})
}
