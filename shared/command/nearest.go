package command

// Nearest returns the word among those there are that is most similar to one that is not
// there; empty if none is similar enough to have been meant.
func Nearest(word string, among []string) string {
	best, least := "", max(2, len(word)/4)+1
	for _, other := range among {
		if d := distance(word, other); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance returns how many letters must be inserted, removed or changed to turn one word
// into the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, left+cost)
		}
	}
	return row[len(b)]
}
