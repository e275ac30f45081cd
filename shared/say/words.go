package say

import (
	"strconv"
	"strings"
)

// Count returns a number with a noun whose plural ends in s or es: "1 node", "3 nodes", "2 classes".
func Count(n int, one string) Text {
	if n == 1 {
		return Text{{Format: "1 " + one}}
	}
	plural := one + "s"
	if strings.HasSuffix(one, "s") {
		plural = one + "es"
	}
	return Text{{Format: "%d " + plural, Args: []any{int64(n)}}}
}

// Or returns s as a literal or, if it is empty, the message.
func Or(s, message string) Text {
	if s == "" {
		return Text{{Format: message}}
	}
	return Literal(s)
}

// Figure returns a number without an exponent.
func Figure(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// List returns at most limit items separated by commas, and how many more there are.
func List(items []string, limit int) Text { return First(items[:min(len(items), limit)], len(items)) }

// First returns the first of all items separated by commas, and how many more there are.
func First(items []string, all int) Text {
	if len(items) >= all {
		return Literal(strings.Join(items, ", "))
	}
	return F("%s and %d more", strings.Join(items, ", "), all-len(items))
}

// Items returns at most limit texts separated by commas, and how many more there are.
func Items(list []Text, limit int) Text {
	return join(list[:min(len(list), limit)], len(list), ", ", " and %d more")
}

// Clauses returns at most limit clauses separated by semicolons, and how many more there are.
func Clauses(list []Text, limit int) Text {
	return FirstClauses(list[:min(len(list), limit)], len(list))
}

// FirstClauses returns the first of all clauses separated by semicolons, and how many more there are.
func FirstClauses(list []Text, all int) Text { return join(list, all, "; ", "; and %d more") }

func join(shown []Text, all int, between, rest string) Text {
	if all == 0 {
		return nil
	}
	m := Message{Format: strings.TrimPrefix(strings.Repeat(between+"%s", len(shown)), between)}
	for _, t := range shown {
		m.Args = append(m.Args, plain(t))
	}
	if more := all - len(shown); more > 0 {
		m.Format += rest
		m.Args = append(m.Args, int64(more))
	}
	return Text{m}
}
