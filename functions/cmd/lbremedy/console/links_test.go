package console

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/step"
)

// Texts link to the reader's site of Alibaba Cloud's console, in the cluster's region. Values that aren't IDs get no link.
func TestProse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, region, language, want string }{
		{"lb-bp1w8s17", "cn-hangzhou", "", `href="https://slb.console.alibabacloud.com/slb/cn-hangzhou/slbs/lb-bp1w8s17"`},
		{"nlb-2zq0a", "ap-southeast-1", "zh", `href="https://slb.console.aliyun.com/nlb/ap-southeast-1/nlbs/nlb-2zq0a"`},
		{"vSwitch vsw-1 is full", "us-west-1", "zh", `href="https://vpc.console.aliyun.com/vpc/us-west-1/switches/vsw-1"`},
		{"2026-01-02 03:04:05 UTC", "", "", `<time data-clock datetime="2026-01-02T03:04:05Z" title="2026-01-02 03:04:05 UTC">2026-01-02 03:04:05 UTC</time>`},
		{"2026-01-02T11:04:05+08:00", "", "", `title="2026-01-02 03:04:05 UTC"`},
		{"2026-13-42 03:04:05 UTC", "", "", "2026-13-42 03:04:05 UTC"},
		{"lb-1", "", "", "lb-1"},
		{"lb-gone, lb-ambiguous", "cn-hangzhou", "", "lb-gone, lb-ambiguous"}, // a check and a class
		{"lb-1", "cn-hangzhou/../x", "", "lb-1"},
		{"lb-1", `cn"onclick="x`, "", "lb-1"},
		{"lb-1", "cn-hangzhou.evil.example", "", "lb-1"},
		{`lb-1"><script>`, "cn-hangzhou", "", `://slb.console.alibabacloud.com/slb/cn-hangzhou/slbs/lb-1" rel="noreferrer">lb-1</a>&#34;&gt;&lt;script&gt;`},
		{"LB-1 xlb-1 lb_1", "cn-hangzhou", "", "LB-1 xlb-1 lb_1"},
	} {
		got := string(prose(tt.text, tt.region, cli.Tongue(tt.language)))
		if !strings.Contains(got, tt.want) || strings.Contains(got, "<a") != strings.Contains(tt.want, "://") {
			t.Errorf("%q in %q: %s, want %s", tt.text, tt.region, got, tt.want)
		}
	}
}

// A RAM policy that a step changes gets a link, whatever else the record claims.
func TestPolicyLinks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ policy, want string }{
		{"k8sMasterRolePolicy-Ccm-1", "https://ram.console.alibabacloud.com/policies/k8sMasterRolePolicy-Ccm-1/Custom/content"},
		{"", ""}, {"a/b", ""}, {"a?b", ""}, {`"><script>`, ""}, {strings.Repeat("a", 129), ""}, {"a\nb", ""},
	} {
		data, err := json.Marshal(step.PolicyVersion{Policy: tt.policy})
		if err != nil {
			t.Fatal(err)
		}
		got := policyLinks(&event.Record{Plan: event.Plan{Steps: []event.StepRecord{{Step: data}, {Step: []byte("no JSON")}}}}, nil)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[0].To != tt.want) {
			t.Errorf("%q: %v, want %q", tt.policy, got, tt.want)
		}
	}
}

// Markdown pages show links, bold words and code; a link without https stays text.
func TestStretches(t *testing.T) {
	t.Parallel()
	page := "# Title\n\n**Cause**: `a <b>` and [FAQ](https://example.com/faq), [no](javascript:alert), *x* ` **\n\n```sh\nlbremedy ls\n```\nend"
	want := []stretch{
		{}, {Bold: "Cause"}, {Text: ": "}, {Code: "a <b>"}, {Text: " and "}, {link: link{"FAQ", "https://example.com/faq"}},
		{Text: ", [no](javascript:alert), *x* ` **\n\n"}, {Code: "lbremedy ls"}, {Text: "\nend"},
	}
	if diff := cmp.Diff(want, stretches(page), cmp.AllowUnexported(stretch{})); diff != "" {
		t.Error(diff)
	}
	if got := stretches(""); len(got) != 1 || got[0] != (stretch{}) {
		t.Errorf("of nothing: %v", got)
	}
}
