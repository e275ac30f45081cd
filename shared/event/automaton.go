package event

// An automaton finds a set of patterns in one pass over a text, after Aho and Corasick. Its time depends only on the text's length.
// ASCII letters match in either case. It is read-only once built.
type automaton struct {
	column [256]uint8 // of a byte; 0 for bytes outside all patterns
	stride int32      // length of a state's row in next: its columns, and a final one for its number if patterns end there
	next   []int32    // next[state+column]; a state is the offset of its row
	ends   [][]int32  // by state number: patterns that end there
	size   []int32    // by pattern
}

// newAutomaton returns the automaton of lower-case patterns. A pattern's ID is its index; empty patterns are never found.
func newAutomaton(patterns []string) *automaton {
	a := &automaton{stride: 2}
	states := 1
	for _, p := range patterns {
		states += len(p)
		a.size = append(a.size, int32(len(p)))
		for i := range len(p) {
			if a.column[p[i]] == 0 {
				a.column[p[i]] = uint8(a.stride - 1)
				a.stride++
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		a.column[c-'a'+'A'] = a.column[c]
	}
	a.next = make([]int32, 0, states*int(a.stride))
	a.grow()
	for id, p := range patterns {
		a.add(p, int32(id))
	}
	a.link()
	return a
}

func (a *automaton) grow() int32 {
	for range a.stride {
		a.next = append(a.next, 0)
	}
	a.ends = append(a.ends, nil)
	return int32(len(a.ends) - 1)
}

// add makes the states of a pattern. Until link, next holds state numbers.
func (a *automaton) add(pattern string, id int32) {
	var state int32
	for i := range len(pattern) {
		at := state*a.stride + int32(a.column[pattern[i]])
		if a.next[at] == 0 {
			a.next[at] = a.grow()
		}
		state = a.next[at]
	}
	a.ends[state] = append(a.ends[state], id)
}

// link fills in the transitions for bytes that don't continue a pattern, and turns state numbers into offsets of rows.
func (a *automaton) link() {
	var queue []int32
	fail := make([]int32, len(a.ends)) // by state number: number of the longest proper suffix that is also a state
	for c := range a.stride - 1 {
		if child := a.next[c]; child != 0 {
			queue = append(queue, child)
		}
	}
	for i := 0; i < len(queue); i++ {
		state := queue[i]
		back := fail[state]
		a.ends[state] = append(a.ends[state], a.ends[back]...)
		for c := range a.stride - 1 {
			at, other := state*a.stride+c, a.next[back*a.stride+c]
			child := a.next[at]
			if child == 0 {
				a.next[at] = other
				continue
			}
			fail[child] = other
			queue = append(queue, child)
		}
	}
	for i := range a.next {
		a.next[i] *= a.stride
	}
	for state, ends := range a.ends {
		if len(ends) > 0 {
			a.next[(int32(state)+1)*a.stride-1] = int32(state)
		}
	}
}

// A hit is text[start:end] where a pattern was found.
type hit struct{ pattern, start, end int32 }

func (a *automaton) find(text []byte) (hits []hit) {
	next, report := a.next, a.stride-1
	var row int32
	for i, b := range text {
		row = next[row+int32(a.column[b])]
		state := next[row+report]
		if state == 0 {
			continue
		}
		for _, p := range a.ends[state] {
			hits = append(hits, hit{pattern: p, start: int32(i+1) - a.size[p], end: int32(i + 1)})
		}
	}
	return hits
}
