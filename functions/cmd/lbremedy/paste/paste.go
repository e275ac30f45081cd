// Package paste finds failures in what people paste: messages, Events in any form of kubectl, log lines, and errors of Terraform, the SDKs and the
// aliyun CLI. It extracts the messages and their kinds; package event's classifier then names the class, as strictly as ever. Begin with Reader.
//
// It is for people's input only: a message of the stream is a single Event and is not searched. Only commands may import this package.
package paste

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Kind is the kind of a text.
type Kind string

// Kinds of text.
const (
	Message  Kind = "message"          // a message alone, and anything of no other kind
	Fields   Kind = "fields"           // a JSON object with reason, type, component and message
	Event    Kind = "event"            // a Kubernetes Event, in JSON or YAML
	Table    Kind = "kubectl-events"   // a row of kubectl get events or kubectl events
	Describe Kind = "kubectl-describe" // an Event in the output of kubectl describe, of an object or of the Event
	Log      Kind = "log"              // a line of a log
	API      Kind = "api-response"     // an answer of an Alibaba Cloud API, in JSON or XML
	SDK      Kind = "sdk"              // an error of an Alibaba Cloud SDK
	CLI      Kind = "aliyun-cli"       // an error of the aliyun CLI
	Tool     Kind = "terraform"        // an error of Terraform, or of a tool built on its provider
	Object   Kind = "object"           // another Kubernetes object
	Cloud    Kind = "cloudevent"       // a failure published by lbremedy
)

// A Text is one message, without secrets.
type Text struct {
	Kind    Kind
	Input   event.Input
	Or      string // the message if its lines were broken within words; empty otherwise
	Service string // "namespace/name", or only the name; empty if unknown
	Why     string // why it reports no failed sync, as a sentence; empty if the classifier decides
}

// Classify returns the classifier's result for the text.
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

	block   []string // lines of an unfinished text
	size    int
	more    func(line string) (more, last bool) // whether a line belongs to the block, and ends it
	done    func(text string) error             // receives the finished block
	table   *columns                            // of the following rows
	cut     string                              // rest of the last column's name, expected on the next line
	service string                              // being described
	raw     string                              // the original line
	flat    bool                                // no JSON of several lines, and no YAML
	level   int                                 // number of JSON values around the present one
}

// NewReader returns a reader that passes each text to yield.
func NewReader(yield func(Text) error) *Reader {
	return &Reader{yield: yield}
}

// ErrLong is returned for a text that no tool prints.
var ErrLong = errors.New("a text in it is too long")

// most limits the bytes of one text.
const most = 512 << 20

var (
	colours = regex.New("\x1b\\[[0-9;]*[A-Za-z]")
	quoted  = regex.New(`^(?:> ?)+`)
	fence   = regex.New("^\\s*```\\w*\\s*$")
	stamp   = regex.New(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d) +(?:(?:stdout|stderr) [FP] )?`)
)

// Line reads a line without its end.
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

// Close reads what is left.
func (r *Reader) Close() error {
	if r.more == nil {
		return nil
	}
	text, done := strings.Join(r.block, "\n"), r.done
	r.block, r.size, r.more, r.done = nil, 0, nil, nil
	return done(text)
}

func (r *Reader) open(line string, more func(string) (more, last bool), done func(string) error) error {
	r.block, r.size, r.more, r.done = []string{line}, len(line), more, done
	return nil
}

func until(end string) func(string) (bool, bool) {
	return func(line string) (bool, bool) { return true, strings.Contains(line, end) }
}

var (
	headOpens  = regex.New(`^Name:\s+\S`)
	headLine   = regex.New(`^(?:\s|[A-Z][\w ()-]*:)`)
	eventsLine = regex.New(`^Events:\s*(<none>)?\s*$`)
	xmlOpens   = regex.New(`^\s*<(?:\?xml|Error>)`)
	keyOpens   = regex.New(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	keyed      = regex.New(`^[\w.@-]+:\s+(\{.*\})$`)
	levelOpens = regex.New(`^Level:\s*(?:Normal|Warning)\s*$`)
)

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

func (r *Reader) plain(text string) error {
	for _, find := range []func(string) (Text, bool){r.row, logLine, toolError} {
		if t, ok := find(text); ok {
			return r.found(t)
		}
	}
	if why := noFailure(text); why != "" {
		return r.found(Text{Kind: Message, Input: event.Input{Message: text}, Why: why})
	}
	if !strings.Contains(text, "\n") && strings.HasSuffix(r.raw, text) {
		text = r.raw // a time before it marks a log line
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

// noFailure returns why a line was typed as a command, or belongs to a manifest; empty if it may be a failure.
func noFailure(line string) string {
	switch {
	case typed().MatchString(line):
		return "It is a command, and not what a command printed."
	case annotated().MatchString(strings.TrimSpace(line)):
		return "It is an annotation. To check a manifest: lbremedy doctor -f FILE"
	}
	return ""
}

var wrapper = regex.New(`(?:DryRun: *)?Error (?:syncing|deleting) load balancer(?: \[[^\]\s]*\])?:`)

// messages splits a line of kubectl get events -o jsonpath={.items[*].message}.
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

var flag = regex.New(`(--(?:access-key-id|access-key-secret|sts-token|password|token))[= ]+\S+`)

func (r *Reader) found(t Text) error {
	for _, s := range []*string{&t.Input.Reason, &t.Input.Type, &t.Input.Component, &t.Input.Message, &t.Or, &t.Service} {
		*s = event.Redact(flag().ReplaceAllString(*s, "$1=***"))
	}
	return r.yield(t)
}
