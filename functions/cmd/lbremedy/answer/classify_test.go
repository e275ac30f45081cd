package answer_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/corpus"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestClassify(t *testing.T) {
	lines := strings.Join([]string{
		`{"reason":"SyncLoadBalancerFailed","type":"Warning","component":"service-controller","message":"` + operator.Message + `","more":1}`,
		``,
		`{"message":null}`,
		`{"component":"service-controller","reason":"SyncLoadBalancerFailed","type":"Warning","message":"Error syncing load balancer []: nobody knows this"}`,
	}, "\n")
	tests := []struct {
		name string
		in   string
		args []string
		want string
	}{
		{"message", "", []string{operator.Message, "-o", "json"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}` + "\n"},
		{"JSON lines", lines, []string{"-", "-o", "json"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}
{"class":"ignored","matched":""}
{"class":"unclassified","matched":""}
`},
		{"JSON lines with a byte order mark, and keys in other letters",
			"\ufeff" + `{"reason":"Pulled","REASON":"","message":"` + operator.Message + `","Message":"x"}`, []string{"-", "-o", "json"},
			`{"class":"ignored","matched":""}
`},
		{"plain lines", operator.Message + "\r\n\n{not json}\n" + operator.Message, []string{"-o", "json", "-"},
			`{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}
{"class":"ignored","matched":""}
{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}
`},
		{"nothing", "", []string{"-o", "json"}, ""},
		{"table", "", []string{operator.Message, "failed"}, "vswitch-ip-exhausted          VSwitch has no available ip\nignored                       failed\n"},
		{"a terminal is safe", "", []string{"a\x1b[2Jb"}, "ignored                       a [2Jb\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := operator.Call{In: tt.in, Env: operator.Home(t)}.Run(t.Context(), append([]string{"classify"}, tt.args...)...)
			if diff := cmp.Diff(operator.Said{Code: 0, Out: tt.want, Err: ""}, got, cmp.AllowUnexported(operator.Said{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("explain", func(t *testing.T) {
		got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), "classify", "--explain", "-o", "json", operator.Message)
		var keys map[string]string
		if err := json.Unmarshal([]byte(got.Out), &keys); err != nil {
			t.Fatal(err)
		}
		if _, ok := keys["runnerUp"]; !ok || keys["why"] == "" {
			t.Errorf("got %v, want runnerUp and why", keys)
		}
	})
	t.Run("corpus", func(t *testing.T) {
		for _, file := range corpus.Files(t) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), "classify", "-o", "json", file)
			asked, answers := strings.Count(string(data), "\n"), strings.Count(got.Out, "\n")
			if got.Code != 0 || asked != answers {
				t.Errorf("%s: code %d, %d answers to %d messages: %s", file, got.Code, answers, asked, got.Err)
			}
		}
	})
}
