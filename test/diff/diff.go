// Package diff reports in tests how two values differ, without looking up methods by reflection as other libraries do. That prevents the
// linker from removing exported methods: the test of a class becomes four times as large, and takes three times as long to link.
package diff

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/diff"
)

// same compares values deeply. Nil differs from empty, and times are compared as instants.
var same = conversion.EqualitiesOrDie(
	func(a, b time.Time) bool { return a.Equal(b) },
	func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 },
	func(a, b netip.Addr) bool { return a == b },
	func(a, b netip.Prefix) bool { return a == b },
)

// Of returns how got differs from want, line by line, or "". It panics on unexported fields.
func Of(want, got any) string {
	if same.DeepEqualWithNilDifferentFromEmpty(want, got) {
		return ""
	}
	if a, ok := want.(string); ok {
		if b, ok := got.(string); ok {
			want, got = strings.Split(a, "\n"), strings.Split(b, "\n")
		}
	}
	if text := diff.Diff(want, got); text != "" {
		return text
	}
	return fmt.Sprintf("- %#v\n+ %#v", want, got) // JSON does not show the difference
}
