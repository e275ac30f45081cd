package events

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Row names the texts and error codes that one class is known by.
//
// A text is looked for in the message without regard to letter case, kinds of
// white space and its own trailing punctuation. A "*" in it stands for up to
// 200 bytes of anything. A text begins at the beginning of a word; one without
// a space is a whole word.
//
// A code is looked for where the message has a field for it, without regard to
// letter case. A code that ends in ".*" also stands for all codes below it.
type Row struct {
	Class string
	Codes []string
	Texts []string
}

// CheckRows reports what is wrong with a table: a class, text or code that is
// empty, and a text or code that two classes claim.
func CheckRows(rows []Row) error {
	texts, codes := map[string]string{}, map[string]string{}
	claim := func(of map[string]string, key, what, value, class string) error {
		if key == "" {
			return fmt.Errorf("class %s has an empty %s", class, what)
		}
		if other, taken := of[key]; taken && other != class {
			return fmt.Errorf("the %s %q belongs to two classes, %s and %s", what, value, other, class)
		}
		of[key] = class
		return nil
	}
	for _, r := range rows {
		if err := ValidClass(r.Class); err != nil {
			return fmt.Errorf("read the table of classes: %w", err)
		}
		for _, t := range r.Texts {
			if strings.Trim(foldText(t), "* ") == "" {
				t = ""
			}
			if err := claim(texts, foldText(t), "text", t, r.Class); err != nil {
				return err
			}
		}
		for _, c := range r.Codes {
			if err := claim(codes, strings.ToLower(c), "code", c, r.Class); err != nil {
				return err
			}
		}
	}
	return nil
}

// Input is a Kubernetes Event about a Service, as far as it tells the class.
// Fields that aren't known are empty.
type Input struct {
	Reason    string
	Type      string
	Component string
	Message   string
}

// How a match was made.
const (
	ByText = "text"
	ByCode = "code"
)

// A Match is the verdict on an Input.
type Match struct {
	Class    string // ID of a class, Unclassified or Ignored
	Matched  string // the text or code of the table that won; empty if none did
	By       string // ByText or ByCode; empty if none won
	RunnerUp string // the class that came second; empty if none did
	Why      string // why the runner-up lost, or else what decided, as a sentence
}

// A Classifier names the class of a failed load-balancer sync from the Event
// that tells of it. It is safe for concurrent use.
type Classifier struct {
	find     *automaton
	patterns []pattern // by the automaton's index
	entries  []entry
	codes    map[string]int32 // entry, by code in lower case
	families map[string]int32 // entry, by what stands before ".*"
	foretold []int32          // by state of the automaton: the entry meant by a message that breaks off there, or ambiguous
	gaps     int              // number of texts with a "*"
	scans    sync.Pool        // of *scan
}

// An entry is one text or code of a class.
type entry struct {
	class  string
	text   string // as the table has it
	length int32  // folded, without gaps
}

// A pattern is what the automaton looks for: a mark of the message's structure,
// or a text or a part of one.
type pattern struct {
	mark  mark
	entry int32 // of a text
	gap   int32 // index of a text with gaps; -1 for one without
	part  int32 // of a text with gaps
	parts int32
	whole bool // a text without a space: found as a whole word
}

// What foretold holds besides entries.
const (
	nothing   = -1 // no text begins so
	ambiguous = -2 // texts of several classes begin so
)

// NewClassifier returns a classifier with the table's classes. It panics on a
// table that CheckRows refuses: that is a mistake in the program.
func NewClassifier(rows []Row) *Classifier {
	if err := CheckRows(rows); err != nil {
		panic(err)
	}
	c := &Classifier{codes: map[string]int32{}, families: map[string]int32{}}
	var looked []string
	look := func(text string, p pattern) {
		looked = append(looked, text)
		c.patterns = append(c.patterns, p)
	}
	for _, m := range marks {
		look(m.text, pattern{mark: m.mark, entry: -1, gap: -1})
	}
	for _, r := range rows {
		for _, t := range r.Texts {
			folded := foldText(t)
			parts := slices.DeleteFunc(strings.Split(folded, "*"), func(s string) bool { return s == "" })
			id := c.enter(r.Class, t, int32(len(folded)-strings.Count(folded, "*")))
			if len(parts) == 1 {
				look(parts[0], pattern{entry: id, gap: -1, whole: !strings.Contains(parts[0], " ")})
				continue
			}
			for i, part := range parts {
				look(part, pattern{entry: id, gap: int32(c.gaps), part: int32(i), parts: int32(len(parts))})
			}
			c.gaps++
		}
		for _, code := range r.Codes {
			id := c.enter(r.Class, code, int32(len(code)))
			if family, ok := strings.CutSuffix(strings.ToLower(code), ".*"); ok {
				c.families[family] = id
			} else {
				c.codes[strings.ToLower(code)] = id
			}
		}
	}
	c.find = newAutomaton(looked)
	c.foresee(looked)
	c.scans.New = func() any { return &scan{c: c, gaps: make([]progress, c.gaps)} }
	return c
}

func (c *Classifier) enter(class, text string, length int32) int32 {
	c.entries = append(c.entries, entry{class: class, text: text, length: length})
	return int32(len(c.entries) - 1)
}

// foresee fills in which text a message means that breaks off: the shortest of
// those that begin so, if they are all of one class.
func (c *Classifier) foresee(looked []string) {
	c.foretold = slices.Repeat([]int32{nothing}, len(c.find.depth))
	for id, text := range looked {
		p := c.patterns[id]
		if p.mark != noMark || p.gap >= 0 {
			continue
		}
		var row int32
		for i := range len(text) {
			row = c.find.next[row+int32(c.find.column[text[i]])]
			was := &c.foretold[row/c.find.stride]
			switch {
			case *was == ambiguous:
			case *was == nothing:
				*was = p.entry
			case c.entries[*was].class != c.entries[p.entry].class:
				*was = ambiguous
			case c.entries[p.entry].length < c.entries[*was].length:
				*was = p.entry
			}
		}
	}
}

// The reasons of Events that tell of a failed sync. Failed is the kubelet's
// too: there the controller's own wording decides.
const reasonFailed = "Failed"

// Watched reports whether Events with this reason can tell of a failed sync.
func Watched(reason string) bool {
	switch reason {
	case "SyncLoadBalancerFailed", "CleanLoadBalancerFailed", "DeleteLoadBalancerFailed",
		"CreatingLoadBalancerFailed", "DeletingLoadBalancerFailed",
		"UnAvailableLoadBalancer", "NoBackend", "SkipSyncBackends", reasonFailed:
		return true
	}
	return false
}

// DryRun reports whether the message is of the controller's check before an
// upgrade: such an Event is reported and never acted on.
func DryRun(message string) bool {
	text := fold(nil, message[:min(len(message), 256)])
	return bytes.Contains(text[:start(text)], []byte(prefixDryRun))
}

// Components of the Alibaba Cloud controller that sync Services.
const (
	componentCLB = "service-controller" // the name that other clouds' controllers use too
	componentNLB = "nlb-controller"
)

// Classify names the class of the failure that the Event tells of: a class of
// the table, Unclassified for a failed load-balancer sync that no class
// covers, and Ignored for everything else, other clouds' failures included.
//
// The first error of an API in the message decides, before what follows it and
// before what the controller found itself; in it the longest text, and its
// error code if no text is known. It takes microseconds, and never more than a
// bounded time, since it reads no more than Cut leaves of the message.
func (c *Classifier) Classify(in Input) Match {
	if in.Component != "" && in.Component != componentCLB && in.Component != componentNLB {
		return ignored("The component " + clip(in.Component) + " is not the controller of load balancers.")
	}
	if in.Reason != "" && !Watched(in.Reason) {
		return ignored("The reason " + clip(in.Reason) + " does not tell of a failed sync.")
	}
	s := c.scans.Get().(*scan)
	defer c.scans.Put(s)
	s.read(in.Message)
	return s.verdict(in)
}

func ignored(why string) Match { return Match{Class: Ignored, Why: why} }

func unclassified(why string) Match { return Match{Class: Unclassified, Why: why} }

// A mark is a text that shows the structure of a message.
type mark uint8

const (
	noMark mark = iota
	markWrapper
	markUpstream
	markController
	markAPI
	markForeign
	markError
	markMessage
	markResidue
	markCode
	markURL
	markNested
	markRBAC
)

// marks are the texts that show how a message is built, folded.
var marks = []struct {
	mark mark
	text string
}{
	// What the controller begins its messages with. All but the first four are
	// older than a bracket with the load balancer's ID; other clouds' service
	// controllers begin theirs in the same way.
	{markWrapper, "error syncing load balancer"},
	{markWrapper, "error deleting load balancer"},
	{markWrapper, "fail to ensure loadbalancer, error"},
	{markWrapper, "fail to delete loadbalancer, error"},
	{markWrapper, "error creating load balancer"},
	{markWrapper, "error deleting:"},

	// How the service controller of Kubernetes, which other clouds use, goes on.
	{markUpstream, "failed to ensure load balancer"},
	{markUpstream, "failed to delete load balancer"},
	{markUpstream, "failed to check if load balancer"},
	{markUpstream, "failed to add load balancer"},
	{markUpstream, "failed to remove load balancer"},
	{markUpstream, "failed to update load balancer"},

	// Words of the Alibaba Cloud controller alone.
	{markController, "alicloud:"},
	{markController, "alicloud-loadbalancer"},
	{markController, "alibaba-cloud-loadbalancer"},
	{markController, "apply model error"},
	{markController, "build lb local model error"},
	{markController, "build nlb local model error"},
	{markController, "build nlb attribute error"},
	{markController, "build vserver groups error"},
	{markController, "update lb attribute error"},
	{markController, "cleanup lb error"},
	{markController, "create lb error"},
	{markController, "create slb error"},
	{markController, "create nlb error"},
	{markController, "unprocessed listeners in reconcile"},
	{markController, "kubernetes.do.not.delete"},

	// Words of Alibaba Cloud's APIs and SDKs.
	{markAPI, "aliyuncs.com"},
	{markAPI, "api.aliyun.com"},
	{markAPI, "[sdk."},

	// Words of other clouds.
	{markForeign, "googleapi"},
	{markForeign, "arn:aws"},
	{markForeign, "amazonaws"},
	{markForeign, "azure"},
	{markForeign, "retriable:"},
	{markForeign, "microsoft."},
	{markForeign, "original error:"},
	{markForeign, "openstack"},
	{markForeign, "tencentcloud"},
	{markForeign, "huaweicloud"},
	{markForeign, "volcengine"},
	{markForeign, "digitalocean"},
	{markForeign, "hcloud"},

	// Where the error of an API call begins.
	{markError, "aliyun api error"},
	{markError, "[sdkerror]"},
	{markError, "sdkerror:"},
	{markError, "sdk.servererror"},
	{markError, "sdk.clienterror"},

	// What an API says, and where it ends: there the next error of an
	// aggregate follows, or the wrappers of a next one.
	{markMessage, "message:"},
	{markResidue, "., "},
	{markResidue, ". , "},
	{markResidue, ", alicloud:"},

	{markCode, "code:"},
	{markCode, "code :"},
	{markCode, "code="},
	{markCode, `code":`},
	{markCode, `code" :`},

	// Parts that say nothing of their own: addresses, and data that was sent or
	// received. They can hold any word.
	{markURL, "http://"},
	{markURL, "https://"},
	{markNested, "data: {"},
	{markNested, "data:{"},
	{markNested, "data: map["},
	{markNested, "data:map["},
	{markNested, "respheaders: map["},
	{markNested, "accessdenieddetail: map["},
	{markNested, "accessdenieddetail: {"},

	// The API server of Kubernetes refuses; what follows is its story.
	{markRBAC, `is forbidden: user "system:`},
}

// A scan reads one message. It is used again, so that reading allocates nothing.
type scan struct {
	c    *Classifier
	text []byte // folded
	hits []hit
	gaps []progress

	begin      int32 // where the message begins, without what Kubernetes put before it
	body       int32 // where it goes on behind the wrapper
	skip       int32 // up to here it says nothing
	wrapped    wrapper
	upstream   bool
	controller bool // words of the controller
	api        bool // words of Alibaba Cloud
	foreign    bool // words of another cloud

	region  int32 // number of the error that is being read; 0 before the first
	message bool  // in the region, what the API says has begun
	residue bool  // and has ended

	best, second candidate
}

// A wrapper is what the controller begins a message with.
type wrapper uint8

const (
	bare    wrapper = iota // nothing
	plain                  // "Error syncing load balancer: "
	service                // "…: failed to ensure load balancer for service ns/name: "
	own                    // with a bracket, or in words that no other cloud uses
)

// A progress is how far a text with gaps was found.
type progress struct{ next, start, end int32 }

// widest is how many bytes a gap of a text may have.
const widest = 200

// A candidate is a text or code that was found.
type candidate struct {
	entry  int32 // -1 for none
	region int32
	start  int32
	code   bool
	cut    bool // the message breaks off in it
	late   bool // it stands behind what the API says
}

var none = candidate{entry: -1}

// order returns the region's rank: what the controller found itself comes last,
// since it shows an API's error instead where it has one.
func (x candidate) order() int32 {
	if x.region == 0 {
		return 1 << 30
	}
	return x.region
}

// better reports whether a wins over b, and why b lost.
func (s *scan) better(a, b candidate) (bool, string) {
	switch {
	case b.entry < 0 || a.entry < 0:
		return a.entry >= 0, ""
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
	return a.start < b.start, "is no longer and comes later"
}

// offer takes a candidate into account.
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

// read finds what the message says.
func (s *scan) read(message string) {
	*s = scan{c: s.c, text: s.text[:0], hits: s.hits[:0], gaps: s.gaps, best: none, second: none}
	clear(s.gaps)
	s.text = fold(s.text, Cut(message))
	s.begin = start(s.text)
	s.body = s.begin
	s.hits = s.c.find.find(s.text, s.hits)
	for _, h := range s.hits {
		p := &s.c.patterns[h.pattern]
		if p.mark == markAPI {
			s.api = true // in an address too
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
		case markForeign:
			s.foreign = s.foreign || s.wordAt(h.start)
		case markError:
			s.enterError(h)
		case markMessage:
			s.message = s.message || !s.residue
			// No other controller lets it stand alone behind the wrapper.
			s.controller = s.controller || s.wrapped != bare && h.start == s.body
		case markResidue:
			s.residue = s.residue || s.message
		case markCode:
			s.code(h)
		case markURL:
			s.skip = s.endOfWord(h.end)
		case markNested:
			s.skip = s.endOfNested(h.end - 1)
		case markRBAC:
			s.skip = int32(len(s.text))
		}
	}
	if s.best.entry < 0 && s.skip < int32(len(s.text)) {
		s.broken()
	}
}

// unwrap takes in how the message begins. What stood before is of no
// interest: a pasted table, a line of a log.
func (s *scan) unwrap(h hit) {
	if s.wrapped != bare || !s.wordAt(h.start) {
		return
	}
	s.region, s.message, s.residue = 0, false, false
	s.controller, s.foreign, s.upstream = false, false, false
	s.best, s.second = none, none
	clear(s.gaps)
	s.begin, s.wrapped = h.start, plain
	rest := s.text[h.end:]
	if bytes.HasPrefix(s.text[h.start:], []byte("fail to")) {
		s.wrapped = own
	} else if bytes.HasPrefix(rest, []byte(" [")) {
		if n := bytes.IndexByte(rest[:min(len(rest), 256)], ']'); n >= 0 {
			s.wrapped = own
			rest = rest[n+1:]
		}
	}
	s.skip = int32(len(s.text) - len(rest))
	rest = bytes.TrimPrefix(rest, []byte(" (will retry)"))
	rest = bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(":")), " ")
	s.body = int32(len(s.text) - len(rest))
}

// continued takes in how Kubernetes's own service controller goes on after its wrapper.
func (s *scan) continued(h hit) {
	if s.wrapped == own || h.start != s.body {
		return
	}
	rest := s.text[h.end:]
	if s.wrapped == plain && bytes.HasPrefix(rest, []byte(" for service ")) {
		s.wrapped = service
		if n := bytes.Index(rest, []byte(": ")); n >= 0 {
			s.body = h.end + int32(n+len(": "))
		}
		return
	}
	s.upstream = true
}

// enterError takes in that the error of an API call begins.
func (s *scan) enterError(h hit) {
	if !s.wordAt(h.start) {
		return
	}
	s.api = true
	s.region++
	s.message, s.residue = false, false
	clear(s.gaps)
}

// found takes in a text, or a part of one.
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
	} else if !s.wordAt(h.start) || p.whole && !s.wordEnds(h.end) {
		return
	}
	s.offer(candidate{entry: p.entry, region: s.region, start: h.start, late: s.residue})
}

// code takes in the error code of a field "Code: X", "ErrorCode: X",
// "Code":"X" or Code="X".
func (s *scan) code(h hit) {
	field := h.start
	if bytes.HasSuffix(s.text[:field], []byte("error")) {
		field -= int32(len("error"))
	}
	if !s.wordAt(field) || field > 0 && s.text[field-1] == '_' {
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
	code := bytes.TrimRight(s.text[i:end], ".-_")
	id, known := s.c.codes[string(code)]
	for family := code; !known && len(family) > 0; {
		id, known = s.c.families[string(family)]
		family = family[:max(0, bytes.LastIndexByte(family, '.'))]
	}
	if known {
		s.offer(candidate{entry: id, region: s.region, start: h.start, late: s.residue, code: true})
	}
}

// broken looks for a text that the end of the message breaks off: at least 16
// characters and 7 of 10 of it, and no other class's text begins so.
func (s *scan) broken() {
	text := bytes.TrimRight(s.text, " .…")
	state := s.c.find.state(text[max(0, len(text)-400):])
	for ; state != 0; state = s.c.find.fail[state] {
		depth, id := s.c.find.depth[state], s.c.foretold[state]
		if depth < 16 || id == ambiguous {
			return
		}
		begin := int32(len(text)) - depth
		if id >= 0 && depth*10 >= s.c.entries[id].length*7 && s.wordAt(begin) {
			s.offer(candidate{entry: id, region: s.region, start: begin, late: s.residue, cut: true})
			return
		}
	}
}

// endOfWord returns where an address ends that goes on at s.text[i:].
func (s *scan) endOfWord(i int32) int32 {
	if n := bytes.IndexAny(s.text[i:], " \"'<>"); n >= 0 {
		return i + int32(n)
	}
	return int32(len(s.text))
}

// endOfNested returns where the bracket ends that opens at s.text[i].
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

// wordAt reports whether s.text[i:] begins at the beginning of a word.
func (s *scan) wordAt(i int32) bool {
	return i == 0 || !word(s.text[i-1]) || !word(s.text[i])
}

// wordEnds reports whether a word ends at s.text[:i]: a name goes on with
// hyphens, and with dots that a letter follows.
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

// word reports whether a folded byte belongs to a word.
func word(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 0x80 }
