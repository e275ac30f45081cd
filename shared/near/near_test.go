package near_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/near"
)

var classes = []string{"tag-missing", "quota", "ram-permission", "backend-quota", "vswitch-ip-exhausted", "throttling", "reference-missing"}

func TestOne(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"": "", "qota": "quota", "QUOTA": "quota", "quo": "quota", "tag": "tag-missing", "tag-mising": "tag-missing", "zebra": "", "q": "quota", "x": "",
		"配额": "",
	} {
		if got := near.One(typed, classes); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	if got := near.One("quota", nil); got != "" {
		t.Errorf("of no names: %q", got)
	}
}

func TestThree(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string][]string{
		"quotas":     {"quota", "throttling", "backend-quota"},
		"quota":      {"backend-quota", "quota", "throttling"},
		"Missing":    {"reference-missing", "tag-missing", "quota"},
		"tag-mising": {"tag-missing", "throttling", "ram-permission"},
		"":           {"backend-quota", "quota", "ram-permission"},
		"配额":         {"quota", "throttling", "tag-missing"},
	} {
		if diff := cmp.Diff(want, near.Three(typed, classes)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", typed, diff)
		}
	}
	if got := near.Three("x", []string{"a", "a"}); len(got) != 1 {
		t.Errorf("of one name twice: %q", got)
	}
	if got := near.Three("x", nil); len(got) != 0 {
		t.Errorf("of no names: %q", got)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"a", ""}: 1, {"", "ab"}: 2, {"kitten", "sitting"}: 3, {"ab", "ba"}: 2, {"same", "same"}: 0} {
		if got := near.Distance(pair[0], pair[1]); got != want {
			t.Errorf("%q: got %d, want %d", pair, got, want)
		}
	}
}
