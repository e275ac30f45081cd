package remedy

import "fmt"

// Count returns how many there are of something, whose plural ends in s: "1 node",
// "3 nodes".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Are returns the verb for that many: "is" for one, else "are".
func Are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
