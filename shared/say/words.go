package say

import "strings"

// Count returns how many there are of something, whose plural ends in s: "1 node",
// "3 nodes".
func Count(n int, one string) Text {
	if n == 1 {
		return Text{{Format: "1 " + one}}
	}
	return Text{{Format: "%d " + one + "s", Args: []any{int64(n)}}}
}

// List returns the items with commas between, no more than limit of them, and how many
// more there are.
func List(items []string, limit int) Text {
	if len(items) <= limit {
		return Literal(strings.Join(items, ", "))
	}
	return F("%s and %d more", strings.Join(items[:limit], ", "), len(items)-limit)
}

// Clauses returns the clauses with semicolons between, no more than limit of them, and how
// many more there are.
func Clauses(list []Text, limit int) Text {
	shown := list[:min(len(list), limit)]
	var format strings.Builder
	var args []any
	for i, t := range shown {
		if i > 0 {
			format.WriteString("; ")
		}
		format.WriteString("%s")
		args = append(args, t)
	}
	if more := len(list) - len(shown); more > 0 {
		format.WriteString("; and %d more")
		args = append(args, int64(more))
	}
	if len(args) == 0 {
		return nil
	}
	return Text{{Format: format.String(), Args: args}}
}
