package event

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/corpus"
)

func TestClassifyExplains(t *testing.T) {
	c := NewClassifier([]Row{
		{Class: "short", Texts: []string{"is odd."}, Codes: []string{"Odd", "Family.*"}},
		{Class: "long", Texts: []string{"thing is odd"}, Codes: []string{"Family.Own", "Wide*"}},
		{Class: "early", Texts: []string{"it is red", "red * blue"}},
		{Class: "late", Texts: []string{"it is blu", "it is dry"}},
		{Class: "whole", Texts: []string{"NotSupported"}},
		{Class: "cut", Texts: []string{"the green parrot sleeps in the shade"}},
	})
	own := "Error syncing load balancer [lb-1]: "
	for _, tt := range []struct {
		name, message string
		want          Match
	}{
		{"one text", own + "Message: It is dry.",
			Match{Class: "late", Matched: "it is dry", By: ByText, Why: "The message has this text."}},
		{"the longer text", own + "Message: The thing is odd.",
			Match{Class: "long", Matched: "thing is odd", By: ByText, RunnerUp: "short", Why: `"is odd." is shorter.`}},
		{"the first of equals", own + "Message: It is red, it is blu.",
			Match{Class: "early", Matched: "it is red", By: ByText, RunnerUp: "late", Why: `"it is blu" is not longer and begins later.`}},
		{"an earlier error", own + "[[SDKError] API: A, Message: It is dry, [SDKError] API: B, Message: The thing is odd]",
			Match{Class: "late", Matched: "it is dry", By: ByText, RunnerUp: "long", Why: `"thing is odd" stands in a later error of the message.`}},
		{"an error of an API before the controller's", own + "the thing is odd, [SDKError] API: B, Message: It is dry.",
			Match{Class: "late", Matched: "it is dry", By: ByText, RunnerUp: "long",
				Why: `"thing is odd" is what the controller found itself, and an API's error decides.`}},
		{"residue", own + "Message: It is dry., the thing is odd]",
			Match{Class: "late", Matched: "it is dry", By: ByText, RunnerUp: "long", Why: `"thing is odd" stands behind what the first error says.`}},
		{"a code", own + "[SDKError] API: A, ErrorCode: Odd, Message: new",
			Match{Class: "short", Matched: "Odd", By: ByCode, Why: "The message has this error code and no text that is known."}},
		{"a text beside a code", own + "[SDKError] API: A, ErrorCode: Odd, Message: It is dry",
			Match{Class: "late", Matched: "it is dry", By: ByText, RunnerUp: "short", Why: `"Odd" is a code, and a known text decides.`}},
		{"a code of a family", own + "ErrorCode: Family.New, Message: new",
			Match{Class: "short", Matched: "Family.*", By: ByCode, Why: "The message has this error code and no text that is known."}},
		{"the head of a family", own + "Code: \"family\"",
			Match{Class: "short", Matched: "Family.*", By: ByCode, Why: "The message has this error code and no text that is known."}},
		{"a code out of its family", own + "Code=\"Family.Own\"",
			Match{Class: "long", Matched: "Family.Own", By: ByCode, Why: "The message has this error code and no text that is known."}},
		{"a code that goes on", own + `"Code" : "Widely.Known"`,
			Match{Class: "long", Matched: "Wide*", By: ByCode, Why: "The message has this error code and no text that is known."}},
		{"no code of a family", own + "Code: Familyless", unclassified("No text or code of any class stands in the message.")},
		{"a gap", own + "red or green and blue", Match{Class: "early", Matched: "red * blue", By: ByText, Why: "The message has this text."}},
		{"a gap that begins again", own + "red red, blue", Match{Class: "early", Matched: "red * blue", By: ByText, Why: "The message has this text."}},
		{"parts in the wrong order", own + "blue and red", unclassified("No text or code of any class stands in the message.")},
		{"too wide a gap", own + "red " + strings.Repeat("-", widest+1) + " blue", unclassified("No text or code of any class stands in the message.")},
		{"a gap over two errors", own + "[SDKError] Message: red [SDKError] Message: blue", unclassified("No text or code of any class stands in the message.")},
		{"a whole word", own + "because of NotSupported.", Match{Class: "whole", Matched: "NotSupported", By: ByText, Why: "The message has this text."}},
		{"a part of a word", own + "because of NotSupportedHere", unclassified("No text or code of any class stands in the message.")},
		{"a part of a name", own + "because of NotSupported.Here", unclassified("No text or code of any class stands in the message.")},
		{"a part of a path", own + "because of NotSupported/here", unclassified("No text or code of any class stands in the message.")},
		{"a word in brackets", own + "because of (NotSupported)", Match{Class: "whole", Matched: "NotSupported", By: ByText, Why: "The message has this text."}},
		{"a cut text", own + "Message: The green parrot sleeps in the…",
			Match{Class: "cut", Matched: "the green parrot sleeps in the shade", By: ByText, Why: "The message breaks off in this text, and no other begins so."}},
		{"too short a cut text", own + "Message: The green parrot sleeps", unclassified("No text or code of any class stands in the message.")},
		{"Chinese punctuation", own + "Code：Odd Message：new", Match{Class: "short", Matched: "Odd", By: ByCode,
			Why: "The message has this error code and no text that is known."}},
		{"full-width letters and curly quotes", own + "“Ｔｈｉｎｇ　ｉｓ odd”", Match{Class: "long", Matched: "thing is odd", By: ByText,
			RunnerUp: "short", Why: `"is odd." is shorter.`}},
		{"escapes of a log", own + `the\tthing\nis odd \"x\" \\`, Match{Class: "long", Matched: "thing is odd", By: ByText, RunnerUp: "short",
			Why: `"is odd." is shorter.`}},
		{"Kubernetes's words in a bracket's message", own + "failed to ensure load balancer: it is dry", Match{Class: "late", Matched: "it is dry", By: ByText,
			Why: "The message has this text."}},
		{"another SDK's error", own + "the thing is odd, OtherSDKError: it is dry", Match{Class: "long", Matched: "thing is odd", By: ByText, RunnerUp: "late",
			Why: `"it is dry" is shorter.`}},
		{"a curly apostrophe", own + "it doesn’t, it is dry", Match{Class: "late", Matched: "it is dry", By: ByText, Why: "The message has this text."}},
		{"bytes that are no text", own + "\xff the thing is\u200b odd", Match{Class: "long", Matched: "thing is odd", By: ByText, RunnerUp: "short",
			Why: `"is odd." is shorter.`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.Classify(Input{Reason: "SyncLoadBalancerFailed", Component: "service-controller", Message: tt.message})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.message, diff)
			}
		})
	}
}

func TestClassifyIgnored(t *testing.T) {
	c := NewClassifier(nil)
	for _, tt := range []struct {
		in   Input
		want string
	}{
		{Input{Reason: "Pulled"}, "The reason Pulled does not tell of a failed sync."},
		{Input{Component: strings.Repeat("x", 500)}, "The component " + strings.Repeat("x", 74) + " […] is not the controller of load balancers."},
		{Input{Reason: "Failed", Message: "Error"}, "The reason Failed counts only with the controller's own wording."},
		{Input{Message: "Error syncing load balancer: failed to ensure load balancer: x"}, "The wording is that of another cloud's service controller."},
		{Input{Message: "Error creating load balancer (will retry): failed to ensure load balancer for service a/b: x"},
			"The wording is that of another cloud's service controller, and nothing names Alibaba Cloud."},
		{Input{Component: "service-controller", Message: "Error syncing load balancer: googleapi: x"}, "The message names another cloud."},
		{Input{Reason: "SyncLoadBalancerFailed", Message: "x"}, "Nothing shows that the message is of Alibaba Cloud's controller."},
		{Input{Message: "x"}, "Nothing shows that the message tells of a failed sync of a load balancer."},
		{Input{Component: "service-controller", Message: "x"}, "Nothing shows that the message tells of a failed sync of a load balancer."},
	} {
		if got := c.Classify(tt.in); got != ignored(tt.want) {
			t.Errorf("%+v: got %+v, want %q", tt.in, got, tt.want)
		}
	}
}

func TestClassifyWithoutTable(t *testing.T) {
	c := NewClassifier(nil)
	for _, l := range corpus.Rows(t) {
		want := Unclassified
		if l.Want == Ignored {
			want = Ignored
		}
		got := c.Classify(Input{Reason: l.Reason, Type: l.Type, Component: l.Component, Message: l.Message}).Class
		// Without the texts, nothing identifies the author.
		if got != want && !(got == Ignored && (l.Reason == "" || l.Component == "")) {
			t.Errorf("%s: got %s, want %s", l.Message, got, want)
		}
	}
}

func TestCheckRows(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []Row
		want string
	}{
		{"none", nil, ""},
		{"good", []Row{{Class: "a", Texts: []string{"x", "x."}, Codes: []string{"X"}}, {Class: "b", Texts: []string{"y"}}}, ""},
		{"no class", []Row{{Texts: []string{"x"}}}, "read the table of classes: invalid event: the class is empty"},
		{"no text", []Row{{Class: "a", Texts: []string{" ."}}}, "class a has an empty text"},
		{"nothing but gaps", []Row{{Class: "a", Texts: []string{"* *"}}}, "class a has an empty text"},
		{"nothing but a quote", []Row{{Class: "a", Texts: []string{`":`}}}, "class a has an empty text"},
		{"a call with a gap", []Row{{Class: "a", Texts: []string{`": a * b`}}}, `the text "\": a * b" of class a begins with a quote: it must have no gap`},
		{"no code", []Row{{Class: "a", Codes: []string{""}}}, "class a has an empty code"},
		{"a text twice", []Row{{Class: "a", Texts: []string{"X  y"}}, {Class: "b", Texts: []string{"x y."}}}, `the text "x y." belongs to two classes, a and b`},
		{"a code twice", []Row{{Class: "a", Codes: []string{"X"}}, {Class: "b", Codes: []string{"x"}}}, `the code "x" belongs to two classes, a and b`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := CheckRows(tt.rows); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			defer func() {
				if panicked := recover() != nil; panicked != (tt.want != "") {
					t.Errorf("NewClassifier panicked: %v", panicked)
				}
			}()
			NewClassifier(tt.rows)
		})
	}
}

// The result of a call does not prove the author of the message.
func TestClassifyCalls(t *testing.T) {
	c := NewClassifier([]Row{{Class: "a", Texts: []string{`": EOF`, `": net/http: TLS handshake timeout`}}})
	for message, want := range map[string]string{
		`Post "https://slb.aliyuncs.com/": EOF`:                                                          "a",
		`Post "https://slb.aliyuncs.com": EOF, there are unprocessed listeners in reconcile]`:            "a",
		`Post "https://slb-vpc.cn-hangzhou.aliyuncs.com:443/?a=b` + strings.Repeat("&c", 900) + `": EOF`: "a",
		`Post \"https://slb.aliyuncs.com?a\": EOF`:                                                       "a",
		`Post https://slb.aliyuncs.com/?a=b: EOF`:                                                        "a",
		`Put "http://100.100.100.200/latest/api/token": EOF`:                                             "a",
		`[Post "https://x.svc/": EOF, Post "https://slb.aliyuncs.com/": EOF]`:                            "a",
		`Post "https://slb.aliyuncs.com/": EOFs`:                                                         Unclassified,
		`Post "https://slb.aliyuncs.com/" : EOF`:                                                         Unclassified,
		`Post "https://slb.aliyuncs.com/": x: EOF`:                                                       Unclassified,
		`Post "https://slb.aliyuncs.com/": odd, Post "https://x.svc/": EOF`:                              Unclassified,
		`Post "https://slb.aliyuncs.com.x.org/": EOF`:                                                    Unclassified,
		`Post "https://aliyuncs.com/": EOF`:                                                              Unclassified,
		`Post "https://xaliyuncs.com/": EOF`:                                                             Unclassified,
		`Post "https://x.org/.aliyuncs.com": EOF`:                                                        Unclassified,
		`Post "https://x.org?.aliyuncs.com": EOF`:                                                        Unclassified,
		`Post "https://a@slb.aliyuncs.com/": EOF`:                                                        Unclassified,
		`Get "https://100.100.100.201/": EOF`:                                                            Unclassified,
		`Get "https://10.0.0.1/api/v1/x?.aliyuncs.com": EOF`:                                             Unclassified,
		`slb.aliyuncs.com": EOF`:                                                                         Unclassified,
		`net/http: TLS handshake timeout`:                                                                Unclassified,
		`Post "https://slb.aliyuncs.com/": net/http: TLS handshake time`:                                 Unclassified,
		``: Unclassified,
	} {
		in := Input{Reason: "SyncLoadBalancerFailed", Component: "service-controller", Message: "Error syncing load balancer []: " + message}
		if got := c.Classify(in).Class; got != want {
			t.Errorf("%s: got %s, want %s", message, got, want)
		}
	}
	for _, in := range []Input{
		{Message: `Post "https://slb.aliyuncs.com/": net/http: TLS handshake timeout`},
		{Message: `: EOF`},
		{Reason: "Failed", Message: `Failed to pull image: Get "https://registry.cn-hangzhou.aliyuncs.com/v2/": net/http: TLS handshake timeout`},
	} {
		if got := c.Classify(in); got.Class != Ignored {
			t.Errorf("%s: got %s, want %s", in.Message, got.Class, Ignored)
		}
	}
}

func TestWatched(t *testing.T) {
	for _, reason := range []string{
		"SyncLoadBalancerFailed", "CleanLoadBalancerFailed", "DeleteLoadBalancerFailed", "CreatingLoadBalancerFailed",
		"DeletingLoadBalancerFailed", "UnAvailableLoadBalancer", "NoBackend", "SkipSyncBackends", "Failed",
		"FailedAddFinalizer", "FailedAddHash", "FailedUpdateReadinessGate", "FailedUpdateStatus", "FailedRemoveFinalizer", "FailedRemoveHash",
	} {
		if !Watched(reason) {
			t.Errorf("%s is not watched", reason)
		}
	}
	for _, reason := range []string{"", "EnsuredLoadBalancer", "PreservedOnDelete", "syncloadbalancerfailed", "FailedSetEIPAddress"} {
		if Watched(reason) {
			t.Errorf("%s is watched", reason)
		}
	}
}

func TestDryRun(t *testing.T) {
	for message, want := range map[string]bool{
		"DryRun: Error syncing load balancer [lb-1]: x":                                    true,
		"(combined from similar events): DryRun: Error syncing load balancer [lb-1]: x":    true,
		" DryRun: (combined from similar events): x":                                       true,
		"Error syncing load balancer [lb-1]: DryRun: x":                                    false,
		"(combined from similar events): Error syncing load balancer [lb-1]: Message: odd": false,
		"": false,
	} {
		if got := DryRun(message); got != want {
			t.Errorf("DryRun(%q) = %v, want %v", message, got, want)
		}
	}
}
