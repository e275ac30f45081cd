package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Row names the texts and error codes that identify a class.
//
// A text is searched in the message without regard to letter case, kinds of white space and its own trailing punctuation. A "*" in it
// matches up to 200 arbitrary bytes. A text begins at the beginning of a word; a text without a space is a whole word. A text that
// begins with a quote, such as `": EOF`, is the result of a call: it counts only right behind an address of Alibaba Cloud, quoted or,
// as before Go 1.14, unquoted.
//
// A code is searched where the message has a field for it or consists of it, without regard to letter case. A final "*" matches all
// codes with that prefix; a final ".*" also matches the prefix alone.
type Row struct {
	Class string
	Kinds []string // of the class's objects: KindNode, KindCluster, "" for Services; nil: Services only
	Codes []string
	Texts []string
}

func (r Row) answers(kind string) bool {
	return len(r.Kinds) == 0 && kind == "" || slices.Contains(r.Kinds, kind)
}

var kinds = []string{"", KindNode, KindCluster}

// CheckRows reports an empty class, text or code, and a text or code that two classes claim for objects of one kind.
func CheckRows(rows []Row) error {
	for _, kind := range kinds {
		if err := checkRows(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !r.answers(kind) })); err != nil {
			return err
		}
	}
	return nil
}

func checkRows(rows []Row) error {
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
			if strings.Trim(strings.TrimPrefix(foldText(t), callQuote), "* ") == "" {
				t = ""
			}
			if strings.HasPrefix(t, callQuote) && strings.Contains(t, "*") {
				return fmt.Errorf("the text %q of class %s begins with a quote: it must have no gap", t, r.Class)
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

// An Input holds the parts of a Kubernetes Event that decide its class. Unknown fields are empty.
type Input struct {
	Reason    string
	Type      string
	Component string
	Message   string
}

// Ways to match.
const (
	ByText   = "text"
	ByCode   = "code"
	ByReason = "reason" // of the Event, for a class that no text decides
)

// A Match is the verdict on an Input.
type Match struct {
	Class    string // ID of a class, Unclassified or Ignored
	Matched  string // the text or code of the table that won, or the reason; empty if none did
	By       string // ByText, ByCode or ByReason; empty if none won
	RunnerUp string // the class that came second; empty if none did
	Why      string // why the runner-up lost, or else what decided, as a sentence
}

// A Classifier names the class of a failed load-balancer sync from its Event. It is safe for concurrent use.
type Classifier struct {
	find     *automaton
	patterns []pattern // by the automaton's index
	entries  []entry
	codes    map[string]int32 // entry, by code in lower case
	families []family
	gaps     int // number of texts with a "*"
	classes  map[string]bool
	others   map[string]*Classifier // for other objects than Services, by kind
}

type family struct {
	prefix string // in lower case
	entry  int32
	alone  bool // only the prefix itself, without longer codes
}

type entry struct {
	class  string
	text   string // as in the table
	length int32  // folded, without gaps
	tells  bool   // a message with it is from Alibaba Cloud's controller
}

type pattern struct {
	text  string
	mark  mark
	entry int32 // of a text
	gap   int32 // index of a text with gaps; -1 for one without
	part  int32 // of a text with gaps
	parts int32
	whole bool // a text without a space: found as a whole word
	call  bool // a text that only counts behind an address of Alibaba Cloud
}

// NewClassifier returns a classifier with the table's classes. It panics on a table that CheckRows refuses.
func NewClassifier(rows []Row) *Classifier {
	if err := CheckRows(rows); err != nil {
		panic(err)
	}
	c := classifierOf(rows, "")
	c.others = map[string]*Classifier{KindNode: classifierOf(rows, KindNode), KindCluster: classifierOf(rows, KindCluster)}
	for _, r := range rows {
		c.classes[r.Class] = true
	}
	return c
}

func classifierOf(rows []Row, kind string) *Classifier {
	c := &Classifier{codes: map[string]int32{}, classes: map[string]bool{Unclassified: true}}
	var looked []string
	look := func(text string, p pattern) {
		p.text = text
		looked, c.patterns = append(looked, text), append(c.patterns, p)
	}
	for _, m := range marks {
		look(m.text, pattern{mark: m.mark, entry: -1, gap: -1})
	}
	for _, r := range rows {
		if !r.answers(kind) {
			continue
		}
		for _, t := range r.Texts {
			folded, call := strings.CutPrefix(foldText(t), callQuote)
			parts := slices.DeleteFunc(strings.Split(folded, "*"), func(s string) bool { return s == "" })
			id := c.enter(r.Class, t, int32(len(folded)-strings.Count(folded, "*")))
			if len(parts) == 1 {
				c.entries[id].tells = !call && telling(parts[0])
				look(parts[0], pattern{entry: id, gap: -1, whole: call || !strings.Contains(parts[0], " "), call: call})
				continue
			}
			c.entries[id].tells = c.entries[id].length >= tellingLength
			for i, part := range parts {
				look(part, pattern{entry: id, gap: int32(c.gaps), part: int32(i), parts: int32(len(parts))})
			}
			c.gaps++
		}
		for _, code := range r.Codes {
			id := c.enter(r.Class, code, int32(len(code)))
			c.entries[id].tells = true
			prefix, many := strings.CutSuffix(strings.ToLower(code), "*")
			if !many {
				c.codes[prefix] = id
				continue
			}
			c.families = append(c.families, family{prefix: prefix, entry: id})
			if base, ok := strings.CutSuffix(prefix, "."); ok {
				c.families = append(c.families, family{prefix: base, entry: id, alone: true})
			}
		}
	}
	slices.SortStableFunc(c.families, func(a, b family) int { return len(b.prefix) - len(a.prefix) })
	c.find = newAutomaton(looked)
	return c
}

// Knows reports whether failures can be of a class.
func (c *Classifier) Knows(class string) bool { return c.classes[class] }

func (c *Classifier) code(code []byte) (entry int32, known bool) {
	entry, known = c.codes[string(code)]
	for i := 0; !known && i < len(c.families); i++ {
		f := &c.families[i]
		entry, known = f.entry, string(code) == f.prefix || !f.alone && bytes.HasPrefix(code, []byte(f.prefix))
	}
	return entry, known
}

func (c *Classifier) enter(class, text string, length int32) int32 {
	c.entries = append(c.entries, entry{class: class, text: text, length: length})
	return int32(len(c.entries) - 1)
}

// reasonFailed is also a reason of the kubelet: the controller's own wording decides.
const reasonFailed = "Failed"

// Ensured is the reason of Events by which the controller reports a successful sync.
const Ensured = "EnsuredLoadBalancer"

// DryRun reports whether the message is from the controller's check before an upgrade, which is reported and never acted on.
func DryRun(message string) bool {
	text := fold(message[:min(len(message), 256)])
	return bytes.Contains(text[:start(text)], []byte(prefixDryRun))
}

// Classify returns the class of an Event's failure: a class of the table, Unclassified for a failed load-balancer sync that no class
// covers, and Ignored for everything else, including other clouds' failures.
//
// The first error of an API in the message decides, before later errors and the controller's own findings. In it the longest text
// decides, or the error code if no text is known. Classify takes bounded time: it reads only what Cut leaves.
func (c *Classifier) Classify(in Input) Match {
	w, known := warningOf(in.Reason)
	if in.Reason == "" {
		w = warningIn(in.Message)
	}
	switch {
	case in.Component != "" && !w.writes(in.Component):
		return ignored("The component " + clip(in.Component) + " is not the controller of load balancers.")
	case in.Reason != "" && !known:
		return ignored("The reason " + clip(in.Reason) + " does not tell of a failed sync.")
	case in.Reason != "" && !w.Failure:
		return ignored(w.Means)
	case in.Reason == Precheck && c.Knows(PrecheckClass):
		return Match{Class: PrecheckClass, Matched: in.Reason, By: ByReason, Why: w.Means}
	case in.Reason == Precheck:
		return unclassified(w.Means)
	case w.Kind != "":
		return c.others[w.Kind].verdict(in)
	}
	return c.verdict(in)
}

func (c *Classifier) verdict(in Input) Match {
	s := &scan{c: c, gaps: make([]progress, c.gaps), best: none, second: none, called: -1}
	s.read(in.Message)
	return s.verdict(in)
}

func ignored(why string) Match { return Match{Class: Ignored, Why: why} }

func unclassified(why string) Match { return Match{Class: Unclassified, Why: why} }
