package doctor_test

import (
	"slices"
	"testing"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

// Each symptom is found by its name on the page, in both languages, and leads to a check or a cause.
func TestSymptoms(t *testing.T) {
	all := checks.Checks()
	for _, s := range checks.Symptoms() {
		for _, text := range []string{s.Text.String(), s.Text.In(chinese.Language())} {
			if got, ok := checks.SymptomIn(text); !ok || got.Text.String() != s.Text.String() {
				t.Errorf("%q is taken for %q", text, got.Text)
			}
		}
		if s.Check != "" && !slices.ContainsFunc(all, func(c *doctor.Check) bool { return c.ID == s.Check }) {
			t.Errorf("%s: no check %q", s.Text, s.Check)
		}
		if (s.Check == "") == (len(s.Means) == 0) {
			t.Errorf("%s: it needs a check or a cause", s.Text)
		}
	}
}

func TestSymptomIn(t *testing.T) {
	for text, want := range map[string]string{
		"503 during rollout":                                   "draining",
		"we get connection resets on every deploy":             "draining",
		"滚动发布的时候有少量 502":                                       "draining",
		"cannot reach the address from a Pod":                  "unreachable-inside",
		"curl to the SLB address times out inside the cluster": "unreachable-inside",
		"集群内访问不通负载均衡的地址":                                       "unreachable-inside",
		"load balancer deleted by hand":                        "lb-gone",
		"somebody released the SLB":                            "lb-gone",
		"SLB 被误删了怎么恢复":                                         "lb-gone",
		"pending without Events":                               "pending",
		"the Service is stuck in Terminating, can't delete it": "finalizers",
		"service 一直删除不掉":                                       "finalizers",
		"what I set in the console is reverted":                "drift",
		"控制台修改的配置被覆盖":                                          "drift",
		"traffic is uneven between pods":                       "node-weights",
		"my annotation does not work, it can't be that hard":   "annotations",
		"注解没有生效":                                               "annotations",
		"whitelist of source ranges does not work":             "source-ranges",
		"changes take minutes":                                 "scale",
		"client IP lost":                                       "",
		"获取不到客户端真实 IP":                                         "",
		"one node that is a master":                            "",
	} {
		got, ok := checks.SymptomIn(text)
		if !ok || got.Check != want {
			t.Errorf("%s: got the check %q of %q, want %q", text, got.Check, got.Text, want)
		}
	}
	for _, text := range []string{"failed", "ok", "Scheduled", "the weather is nice", "pod stuck in Pending", "permission denied reading file",
		"limit memory 512Mi", "the pods are slow to start", "kubectl delete pod hangs", "I cannot reach the database from the pod", "How do I delete the SLB?",
		"deploy failed with 500 from github", "Ensured load balancer", "Successfully assigned shop/x to node-1"} {
		if got, ok := checks.SymptomIn(text); ok {
			t.Errorf("%s: is taken for %q", text, got.Text)
		}
	}
}
