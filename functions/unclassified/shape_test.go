package unclassified

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Messages that differ only in names have the same shape.
func TestShape(t *testing.T) {
	for _, same := range [][2]string{
		{
			`Error syncing load balancer [lb-1]: Message: The profile of lb-1 does not match. RequestId: 7F0C1C52-0F3C`,
			`Error syncing load balancer [lb-sim0031]: Message: The profile of lb-sim0031 does not match. RequestId: 00AA-11`,
		},
		{"ensure shop/web: no stock in 2 of 3 zones", "ensure pay/api: no stock in 1 of 7 zones"},
		{`Error syncing load balancer []: x`, `Error syncing load balancer [lb-1]: x`},
	} {
		if a, b := shape(same[0]), shape(same[1]); a != b || a == "" {
			t.Errorf("%q and %q, want one", a, b)
		}
	}
	if a, b := shape("the zone is closed"), shape("the zone is full"); a == b {
		t.Errorf("two texts are one cause, %q", a)
	}
	if got := shape(strings.Repeat("é", 500)); len(got) > longest+len("…") || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := shape(""); got != "" {
		t.Errorf("nothing became %q", got)
	}
}
