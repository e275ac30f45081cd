package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/scene"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// TestPolicy holds the policy file to the comments in it.
func TestPolicy(t *testing.T) {
	p, err := policy.Parse(policyText, (&host.Host{Remedies: functions.All}).Classes())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range functions.All {
		highest := map[string]remedy.Risk{"tag-missing": remedy.High, "ram-permission": remedy.Medium}[r.Class]
		for _, risk := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
			_, named := p.Classes[r.Class]
			if got, why := p.Allows(r, risk); got != (risk <= highest && (named || !r.OptIn)) {
				t.Errorf("%s with %s risk: %v, %s", r.Class, risk, got, why)
			}
		}
	}
}

func TestProgram(t *testing.T) {
	t.Setenv(controller.BinaryVariable, "")
	counts := map[string]int{}
	var names []string
	for _, r := range usual().roles {
		counts[r.Class]++
		names = append(names, r.Service)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(usual().roles) {
		t.Errorf("a Service plays two parts: %v", names)
	}
	if n := counts["vswitch-ip-exhausted"] + counts["tag-missing"] + counts["ram-permission"]; n < 12 || counts["unclassified"] != 1 {
		t.Errorf("%d known failures and %d unknown ones", n, counts["unclassified"])
	}
	all, err := program("all")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, a := range all {
		for _, r := range a.roles {
			shown[r.Class] = true
			if r.On != a.setting {
				t.Errorf("%s is on the wrong stage", r.Service)
			}
		}
	}
	for _, r := range functions.All {
		if !shown[r.Class] {
			t.Errorf("nothing shows %s", r.Class)
		}
	}
	if some, err := program("tag-missing, unclassified"); err != nil || len(some) != 1 || len(some[0].roles) != len(scene.Of("tag-missing", "unclassified")) {
		t.Errorf("%d acts, %v", len(some), err)
	}
	if _, err := program("tag-mising"); err == nil || !strings.Contains(err.Error(), `"tag-mising"`) {
		t.Errorf("got %v", err)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{gist("One."), "One."},
		{gist("One. Two."), "One. Two."},
		{gist("One. Two of v2.12.1. Three."), "One. … Three."},
		{cut("as it is", 8), "as it is"},
		{cut("ends at a word", 10), "ends at…"},
		{cut("übergroß", 5), "über…"},
		{brief("annotate service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id=lb-1"), "annotate id=lb-1"},
		{brief("tag lb-1 with kubernetes.do.not.delete=aba68bf8626b543e394f88905821a25c"), "tag lb-1 with kubernetes.do.not.delete=…"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
