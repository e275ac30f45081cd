package paste_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/paste"
	"github.com/lbremedy/lbremedy/shared/event"
)

const own = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."

const inSink = `{"reason":"SyncLoadBalancerFailed","type":"Warning","message":"` + own +
	`","involvedObject":{"kind":"Service","namespace":"shop","name":"web"},"source":{"component":"service-controller"}}`

func quoted(s string) string { return strconv.Quote(s) }

func texts(t testing.TB, text string) []paste.Text {
	t.Helper()
	var all []paste.Text
	r := paste.NewReader(func(found paste.Text) error { all = append(all, found); return nil })
	for line := range strings.SplitSeq(text, "\n") {
		if err := r.Line(line); err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return all
}

func TestReader(t *testing.T) {
	sync := event.Input{Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: own}
	for _, tt := range []struct {
		name, text string
		want       []paste.Text
	}{
		{"nothing", " \n\n", nil},
		{"messages in one line", own + " " + own, []paste.Text{
			{Kind: paste.Message, Input: event.Input{Message: own + " "}}, {Kind: paste.Message, Input: event.Input{Message: own}}}},
		{"a described Service", "Name: web\nNamespace: shop\nType: LoadBalancer\nEvents:\n" +
			"  Type     Reason                  Age               From                Message\n" +
			"  ----     ------                  ----              ----                -------\n" +
			"  Warning  SyncLoadBalancerFailed  3m (x2 over 9m)   service-controller  " + own,
			[]paste.Text{{Kind: paste.Describe, Service: "shop/web", Input: sync}}},
		{"a described Service without Events", "Name: web\nNamespace: shop\nEvents: <none>",
			[]paste.Text{{Kind: paste.Describe, Service: "shop/web", Why: "It shows no Events."}}},
		{"a row that lost its columns", "3m Warning SyncLoadBalancerFailed service/web " + own,
			[]paste.Text{{Kind: paste.Table, Service: "web", Input: event.Input{Reason: sync.Reason, Type: sync.Type, Message: own}}}},
		{"a row about a Pod", "3m Warning Failed pod/web-0 The account is arrearage.",
			[]paste.Text{{Kind: paste.Table, Input: event.Input{Reason: "Failed", Type: "Warning", Message: "The account is arrearage."},
				Why: "The Event is about a pod and not about a Service."}}},
		{"a row about a node", "3m Warning CreateRouteFailed node/node-2 Error creating route entry in vtb-1: Message: Forbidden.",
			[]paste.Text{{Kind: paste.Table, Input: event.Input{Reason: "CreateRouteFailed", Type: "Warning",
				Message: "Error creating route entry in vtb-1: Message: Forbidden."}}}},
		{"an Event in a list", `{"kind":"List","items":[null,{"kind":"Event","reason":"SyncLoadBalancerFailed","type":"Warning","message":"` + own +
			`","involvedObject":{"kind":"Service","namespace":"shop","name":"web"},"source":{"component":"service-controller"}}]}`,
			[]paste.Text{{Kind: paste.Event, Service: "shop/web", Input: sync}}},
		{"no Event", "apiVersion: v1\nkind: Service\nmetadata: {name: web}", []paste.Text{{Kind: paste.Object, Why: "It is a Service and no Event."}}},
		{"an object that breaks off", own + "\n{\n \"kind\": \"Event\",\n \"message\": \"" + own + "\",", []paste.Text{
			{Kind: paste.Message, Input: event.Input{Message: own}}, {Kind: paste.Message, Input: event.Input{Message: "{"}},
			{Kind: paste.Message, Input: event.Input{Message: ` "kind": "Event",`}}, {Kind: paste.Message, Input: event.Input{Message: ` "message": "` + own + `",`}}}},
		{"klog of the controller", `E0301 08:00:12.123456       1 a.go:1] service-controller "msg"="x" "error"="a \"b\"" "service"="shop/web"`,
			[]paste.Text{{Kind: paste.Log, Service: "shop/web", Input: event.Input{Component: "service-controller", Message: `a "b"`}}}},
		{"klog of anybody", `E0301 08:00:12.123456       1 a.go:1] "x" err="The account is arrearage."`,
			[]paste.Text{{Kind: paste.Log, Input: event.Input{Message: "a.go:1: The account is arrearage."}}}},
		{"klog of the controller without an error", `E0301 08:00:12.123456       1 a.go:1] service-controller "msg"="a b" "error"=null`,
			[]paste.Text{{Kind: paste.Log, Input: event.Input{Component: "service-controller", Message: "a b"}}}},
		{"klog of a failed sync", `E0301 08:00:12.123456       1 a.go:1] service-controller "msg"="reconcile loadbalancer failed" "error"="a b"`,
			[]paste.Text{{Kind: paste.Log, Input: event.Input{Reason: "SyncLoadBalancerFailed", Component: "service-controller", Message: "a b"}}}},
		{"klog of no error", `I0301 08:00:12.123456       1 a.go:1] try to find loadbalancer by tag [{"TagKey":"kubernetes.do.not.delete"}]`,
			[]paste.Text{{Kind: paste.Log, Input: event.Input{Message: `try to find loadbalancer by tag [{"TagKey":"kubernetes.do.not.delete"}]`},
				Why: "The line of the log tells of no error."}}},
		{"an SDK's error in a log of anybody", `E0301 08:00:12.123456       1 a.go:1] "x" err="SDK.ServerError\nErrorCode: Xy\nMessage: y"`,
			[]paste.Text{{Kind: paste.Log, Input: event.Input{Message: "ErrorCode: Xy, Message: y"},
				Why: "Nothing shows that the line is of the log of Alibaba Cloud's controller."}}},
		{"an SDK's error over some lines", "SDK.ServerError\nErrorCode: Xy\nRequestId: 1\nMessage: y\nnext", []paste.Text{
			{Kind: paste.SDK, Input: event.Input{Message: "ErrorCode: Xy, Message: y"}}, {Kind: paste.Message, Input: event.Input{Message: "next"}}}},
		{"an error of another product", "$ aliyun rds DescribeRegions\nERROR: SDK.ServerError\nErrorCode: Xy\nMessage: y", []paste.Text{
			{Kind: paste.CLI, Input: event.Input{Message: "ErrorCode: Xy, Message: y"}, Why: "The error is of the product rds, and not of a load balancer."}}},
		{"an error of a server", "$ aliyun ecs RunInstances\nERROR: SDK.ServerError\nErrorCode: Xy\nMessage: y", []paste.Text{
			{Kind: paste.CLI, Input: event.Input{Message: "ErrorCode: Xy, Message: y"}, Why: "The error is of the product ecs, and not of a load balancer."}}},
		{"an error of what the controller reads", "$ aliyun ecs DescribeNetworkInterfaces\nERROR: SDK.ServerError\nErrorCode: Xy\nMessage: y",
			[]paste.Text{{Kind: paste.CLI, Input: event.Input{Message: "ErrorCode: Xy, Message: y"}}}},
		{"klog of an error in words of its own", "E0301 08:00:12.123456       1 a.go:1] sync x=y: [SDKError] API: CreateLoadBalancer, ErrorCode: Xy, Message: y",
			[]paste.Text{{Kind: paste.Log, Input: event.Input{Message: "[SDKError] API: CreateLoadBalancer, ErrorCode: Xy, Message: y"}}}},
		{"a CloudEvent", `{"specversion":"1.0","data":{"reason":"SyncLoadBalancerFailed","type":"Warning","component":"service-controller","message":"` + own +
			`","service":{"namespace":"shop","name":"web"}}}`, []paste.Text{{Kind: paste.Cloud, Service: "shop/web", Input: sync}}},
		{"an Event of EventBridge", `{"specversion":"1.0","type":"cs:k8s:ServiceRelatedEvent","source":"acs.cs","data":` + inSink + `}`,
			[]paste.Text{{Kind: paste.Event, Service: "shop/web", Input: sync}}},
		{"an Event of kube-eventer in Kafka", `{"EventValue":` + quoted(inSink) + `,"EventTags":{}}`,
			[]paste.Text{{Kind: paste.Event, Service: "shop/web", Input: sync}}},
		{"an Event of kube-eventer in SLS", `{"level":"Warning","eventId":` + quoted(inSink) + `}`,
			[]paste.Text{{Kind: paste.Event, Service: "shop/web", Input: sync}}},
		{"an Event of eventrouter", `{"verb":"ADDED","event":` + inSink + `}`, []paste.Text{{Kind: paste.Event, Service: "shop/web", Input: sync}}},
		{"an Event of OpenTelemetry", `{"severity":"Warn","body":{"object":` + inSink + `,"type":"ADDED"}}`,
			[]paste.Text{{Kind: paste.Event, Service: "shop/web", Input: sync}}},
		{"an Event of kube-eventer's webhook", `{"EventType":"Warning","EventKind":"Service","EventReason":"SyncLoadBalancerFailed","EventMessage":"` + own + `"}`,
			[]paste.Text{{Kind: paste.Fields, Input: event.Input{Reason: sync.Reason, Type: sync.Type, Message: own}}}},
		{"an Event of kube-eventer about a Pod", `{"EventType":"Warning","EventKind":"Pod","EventReason":"Failed","EventMessage":"` + own + `"}`,
			[]paste.Text{{Kind: paste.Fields, Input: event.Input{Reason: "Failed", Type: "Warning", Message: own},
				Why: "The Event is about a Pod and not about a Service."}}},
		{"an Event of kube-eventer in a chat", `{"msgtype":"text","text":{"content":"Level:Warning \nKind:Service \nNamespace:shop \nName:web \n` +
			`Reason:SyncLoadBalancerFailed \nTimestamp:2026-03-01 \nMessage:` + own + `"}}`,
			[]paste.Text{{Kind: paste.Fields, Service: "shop/web", Input: event.Input{Reason: sync.Reason, Type: sync.Type, Message: own}}}},
		{"a printed Go error", `&common.Error{ErrorResponse:common.ErrorResponse{Response:common.Response{RequestId:"1"}, HostId:"slb.aliyuncs.com", ` +
			`Code:"VSwitchNotExist", Message:"y"}, StatusCode:404}`,
			[]paste.Text{{Kind: paste.SDK, Input: event.Input{Message: "ErrorCode: VSwitchNotExist, Message: y"}}}},
		{"rows that a terminal has broken", "Name: web\nNamespace: shop\nEvents:\n" +
			"  Type     Reason                  Age               From                Message\n" +
			"  ----     ------                  ----              ----                -------\n" +
			"  Warning  SyncLoadBalancerFailed  3m (x2 over 9m)   service-controller  Error synci\n" +
			"ng load balancer []: Message: The specified VSwitch has no available ip.\n" +
			"  Warning  SyncLoadBalancerFailed  3m (x2 over 9m)   service-controller  Error syncing load\n" +
			"balancer []: Message: The specified VSwitch has no\navailable ip.\n\nother",
			[]paste.Text{{Kind: paste.Describe, Service: "shop/web", Or: own, Input: event.Input{Reason: sync.Reason, Type: sync.Type, Component: sync.Component,
				Message: strings.Replace(own, "syncing", "synci ng", 1)}},
				{Kind: paste.Describe, Service: "shop/web", Input: sync, Or: "Error syncing loadbalancer []: Message: The specified VSwitch has noavailable ip."},
				{Kind: paste.Message, Input: event.Input{Message: "other"}}}},
		{"an annotation", "    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id: lb-1", []paste.Text{{Kind: paste.Message,
			Input: event.Input{Message: "    service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id: lb-1"},
			Why:   "It is an annotation. To check a manifest: lbremedy doctor -f FILE"}}},
		{"a command", "$ kubectl annotate service web a=b", []paste.Text{{Kind: paste.Message, Input: event.Input{Message: "$ kubectl annotate service web a=b"},
			Why: "It is a command, and not what a command printed."}}},
		{"a CloudEvent of something else", `{"specversion":"1.0","data":7}`, []paste.Text{{Kind: paste.Cloud, Why: "It is not a failure that lbremedy publishes."}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, texts(t, tt.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The stream and the exporter only use the classifier: an Event whose message is such a text, a log, a tool's error or a table is ignored.
func TestNotFromTheStream(t *testing.T) {
	by := classifier()
	for _, file := range []string{"testdata/heldout.txtar", "testdata/pastes.txtar"} {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			text := string(f.Data)
			for _, in := range []event.Input{
				{Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "kubelet", Message: text},
				{Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "terraform", Message: text},
				{Reason: "Failed", Type: "Warning", Component: "service-controller", Message: text},
				{Reason: "Failed", Type: "Warning", Message: text},
				{Reason: "BackOff", Type: "Warning", Message: text},
			} {
				if got := by.Classify(in); got.Class != event.Ignored {
					t.Errorf("%+v: got %s, want %s", in, got.Class, event.Ignored)
				}
			}
		}
	}
	for _, text := range []string{
		"Traceback (most recent call last):\n  File \"a.py\", line 1\naliyunsdkcore.acs_exception.exceptions.ServerException: HTTP Status: 404 " +
			"Error:VSwitchNotExist The specified VSwitch does not exist. RequestID: 1",
		"com.aliyuncs.exceptions.ServerException: VSwitchNotExist : The specified VSwitch does not exist.\nRequestId : 1",
		"╷\n│ Error: [ERROR] terraform-provider-alicloud/alicloud/resource_alicloud_slb_load_balancer.go:1: Resource alicloud_slb_load_balancer " +
			"CreateLoadBalancer Failed!!! [SDK alibaba-cloud-sdk-go ERROR]:\n" +
			"│ SDK.ServerError\n│ ErrorCode: VSwitchNotExist\n│ Message: The specified VSwitch does not exist.\n╵",
		`E0301 08:00:12.123456       1 a.go:1] service-controller "msg"="x" "error"="[SDKError] API: CreateLoadBalancer, ErrorCode: VSwitchNotExist, Message: y"`,
	} {
		if got := by.Classify(event.Input{Message: text}); got.Class != event.Ignored {
			t.Errorf("%s: the classifier says %s", text, got.Class)
		}
		if got := answers(t, text); len(got) != 1 || got[0].class != "vswitch-not-found" {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func FuzzReader(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/heldout.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i, file := range archive.Files {
		if i%7 == 0 {
			f.Add(string(file.Data))
		}
	}
	f.Add("{\n[\n-----BEGIN PRIVATE KEY-----\nx")
	f.Add("LAST SEEN TYPE REASON OBJECT MESSAGE\n世 Warning X a/b c")
	f.Fuzz(func(t *testing.T, text string) {
		r := paste.NewReader(func(found paste.Text) error {
			if again := event.Redact(found.Input.Message); again != found.Input.Message {
				t.Errorf("%q has a secret left", found.Input.Message)
			}
			if found.Kind == "" {
				t.Errorf("%+v has no kind", found)
			}
			return nil
		})
		check := func(err error) bool {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			return err == nil
		}
		for line := range strings.SplitSeq(text, "\n") {
			if !check(r.Line(line)) {
				return
			}
		}
		check(r.Close())
	})
}

// Each level of nested JSON costs another read of the rest, so JSON nested deeper than any tool's is not read.
func TestDeepJSON(t *testing.T) {
	t.Parallel()
	const levels = 6000
	inner := `{"message":"` + strings.Repeat("x", 20_000) + `"}`
	for _, pair := range [][2]string{{`{"_source":`, `}`}, {`[`, `]`}, {`{"kind":"List","items":[`, `]}`}} {
		n := 0
		r := paste.NewReader(func(text paste.Text) error {
			if n++; text.Why == "" || text.Input.Message != "" {
				t.Errorf("%s: %d levels are read", pair[0], levels)
			}
			return nil
		})
		depth := levels / len(pair[1])
		if err := r.Line(strings.Repeat(pair[0], depth) + inner + strings.Repeat(pair[1], depth)); err != nil || n != 1 {
			t.Errorf("%s: %d texts, error %v", pair[0], n, err)
		}
	}
}
