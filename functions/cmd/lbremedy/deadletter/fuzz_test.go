package deadletter_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/deadletter"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/operator"
)

// FuzzLetter shows an arbitrary message of DEAD, and determines where it could be sent.
func FuzzLetter(f *testing.F) {
	f.Add("lbremedy.failed.c1.tag-missing.22222222-2222-2222-2222-222222222222", "r", "", []byte("{}"))
	f.Add("exporter.c1", "r", "", []byte(`{"metadata":{"name":"x"},"involvedObject":{"kind":"Service"}}`))
	f.Add("exporter.", "\x1b[2J", "9999999999999999999", []byte{0xff})
	f.Add("", "", "-1", []byte{})
	f.Fuzz(func(t *testing.T, origin, reason, cut string, data []byte) {
		var out strings.Builder
		p := operator.Call{}.Program(&out, io.Discard)
		l := deadletter.NewLetter(stream.Message{Sequence: 1, Data: data, Header: map[string][]string{
			stream.HeaderOrigin: {origin}, stream.HeaderReason: {reason}, stream.HeaderCut: {cut}, "ce-id": {origin},
		}})
		deadletter.ListLetters(p, []deadletter.Letter{l})
		if strings.ContainsAny(out.String(), "\x1b\x00\x07") {
			t.Errorf("it printed %q", out.String())
		}
		if deadletter.Refusal(new(cli.Program), l) == nil {
			if !strings.HasPrefix(origin, "lbremedy.failed.c") || strings.ContainsAny(origin, " *>\x1b") {
				t.Errorf("it would be sent to %q", origin)
			}
		}
	})
}
