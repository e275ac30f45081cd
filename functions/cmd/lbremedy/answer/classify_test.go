package answer_test

import (
	stdcmp "cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/corpus"
	"github.com/lbremedy/lbremedy/test/operator"
)

const klog = `E0301 08:00:12.123456       1 service_controller.go:229] service-controller `

const pasted = `Name:         web
Namespace:    shop
Type:         LoadBalancer
Events:
  Type     Reason                  Age               From                Message
  ----     ------                  ----              ----                -------
  Normal   EnsuringLoadBalancer    3m (x2 over 9m)   service-controller  Ensuring load balancer
  Warning  SyncLoadBalancerFailed  3m (x2 over 9m)   service-controller  ` + operator.Message + `

Error: [ERROR] terraform-provider-alicloud/alicloud/resource_alicloud_db_instance.go:1: Resource x CreateDBInstance Failed!!! [SDK x ERROR]:
SDK.ServerError
ErrorCode: Throttling.User
RequestId: 1
Message: Request was denied due to user flow control.

` + klog + `"msg"="x" "error"="[SDKError] API: DescribeLoadBalancers, ErrorCode: Throttling.User, Message: new text" "service"="shop/api"
`

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
		{"message", "", []string{operator.Message, "-o", "json"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"message"}` + "\n"},
		{"JSON lines", lines, []string{"-", "-o", "json"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"fields"}
{"class":"ignored","matched":"","kind":"fields"}
{"class":"unclassified","matched":"","kind":"fields"}
`},
		{"JSON lines with a byte order mark, and keys in other letters",
			"\ufeff" + `{"reason":"Pulled","REASON":"","message":"` + operator.Message + `","Message":"x"}`, []string{"-", "-o", "json"},
			`{"class":"ignored","matched":"","kind":"fields"}
`},
		{"plain lines", operator.Message + "\r\n\n{not json}\n" + operator.Message, []string{"-o", "json", "-"},
			`{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"message"}
{"class":"ignored","matched":"","kind":"message"}
{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"message"}
`},
		{"nothing", "", []string{"-o", "json"}, ""},
		{"table", "", []string{operator.Message, "failed"}, "vswitch-ip-exhausted          message           VSwitch has no available ip\n" +
			"ignored                       message           failed\n"},
		{"a terminal is safe", "", []string{"a\x1b[2Jb\x1b]0;c"}, "ignored                       message           ab ]0;c\n"},
		{"a paste with several failures", pasted, []string{"-"}, "" +
			"ignored                       kubectl-describe  shop/web: Ensuring load balancer\n" +
			"vswitch-ip-exhausted          kubectl-describe  shop/web: VSwitch has no available ip\n" +
			"ignored                       terraform         ErrorCode: Throttling.User, Message: Request was denied due to user flow control.\n" +
			"throttling                    log               shop/api: Throttling*\n"},
		{"JSON lines among others", strings.Join([]string{
			`{"message":7}`, `{"a":"b"}`, "{not json", `{"message":"` + operator.Message + `"}`, "{", operator.Message,
		}, "\n"), []string{"-", "-o", "json"}, `{"class":"ignored","matched":"","kind":"fields"}
{"class":"ignored","matched":"","kind":"fields"}
{"class":"ignored","matched":"","kind":"message"}
{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"fields"}
{"class":"ignored","matched":"","kind":"message"}
{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"message"}
`},
		{"the same answers are counted", "failed\n" + operator.Message + "\nfailed again\n" + operator.Message, []string{"-"}, "" +
			"ignored                       message           2x failed\n" +
			"vswitch-ip-exhausted          message           2x VSwitch has no available ip\n"},
		{"or printed each", "failed\n" + operator.Message + "\nfailed again\n" + operator.Message, []string{"-", "-v"}, "" +
			"ignored                       message           failed\n" +
			"vswitch-ip-exhausted          message           VSwitch has no available ip\n" +
			"ignored                       message           failed again\n" +
			"vswitch-ip-exhausted          message           VSwitch has no available ip\n"},
		{"a question", "", []string{"503 during rollout", "-o", "json"}, `{"class":"ignored","matched":"","kind":"message","check":"draining"}` + "\n"},
		{"an array of objects, and one over several lines",
			`[{"message":"x"},` + "\n" + `{"message":"` + operator.Message + `"}]` + "\n{\n \"message\": \"y\"\n}\n", []string{"-o", "json"},
			`{"class":"ignored","matched":"","kind":"fields"}
{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip","kind":"fields"}
{"class":"ignored","matched":"","kind":"fields"}
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := operator.Call{In: tt.in, Env: operator.Home(t)}.Run(t.Context(), append([]string{"classify"}, tt.args...)...)
			if !slices.Contains(tt.args, "json") {
				got.Err = ""
			}
			if diff := cmp.Diff(operator.Said{Code: 0, Out: tt.want, Err: ""}, got, cmp.AllowUnexported(operator.Said{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("what comes next", func(t *testing.T) {
		const unknown = `{"component":"service-controller","reason":"SyncLoadBalancerFailed","type":"Warning",` +
			`"message":"Error syncing load balancer []: nobody knows this"}`
		for in, want := range map[string]string{
			pasted: "To see what would be done about vswitch-ip-exhausted: lbremedy plan shop/web\n" +
				"To see what would be done about throttling: lbremedy plan shop/api\n",
			operator.Message: "To list the cases of vswitch-ip-exhausted: lbremedy ls --class vswitch-ip-exhausted\n",
			unknown: "No class covers a failed sync. The controller's log has its error code and request ID. " +
				"Look up the code, or submit a ticket to Alibaba Cloud with both.\n",
			"failed":                           "",
			"滚动发布时 503":                        "Requests fail during rollouts, scaling or node changes: lbremedy doctor --checks draining --severity info\n",
			"kubectl annotate service web a=b": "It is a command, and not what a command printed.\n",
			`{"text":"x"}`:                     "It has none of the keys that are read: message, Message, EventMessage, msg, reason, Reason, EventReason.\n",
			`{"kind":"Event","apiVersion":"v1","type":"Warning","source":{"component":"service-controller"},"reason":"SyncLoadBalancerFailed",` +
				`"involvedObject":{"kind":"Service","namespace":"shop","name":"$(reboot)"},"message":"` + operator.Message + `"}`: "To list the cases of " +
				"vswitch-ip-exhausted: lbremedy ls --class vswitch-ip-exhausted\n",
		} {
			if got := (operator.Call{In: in, Env: operator.Home(t)}).Run(t.Context(), "classify"); got.Code != 0 || got.Err != want {
				t.Errorf("of %s: code %d, said %q, want %q", in, got.Code, got.Err, want)
			}
		}
	})
	t.Run("a secret never comes back", func(t *testing.T) {
		const key, id = "kQ7SecretSecretSecret", "Tq0Example01234567"
		for _, text := range []string{
			"Post \"https://slb.aliyuncs.com/?AccessKeyId=LTAI" + id + "&Signature=" + key + "%3D\": EOF",
			"E0301 08:00:12.123456 1 a.go:1] \"x\" err=\"Post https://slb.aliyuncs.com/?Signature=" + key + "\"",
			"access_key = \"LTAI" + id + "\"\nsecret_key = \"" + key + "\"",
			"-----BEGIN RSA PRIVATE KEY-----\n" + key + "\n" + id + "\n-----END RSA PRIVATE KEY-----",
			"    client-key-data: " + key,
			`{"reason":"` + "password=" + key + `","message":"token=` + key + `"}`,
			`{"kind":"Event","involvedObject":{"kind":"Service","name":"password=` + key + `"},"reason":"x","message":"LTAI` + id + `"}`,
			`{"kind":"secret=` + key + `","apiVersion":"v1"}`,
			"Warning SyncLoadBalancerFailed 3m service-controller secret=" + key,
			"SDKError:\n   StatusCode: 400\n   Code: X\n   Message: code: 400, https://a/?SecurityToken=" + key + " request id: 1\n",
			"aliyun configure set --access-key-id LTAI" + id + " --access-key-secret " + key,
		} {
			for _, form := range []string{"", "json", "yaml"} {
				got := operator.Call{In: text, Env: operator.Home(t)}.Run(t.Context(), "classify", "--explain", "-o", stdcmp.Or(form, "table"), "-")
				if said := got.Out + got.Err; got.Code != 0 || strings.Contains(said, key) || strings.Contains(said, id) {
					t.Errorf("%s: code %d, said %s", text, got.Code, said)
				}
			}
		}
	})
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
