// Package near finds the names that are closest to a mistyped one.
package near

import (
	"cmp"
	"slices"
	"strings"
)

// One returns the name that begins with typed, or differs from it in a letter or two, or "".
func One(typed string, names []string) string {
	if typed == "" {
		return ""
	}
	best, least := "", 3
	if len(typed) < 4 {
		least = 2
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		d := Distance(strings.ToLower(typed), strings.ToLower(name))
		if strings.HasPrefix(name, typed) {
			d = min(d, 1)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// Three returns the three nearest names, nearest first: names that contain typed, then those that differ from it in the fewest letters.
func Three(typed string, names []string) []string {
	typed = strings.ToLower(typed)
	far := map[string]int{}
	for _, name := range names {
		if !strings.Contains(name, typed) {
			far[name] = Distance(typed, name)
		}
	}
	list := slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(far[a], far[b]), cmp.Compare(a, b))
	})
	list = slices.Compact(list)
	return list[:min(3, len(list))]
}

// Distance returns the edit distance: how many letters to insert, remove or replace to turn one word into the other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
