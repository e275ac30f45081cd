// Package paste finds the failures in what people paste: messages, Events as kubectl prints
// them in any form, lines of logs, and the errors of Terraform, the SDKs and the aliyun CLI
// that carry the same codes and texts. It takes the message out of the text and says what
// kind of text it was; the classifier of package event names the class, as strict as ever.
//
// It serves people alone: what comes from the stream is one Event and nothing to search, and
// nothing but a command can import this package.
package paste

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Kind is what a text was found to be.
type Kind string

// The kinds of text.
const (
	Message  Kind = "message"          // a message alone, and anything that no other kind is
	Fields   Kind = "fields"           // a JSON object with reason, type, component and message
	Event    Kind = "event"            // a Kubernetes Event, in JSON or YAML
	Table    Kind = "kubectl-events"   // a row of kubectl get events or kubectl events
	Describe Kind = "kubectl-describe" // a row of the Events that kubectl describe prints, or an Event described
	Log      Kind = "log"              // a line of a log
	API      Kind = "api-response"     // what an API of Alibaba Cloud answers, in JSON or XML
	SDK      Kind = "sdk"              // an error of an SDK of Alibaba Cloud
	CLI      Kind = "aliyun-cli"       // an error of the aliyun CLI
	Tool     Kind = "terraform"        // an error of Terraform, or of what is built on its provider
	Object   Kind = "object"           // something of Kubernetes that is no Event
	Cloud    Kind = "cloudevent"       // a failure that lbremedy published
)

// A Text is one message that was found, without secrets.
type Text struct {
	Kind    Kind
	Input   event.Input
	Or      string // the message if its lines were broken within words; empty if they weren't broken
	Service string // "namespace/name", or the name alone; empty if the text does not say
	Why     string // why it tells of no failed sync, as a sentence; empty if the classifier decides
}

// Classify returns what a classifier says of the text.
func (t Text) Classify(by *event.Classifier) event.Match {
	if t.Why != "" {
		return event.Match{Class: event.Ignored, Why: t.Why}
	}
	m := by.Classify(t.Input)
	if said := t.Input.Message; m.Class == event.Unclassified && t.Kind == Message && mentions().MatchString(said) && !complains().MatchString(said) {
		return event.Match{Class: event.Ignored, Why: "It names an annotation, and tells of no error."}
	}
	if t.Or != "" && (m.Class == event.Ignored || m.Class == event.Unclassified) {
		in := t.Input
		in.Message = t.Or
		if other := by.Classify(in); other.Class != event.Ignored {
			return other
		}
	}
	return m
}

// A Reader takes lines one by one and finds the texts in them.
type Reader struct {
	yield func(Text) error

	block   []string // lines of a text that is not at its end
	size    int
	more    func(line string) (more, last bool) // whether a line belongs to the block, and ends it
	done    func(text string) error             // takes the block
	table   *columns                            // of the rows that come
	cut     string                              // what the next line has of the last column's name
	service string                              // that is described
	raw     string                              // the line as it came
	flat    bool                                // no JSON of several lines, and no YAML
	level   int                                 // how many values in JSON are around the one that is read
}

// NewReader returns a reader that gives what it finds to yield.
func NewReader(yield func(Text) error) *Reader {
	return &Reader{yield: yield}
}

// ErrLong is returned for a text that no tool prints.
var ErrLong = errors.New("a text in it is too long")

// most is how many bytes one text can have.
const most = 512 << 20

// What tools put into lines, and before them: colours, the marks of a quotation, the time.
var (
	colours = regex.New("\x1b\\[[0-9;]*[A-Za-z]")
	quoted  = regex.New(`^(?:> ?)+`)
	fence   = regex.New("^\\s*```\\w*\\s*$")
	stamp   = regex.New(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d) +(?:(?:stdout|stderr) [FP] )?`)
)

// Line takes a line without its end.
func (r *Reader) Line(line string) error {
	line = strings.TrimRight(colours().ReplaceAllString(line, ""), "\r")
	line = quoted().ReplaceAllString(line, "")
	if fence().MatchString(line) {
		line = ""
	}
	r.raw = line
	line = stamp().ReplaceAllString(line, "")
	if r.more != nil {
		more, last := r.more(line)
		if more {
			if r.size += len(line); r.size > most {
				return ErrLong
			}
			r.block = append(r.block, line)
		}
		if more && !last {
			return nil
		}
		if err := r.Close(); err != nil || more {
			return err
		}
	}
	return r.begin(line)
}

// Close takes what is left as it is.
func (r *Reader) Close() error {
	if r.more == nil {
		return nil
	}
	text, done := strings.Join(r.block, "\n"), r.done
	r.block, r.size, r.more, r.done = nil, 0, nil, nil
	return done(text)
}

// open begins a text of several lines.
func (r *Reader) open(line string, more func(string) (more, last bool), done func(string) error) error {
	r.block, r.size, r.more, r.done = []string{line}, len(line), more, done
	return nil
}

// until returns what takes all lines up to one that has the end in it.
func until(end string) func(string) (bool, bool) {
	return func(line string) (bool, bool) { return true, strings.Contains(line, end) }
}

// The beginnings of texts of several lines.
var (
	headOpens  = regex.New(`^Name:\s+\S`)
	headLine   = regex.New(`^(?:\s|[A-Z][\w ()-]*:)`)
	eventsLine = regex.New(`^Events:\s*(<none>)?\s*$`)
	xmlOpens   = regex.New(`^\s*<(?:\?xml|Error>)`)
	keyOpens   = regex.New(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	keyed      = regex.New(`^[\w.@-]+:\s+(\{.*\})$`)
	levelOpens = regex.New(`^Level:\s*(?:Normal|Warning)\s*$`)
)

// begin looks at a line that begins a text.
func (r *Reader) begin(line string) error {
	trimmed := strings.TrimSpace(line)
	switch {
	case trimmed == "":
		r.table = nil
		return nil
	case objectOpens().MatchString(trimmed) && (!r.flat || json.Valid([]byte(trimmed))):
		return r.beginObject(trimmed)
	case trimmed == "---":
		return nil
	case keyed().MatchString(trimmed) && json.Valid([]byte(keyed().FindStringSubmatch(trimmed)[1])): // a log as a console shows it
		return r.object(keyed().FindStringSubmatch(trimmed)[1])
	case yamlOpens().MatchString(line) && !r.flat:
		return r.open(line, yamlGoesOn, r.yaml)
	case keyOpens().MatchString(line) && !strings.Contains(line, "-----END"):
		return r.open(line, until("-----END"), r.plain)
	case xmlOpens().MatchString(line) && !strings.Contains(line, "</Error>"):
		return r.open(line, until("</Error>"), r.plain)
	case levelOpens().MatchString(line):
		return r.open(line, until("Message:"), r.levels)
	case headOpens().MatchString(line):
		return r.open(line, func(line string) (bool, bool) {
			more := headLine().MatchString(line) && !headOpens().MatchString(line)
			return more, more && eventsLine().MatchString(line)
		}, r.described)
	case eventsLine().MatchString(line):
		return r.described(line)
	}
	if r.header(line) {
		return nil
	}
	if more := goesOn(trimmed); more != nil {
		return r.open(line, more, r.plain)
	}
	if more := breaks(line); more != nil {
		return r.open(line, more, r.broken)
	}
	return r.plain(line)
}

// plain takes a text that is neither JSON nor YAML: a row, a line of a log, an error of a
// tool, or a message.
func (r *Reader) plain(text string) error {
	if t, ok := r.row(text); ok {
		return r.found(t)
	}
	if t, ok := logLine(text); ok {
		return r.found(t)
	}
	if t, ok := toolError(text); ok {
		return r.found(t)
	}
	if kind, why := noFailure(text); why != "" {
		return r.found(Text{Kind: kind, Input: event.Input{Message: text}, Why: why})
	}
	if !strings.Contains(text, "\n") && strings.HasSuffix(r.raw, text) {
		text = r.raw // the time before it says that it is a line of a log
	}
	for _, part := range messages(text) {
		if err := r.found(Text{Kind: Message, Input: event.Input{Message: part}}); err != nil {
			return err
		}
	}
	return nil
}

var (
	mentions  = regex.New(`service\.beta\.kubernetes\.io/`)
	complains = regex.New(`(?i)error|fail|invalid|denied|refus|must|exceed|can ?not|not |错误|失败|无效|拒绝`)
	typed     = regex.New(`^\W*(?:kubectl|helm|lbremedy)\s`)
	annotated = regex.New(`^\W*service\.beta\.kubernetes\.io/[\w-]+"?\s*(?:[:=]\s*\S*)?$`)
)

// noFailure returns why a line is none: it is what somebody typed, or wrote into a manifest; empty if it may be one.
func noFailure(line string) (kind Kind, why string) {
	switch {
	case typed().MatchString(line):
		return Message, "It is a command, and not what a command printed."
	case annotated().MatchString(strings.TrimSpace(line)):
		return Message, "It is an annotation. To check a manifest: lbremedy doctor -f FILE"
	}
	return "", ""
}

// wrapper is what the controller begins its messages with.
var wrapper = regex.New(`(?:DryRun: *)?Error (?:syncing|deleting) load balancer(?: \[[^\]\s]*\])?:`)

// messages takes messages apart that stand on one line, as kubectl get events
// -o jsonpath={.items[*].message} prints them.
func messages(text string) []string {
	var all []string
	from := 0
	for i, at := range wrapper().FindAllStringIndex(text, -1) {
		if i > 0 && at[0] > 0 && text[at[0]-1] == ' ' {
			all = append(all, text[from:at[0]])
			from = at[0]
		}
	}
	return append(all, text[from:])
}

// flag is a secret that was typed behind a flag.
var flag = regex.New(`(--(?:access-key-id|access-key-secret|sts-token|password|token))[= ]+\S+`)

// found gives a text away, without secrets.
func (r *Reader) found(t Text) error {
	for _, s := range []*string{&t.Input.Reason, &t.Input.Type, &t.Input.Component, &t.Input.Message, &t.Or, &t.Service} {
		*s = event.Redact(flag().ReplaceAllString(*s, "$1=***"))
	}
	return r.yield(t)
}
