package answer_test

import (
	"errors"
	"io"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// FuzzReadFile reads anything as a file with failures. What can't be one is a mistake
// of the caller, in words of the file.
func FuzzReadFile(f *testing.F) {
	ev := `{"kind":"Event","metadata":{"namespace":"shop","name":"web.1","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"7"},` +
		`"involvedObject":{"kind":"Service","namespace":"shop","name":"web","uid":"22222222-2222-2222-2222-222222222222"},"reason":"SyncLoadBalancerFailed",` +
		`"type":"Warning","message":"` + operator.Message + `","source":{"component":"service-controller"}}`
	for _, s := range []string{ev, ev[:90], "[" + ev + "]", ev + ev, `{"kind":"List","items":[` + ev + `,null]}`, "kind: Event\n---\nkind: Pod\n", "null",
		"[[[]]]", "1", "a: &a [*a]", `{"specversion":"1.0"}`, "--- \r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := operator.Call{In: text}.Program(io.Discard, io.Discard)
		p.Cluster = "c1"
		list, err := answer.ReadFile(p, "-")
		if err != nil && !errors.As(err, new(command.Mistake)) {
			t.Errorf("%q: %v is no mistake of the caller", text, err)
		}
		if err == nil && len(list) == 0 {
			t.Errorf("%q is a file with failures and holds none", text)
		}
		for _, it := range list {
			if it.Remedy == nil || it.Event.ID == "" {
				t.Errorf("%q: %+v", text, it)
			}
		}
	})
}
