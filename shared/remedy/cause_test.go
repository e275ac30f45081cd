package remedy_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

func TestCauseOf(t *testing.T) {
	causes := []remedy.Cause{
		{Name: "card", Texts: []string{"credit card", "nocard"}},
		{Name: "credit", Texts: []string{"credit"}},
		{Name: "order"},
	}
	for message, want := range map[string]string{
		"The account has no Credit Card.": "card", "code: NOCARD": "card", "The credit is used up.": "credit", "The order failed.": "order", "": "order",
	} {
		if got := remedy.CauseOf(causes, message); got.Name != want {
			t.Errorf("%q: got %q, want %q", message, got.Name, want)
		}
	}
	if got := remedy.CauseOf(causes[:2], "The order failed."); got.Name != "" {
		t.Errorf("of no cause that fits: got %q", got.Name)
	}
}
