package event

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

type scan struct {
	c    *Classifier
	text []byte // folded
	gaps []progress

	begin      int32 // start of the message, behind the prefixes of Kubernetes
	body       int32 // start of the text behind the wrapper
	skip       int32 // text up to here is ignored
	called     int32 // start of the result of a call to Alibaba Cloud; -1 before any
	wrapped    wrapper
	upstream   bool
	controller bool // it has words of the controller
	api        bool // it has words of Alibaba Cloud
	otherCloud bool // it has words of another cloud

	region  int32 // number of the current error; 0 before the first
	message bool  // in the region, the API's message has begun
	residue bool  // and has ended

	best, second candidate
}

type wrapper uint8

const (
	wrapNone    wrapper = iota // nothing
	wrapPlain                  // "Error syncing load balancer: "
	wrapService                // "…: failed to ensure load balancer for service ns/name: "
	wrapOwn                    // with a bracket, or in words that no other cloud uses
)

// A progress is the part found of a text with gaps.
type progress struct{ next, start, end int32 }

const widest = 200

type candidate struct {
	entry  int32 // -1 for none
	region int32
	start  int32
	code   bool
	cut    bool // the message breaks off in it
	late   bool // it follows the API's message
}

var none = candidate{entry: -1}

// order returns the region's rank. The controller's own findings come last: it shows an API's error instead if it has one.
func (x candidate) order() int32 {
	if x.region == 0 {
		return 1 << 30
	}
	return x.region
}

func (s *scan) better(a, b candidate) (bool, string) {
	switch {
	case b.entry < 0 || a.entry < 0:
		return a.entry >= 0, ""
	case b.region == 0 && a.region > 0:
		return true, "is what the controller found itself, and an API's error decides"
	case a.order() != b.order():
		return a.order() < b.order(), "stands in a later error of the message"
	case a.late != b.late:
		return b.late, "stands behind what the first error says"
	case a.code != b.code:
		return b.code, "is a code, and a known text decides"
	}
	long, short := s.c.entries[a.entry].length, s.c.entries[b.entry].length
	if long != short {
		return long > short, "is shorter"
	}
	return a.start < b.start, "is not longer and begins later"
}

func (s *scan) offer(x candidate) {
	class := func(y candidate) string { return s.c.entries[y.entry].class }
	if wins, _ := s.better(x, s.best); wins {
		if s.best.entry >= 0 && class(s.best) != class(x) {
			s.second = s.best
		}
		s.best = x
		return
	}
	if class(x) != class(s.best) {
		if wins, _ := s.better(x, s.second); wins {
			s.second = x
		}
	}
}

func (s *scan) read(message string) {
	s.text = fold(Cut(message))
	s.begin = start(s.text)
	s.body = s.begin
	for _, h := range s.c.find.find(s.text) {
		p := &s.c.patterns[h.pattern]
		switch p.mark { // in an address, too
		case markAPI:
			s.api = true
		case markForeign:
			s.otherCloud = s.otherCloud || s.wordAt(h.start)
		}
		if h.start < s.skip {
			continue
		}
		switch p.mark {
		case noMark:
			s.found(p, h)
		case markWrapper:
			s.unwrap(h)
		case markUpstream:
			s.continued(h)
		case markController:
			s.controller = true
		case markError:
			s.enterError(h)
		case markMessage:
			s.message = s.message || s.wordAt(h.start)
			// No other controller puts this word directly behind the wrapper.
			s.controller = s.controller || s.wrapped != wrapNone && h.start == s.body
		case markResidue:
			s.residue = s.residue || s.message
		case markCode:
			s.code(h)
		case markURL:
			s.skip = s.endOfWord(h.end)
			s.endOfCall(h.end)
			if ofKubernetes(s.text[h.end:s.skip]) {
				s.skip = int32(len(s.text)) // the reason why its API server does not answer belongs to it, too
			}
		case markNested:
			s.skip = s.endOfNested(h.end - 1)
		case markRest:
			s.skip = int32(len(s.text))
		}
	}
	if s.best.entry < 0 && s.skip < int32(len(s.text)) {
		s.broken()
	}
	if s.best.entry < 0 {
		s.bare()
	}
}

// unwrap handles the beginning of the message. Text before it, such as a log prefix, is ignored.
func (s *scan) unwrap(h hit) {
	if s.wrapped != wrapNone || !s.wordAt(h.start) {
		return
	}
	s.region, s.message, s.residue = 0, false, false
	s.controller, s.otherCloud, s.upstream = false, false, false
	s.best, s.second = none, none
	clear(s.gaps)
	s.begin, s.wrapped = h.start, wrapPlain
	rest := s.text[h.end:]
	if bytes.HasPrefix(s.text[h.start:], []byte("fail to")) {
		s.wrapped = wrapOwn
	} else if bytes.HasPrefix(rest, []byte(" [")) {
		if n := bytes.IndexByte(rest[:min(len(rest), 256)], ']'); n >= 0 {
			s.wrapped = wrapOwn
			rest = rest[n+1:]
		}
	}
	s.skip = int32(len(s.text) - len(rest))
	rest = bytes.TrimPrefix(rest, []byte(" (will retry)"))
	rest = bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(":")), " ")
	s.body = int32(len(s.text) - len(rest))
}

func (s *scan) continued(h hit) {
	if s.wrapped == wrapOwn || h.start != s.body {
		return
	}
	rest := s.text[h.end:]
	if s.wrapped == wrapPlain && bytes.HasPrefix(rest, []byte(" for service ")) {
		s.wrapped = wrapService
		if n := bytes.Index(rest, []byte(": ")); n >= 0 {
			s.body = h.end + int32(n+len(": "))
		}
		return
	}
	s.upstream = true
}

func (s *scan) enterError(h hit) {
	if !s.wordAt(h.start) {
		return
	}
	s.api = true
	s.region++
	s.message, s.residue = false, false
	clear(s.gaps)
}

func (s *scan) found(p *pattern, h hit) {
	if p.gap >= 0 {
		g := &s.gaps[p.gap]
		switch {
		case p.part > 0 && (p.part != g.next || h.start < g.end || h.start-g.end > widest):
			return
		case p.part > 0:
			g.next, g.end = g.next+1, h.end
		case s.wordAt(h.start):
			*g = progress{next: 1, start: h.start, end: h.end}
		}
		if p.part == 0 || g.next < p.parts {
			return
		}
		g.next = 0
		h.start = g.start
	} else if p.call && h.start != s.called || !s.wordAt(h.start) || p.whole && !s.wordEnds(h.end) {
		return
	}
	s.offer(candidate{entry: p.entry, region: s.region, start: h.start, late: s.residue})
}

// code handles Code: X, ErrorCode: X, "Code":"X" and Code="X".
func (s *scan) code(h hit) {
	field := h.start
	if bytes.HasSuffix(s.text[:field], []byte("error")) {
		field -= int32(len("error"))
	}
	// An API's message can quote anything, and the data after it repeats it.
	if s.message || !s.wordAt(field) || field > 0 && s.text[field-1] == '_' {
		return
	}
	i := h.end
	for i < int32(len(s.text)) && (s.text[i] == ' ' || s.text[i] == '"') && i < h.end+2 {
		i++
	}
	end := i
	for end < int32(len(s.text)) && (word(s.text[end]) || s.text[end] == '.' || s.text[end] == '_' || s.text[end] == '-') {
		end++
	}
	if end < int32(len(s.text)) && bytes.IndexByte([]byte(` ,;"')]}<`), s.text[end]) < 0 {
		return
	}
	if id, known := s.c.code(bytes.TrimRight(s.text[i:end], ".-_")); known {
		s.offer(candidate{entry: id, region: s.region, start: h.start, late: s.residue, code: true})
	}
}

// bare handles a code without a field, as on the vendor's pages: it is the whole message, or precedes the API's message.
func (s *scan) bare() {
	code, _, _ := bytes.Cut(s.text[s.body:], []byte(" message:"))
	code = bytes.TrimRight(code, " .…")
	if id, known := s.c.code(code); known && !bytes.Contains(code, []byte(" ")) {
		s.offer(candidate{entry: id, start: s.body, code: true})
	}
}

// leastBroken is how many bytes a text needs that the message cuts off. longestBroken is how many of the message are searched.
const (
	leastBroken   = 16
	longestBroken = 400
)

// broken searches a text that the end of the message truncates: 7/10 of it must be there, and no text of another class may begin that way.
func (s *scan) broken() {
	text := bytes.TrimRight(s.text, " .…")
	first := max(0, len(text)-longestBroken)
	var all []candidate
	for _, p := range s.c.patterns {
		if p.mark != noMark || p.gap >= 0 || p.call || len(p.text) < leastBroken {
			continue
		}
		for at := first; ; at++ {
			n := bytes.Index(text[at:], []byte(p.text[:leastBroken]))
			if n < 0 {
				break
			}
			if at += n; strings.HasPrefix(p.text, string(text[at:])) {
				all = append(all, candidate{entry: p.entry, region: s.region, start: int32(at), late: s.residue, cut: true})
			}
		}
	}
	of := func(x candidate) entry { return s.c.entries[x.entry] }
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(of(a).length, of(b).length))
	})
	for i, x := range all {
		if i > 0 && all[i-1].start == x.start {
			continue
		}
		if slices.ContainsFunc(all[i:], func(y candidate) bool { return y.start == x.start && of(y).class != of(x).class }) {
			return
		}
		if (int32(len(text))-x.start)*10 >= of(x).length*7 && s.wordAt(x.start) {
			s.offer(x)
			return
		}
	}
}

func ofKubernetes(address []byte) bool {
	return bytes.Contains(address, []byte("/api/v1/")) || bytes.Contains(address, []byte("/apis/"))
}

// callQuote begins texts that only count behind an address of Alibaba Cloud.
const callQuote = `"`

// metadata is the address of an instance's metadata (ENDPOINT in the controller's pkg/provider/alibaba/base/metadata.go).
const metadata = "100.100.100.200"

// endOfCall notes the start of a call's result if the address s.text[host:s.skip] is Alibaba Cloud's.
func (s *scan) endOfCall(host int32) {
	end := host
	for end < s.skip && (word(s.text[end]) || s.text[end] == '-' || s.text[end] == '.') {
		end++
	}
	name := s.text[host:end]
	if end < s.skip && bytes.IndexByte([]byte(":/?"), s.text[end]) < 0 || !bytes.HasSuffix(name, []byte(".aliyuncs.com")) && string(name) != metadata {
		return
	}
	switch {
	case s.skip < int32(len(s.text)) && s.text[s.skip] == '"':
		s.called = s.skip + 1
	case s.text[s.skip-1] == ':': // unquoted: the colon does not belong to the address
		s.skip--
		s.called = s.skip
	}
}

func (s *scan) endOfWord(i int32) int32 {
	if n := bytes.IndexAny(s.text[i:], " \"'<>"); n >= 0 {
		return i + int32(n)
	}
	return int32(len(s.text))
}

func (s *scan) endOfNested(i int32) int32 {
	open, shut, depth := s.text[i], s.text[i]+2, 0 // "[" and "]", "{" and "}"
	for ; i < int32(len(s.text)); i++ {
		switch s.text[i] {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

func (s *scan) wordAt(i int32) bool {
	return i == 0 || !word(s.text[i-1]) || !word(s.text[i])
}

// wordEnds reports whether a word ends before i; hyphens, and dots before a letter, continue a name.
func (s *scan) wordEnds(i int32) bool {
	if int(i) == len(s.text) {
		return true
	}
	switch s.text[i] {
	case '-', '_', '/':
		return false
	case '.':
		return int(i)+1 == len(s.text) || !word(s.text[i+1])
	}
	return !word(s.text[i])
}

func word(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 0x80 }
