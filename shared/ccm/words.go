package ccm

import (
	"fmt"
	"strings"
)

// Count returns how many there are of something, whose plural ends in s: "1 node",
// "3 nodes".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Clauses returns the clauses with semicolons between, no more than limit of them,
// and how many more there are.
func Clauses(list []string, limit int) string {
	if len(list) <= limit {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:limit], "; "), len(list)-limit)
}

// Are returns the verb for that many: "is" for one, else "are".
func Are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Join returns two sentences as one text; either may be empty.
func Join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}
