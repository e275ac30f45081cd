package event

// An automaton finds a set of patterns in one pass over a text, after Aho and Corasick. Its time depends only on the text's length.
// ASCII letters match in either case. It is read-only once built.
type automaton struct {
	column [256]uint8 // of a byte; 0 for bytes outside all patterns
	width  int32      // number of columns
	next   []int32    // next[state*width+column]
	ends   [][]int32  // by state: patterns that end there
	size   []int32    // by pattern
}

// newAutomaton returns the automaton of lower-case patterns. A pattern's ID is its index; empty patterns are never found.
func newAutomaton(patterns []string) *automaton {
	a := &automaton{width: 1}
	for _, p := range patterns {
		a.size = append(a.size, int32(len(p)))
		for i := range len(p) {
			if a.column[p[i]] == 0 {
				a.column[p[i]] = uint8(a.width)
				a.width++
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		a.column[c-'a'+'A'] = a.column[c]
	}
	a.grow()
	for id, p := range patterns {
		var state int32
		for i := range len(p) {
			at := state*a.width + int32(a.column[p[i]])
			if a.next[at] == 0 {
				a.next[at] = a.grow()
			}
			state = a.next[at]
		}
		a.ends[state] = append(a.ends[state], int32(id))
	}
	a.link()
	return a
}

// grow adds a state.
func (a *automaton) grow() int32 {
	a.next = append(a.next, make([]int32, a.width)...)
	a.ends = append(a.ends, nil)
	return int32(len(a.ends) - 1)
}

// link fills in the transitions for bytes that don't continue a pattern.
func (a *automaton) link() {
	back := make([]int32, len(a.ends)) // the longest proper suffix of a state that is also one
	queue := []int32{0}
	for i := 0; i < len(queue); i++ {
		state := queue[i]
		if state != 0 {
			a.ends[state] = append(a.ends[state], a.ends[back[state]]...)
		}
		for c := range a.width {
			at, other := state*a.width+c, a.next[back[state]*a.width+c]
			switch child := a.next[at]; {
			case child == 0:
				a.next[at] = other
			case state == 0:
				queue = append(queue, child)
			default:
				back[child] = other
				queue = append(queue, child)
			}
		}
	}
}

// A hit is text[start:end] where a pattern was found.
type hit struct{ pattern, start, end int32 }

func (a *automaton) find(text []byte) (hits []hit) {
	next, ends, width := a.next, a.ends, a.width
	var state int32
	for i, b := range text {
		state = next[state*width+int32(a.column[b])]
		for _, p := range ends[state] {
			hits = append(hits, hit{pattern: p, start: int32(i+1) - a.size[p], end: int32(i + 1)})
		}
	}
	return hits
}
