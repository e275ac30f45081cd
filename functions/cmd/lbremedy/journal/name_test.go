package journal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Commands that take a name find one case, or refuse the name with its candidates.
func TestNames(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	records := operator.Journalled()
	fixed, asked := records[2], records[3]
	busy, mail, three := fixed, fixed, asked
	busy.Class = "busy"
	mail.Service = event.Service{Namespace: "pay", Name: "mail", UID: "22222222-0000-4000-8000-000000000000"}
	mail.Case, mail.Class = "22222222-20260102T150406", "quota"
	three.Service = event.Service{Namespace: "shop", Name: "333", UID: operator.UID(1)}
	three.Case = "44444444-20260102T150405"
	node := asked
	node.Service, node.Case = event.Service{Kind: "node", Name: "web", UID: operator.UID(2)}, "44444444-20260102T150406"
	like, far := asked, asked
	like.Service = event.Service{Namespace: "shop", Name: "22222222-web", UID: operator.UID(4)}
	like.Case = "44444444-20260102T150408"
	far.Service, far.Case, far.Cluster = event.Service{Namespace: "shop", Name: "far", UID: operator.UID(5)}, "44444444-20260102T150409", "c1"
	farther := far
	farther.Service.UID, farther.Cluster = operator.UID(6), "c2"
	if err := operator.Seed(t.Context(), s, fixed, asked, busy, mail, three, node, like, far, farther); err != nil {
		t.Fatal(err)
	}
	refused := func(name string, want ...string) {
		t.Helper()
		for _, args := range [][]string{{"show"}, {"show", "-o", "json"}, {"show", "--snapshot"}, {"approve"}, {"reject"}, {"undo", "--apply"}} {
			got := c.Run(t.Context(), append(args, name)...)
			if got.Code != command.CodeWrong || got.Out != "" || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got.Err, w) }) {
				t.Errorf("%v %s: %+v; want %q", args, name, got, want)
			}
		}
	}
	refused("2222", "3 cases begin with 2222, name one of them:\n  ", fixed.Case+"/busy  fixed", "shop/web", mail.Case+"/quota  fixed", "pay/mail")
	refused("22222222", "3 cases begin with 22222222, name one of them:\n  ", "shop/web", "pay/mail")
	refused("333", "333 is the Service shop/333 and the start of a case ID: name the Service, or give more of the ID")
	for _, name := range []string{"far", "shop/far"} {
		refused(name, "2 clusters have cases of shop/far, c1, c2: name one with --cluster or LBREMEDY_CLUSTER")
	}
	refused("none", `the journal holds no case "none"`)
	refused("99999999", `the journal holds no case "99999999"`)
	for _, name := range []string{"we b", "WEB", "web.", "-"} {
		refused(name, "the journal holds no case")
	}
	if got := c.Run(t.Context(), "show", fixed.Case); got.Code != command.CodeWrong || got.Out != "" ||
		!strings.Contains(got.Err, "2 cases have the ID "+fixed.Case+": name one with its class:") || !strings.Contains(got.Err, fixed.Case+"/busy") {
		t.Errorf("show of two classes: %+v", got)
	}

	says := func(want string, args ...string) {
		t.Helper()
		if got := c.Run(t.Context(), args...); !strings.Contains(got.Out+got.Err, want) {
			t.Errorf("%v: %+v; want %q", args, got, want)
		}
	}
	says("Case       "+asked.Case, "show", "api")
	says("Case       "+like.Case, "show", "22222222-web")
	says("in cluster c2", "show", "far", "--cluster", "c2")
	says("shop/web  fixed", "show", "web") // the node of this name is not a Service
	says("no case of pay/api waits for an approval", "approve", "api")
	says("no case of shop/333 has steps to undo", "undo", "shop/333")
	says("Case       "+asked.Case, "show", "3333")
	says("Case       "+fixed.Case+" of class busy", "show", fixed.Case+"/busy")

	other := asked
	other.Service, other.Case = event.Service{Namespace: "shop", Name: "api", UID: operator.UID(3)}, "44444444-20260102T150407"
	if err := operator.Seed(t.Context(), s, other); err != nil {
		t.Fatal(err)
	}
	refused("api", "2 Services are called api: name one as NAMESPACE/NAME: pay/api, shop/api")
	says("Case       "+other.Case, "show", "-n", "shop", "api")
	says("有 2 个 Service 名为 api：请以 NAMESPACE/NAME 指定一个：pay/api, shop/api", "show", "api", "--language", "zh")
}
