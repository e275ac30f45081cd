package paste

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// objectOpens matches the beginning of JSON, whole or broken, but not a bracketed text, such as a Pod's name before a log line.
var objectOpens = regex.New(`^(?:\{\s*(?:"|\}|$)|\[\s*(?:[{\["]|\]|$))`)

func (r *Reader) beginObject(line string) error {
	var d depth
	if d.add(line); d.level <= 0 || d.text { // a JSON string ends on its line
		return r.object(line)
	}
	return r.open(line, func(line string) (bool, bool) {
		d.add(line)
		return true, d.level <= 0 || d.text
	}, r.object)
}

type depth struct {
	level int
	text  bool
}

func (d *depth) add(line string) {
	d.text = false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case d.text && c == '\\':
			i++
		case c == '"':
			d.text = !d.text
		case d.text:
		case c == '{' || c == '[':
			d.level++
		case c == '}' || c == ']':
			d.level--
		}
	}
}

func (r *Reader) object(text string) error {
	if json.Valid([]byte(text)) {
		return r.value([]byte(text))
	}
	return r.each(text)
}

func (r *Reader) each(text string) error {
	q := NewReader(r.yield)
	q.flat, q.level = true, r.level
	for line := range strings.Lines(text) {
		if err := q.Line(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return q.Close()
}

// A value is a JSON object as far as needed to recognize it. The first letter's case counts: Message is an API's, message an Event's.
type value struct {
	SpecVersion string
	Kind        string
	APIVersion  string
	Items       []json.RawMessage

	Reason, Type, Note  string
	InvolvedObject      reference
	Regarding           reference
	Source              struct{ Component string }
	DeprecatedSource    struct{ Component string }
	ReportingComponent  string
	ReportingController string
}

type reference struct{ Kind, Namespace, Name string }

// deepest is how deep JSON values may nest. Each level reads everything within it again.
const deepest = 16

func (r *Reader) value(data []byte) error {
	if r.level == deepest {
		return r.found(Text{Kind: Fields, Why: "The JSON is nested too deep to be read."})
	}
	r.level++
	defer func() { r.level-- }()
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		var all []json.RawMessage
		_ = json.Unmarshal(data, &all) // valid at this point
		return r.values(all)
	}
	keys := map[string]json.RawMessage{}
	_ = json.Unmarshal(data, &keys) // only an object has keys
	text := func(names ...string) string { return textIn(keys, names...) }
	var v value
	_ = json.Unmarshal(data, &v) // fields of another type are ignored
	switch {
	case strings.HasSuffix(v.Kind, "List") && keys["items"] != nil:
		return r.values(v.Items)
	case v.Kind == "Event" || keys["involvedObject"] != nil || keys["regarding"] != nil:
		return r.event(v, text("message", "note"))
	}
	if inner := event.Unwrap(data); inner != nil {
		return r.value(inner)
	}
	for _, path := range [][]string{{"hits", "hits"}, {"resourceLogs"}, {"scopeLogs"}, {"logRecords"}} { // Elasticsearch and OpenTelemetry
		at := keys
		for _, key := range path[:len(path)-1] {
			at = keysIn(at[key])
		}
		var all []json.RawMessage
		if json.Unmarshal(at[path[len(path)-1]], &all) == nil && all != nil {
			return r.values(all)
		}
	}
	switch nested := keysIn(keysIn(keys["kubernetes"])["event"]); {
	case nested != nil: // Metricbeat
		return r.fields(nested)
	case keys["_source"] != nil: // a search result
		return r.value(keys["_source"])
	case keys["attributes"] != nil && textIn(keysIn(keys["body"]), "stringValue") != "":
		return r.record(keys)
	case v.SpecVersion != "" && keys["data"] != nil:
		return r.published(keys["data"])
	case text("Code") != "" && keys["Message"] != nil && (keys["RequestId"] != nil || keys["HostId"] != nil):
		return r.found(answered(text("Code"), text("Message"), string(data)))
	case text(lines...) != "" && keys["message"] == nil:
		return r.logged(text(lines...))
	case text("msg", "logger", "error") != "" && text("logger", "error", "err", "reason", "level", "severity", "lvl", "caller") != "" &&
		(keys["msg"] != nil || text("level", "severity", "lvl") != ""):
		return r.found(logRecord(text))
	case text("@level") != "" && text("@message") != "": // terraform -json
		return r.each(text("@message"))
	case v.Kind != "" && v.APIVersion != "":
		return r.found(Text{Kind: Object, Why: "It is a " + event.Redact(v.Kind) + " and no Event."})
	}
	for _, of := range []string{"text", "markdown"} { // DingTalk and WeCom
		if said := textIn(keysIn(keys[of]), "content", "text"); said != "" {
			return r.each(said)
		}
	}
	return r.fields(keys)
}

// record reads an Event from OpenTelemetry's receiver k8sevents: the message is the body, the rest are attributes.
func (r *Reader) record(keys map[string]json.RawMessage) error {
	var list []struct {
		Key   string
		Value struct{ StringValue string }
	}
	_ = json.Unmarshal(keys["attributes"], &list) // attributes of another type are ignored
	of := map[string]string{}
	for _, a := range list {
		of[a.Key] = a.Value.StringValue
	}
	return r.found(Text{Kind: Fields, Service: name(of["k8s.namespace.name"], objectOf(of["k8s.event.name"])), Input: event.Input{
		Reason: of["k8s.event.reason"], Type: textIn(keys, "severityText"), Message: textIn(keysIn(keys["body"]), "stringValue")}})
}

// eventName matches the name of an Event: the object's name, and the time in nanoseconds.
var eventName = regex.New(`^(.+)\.[0-9a-f]{14,20}$`)

func objectOf(name string) string { return eventName().ReplaceAllString(name, "$1") }

func keysIn(data json.RawMessage) (keys map[string]json.RawMessage) {
	_ = json.Unmarshal(data, &keys)
	return keys
}

func textIn(keys map[string]json.RawMessage, names ...string) string {
	for _, name := range names {
		var s string
		if json.Unmarshal(keys[name], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

func (r *Reader) values(all []json.RawMessage) error {
	for _, data := range all {
		if string(data) == "null" {
			continue
		}
		if err := r.value(data); err != nil {
			return err
		}
	}
	return nil
}

var lines = []string{"log", "content", "MESSAGE", "line", "_msg"}

func (r *Reader) logged(line string) error {
	line = strings.TrimSpace(line)
	if t, ok := logLine(line); ok {
		return r.found(t)
	}
	return r.found(Text{Kind: Log, Input: event.Input{Message: line}, Why: notController})
}

func (r *Reader) event(v value, message string) error {
	of := cmp.Or(v.InvolvedObject, v.Regarding)
	t := Text{Kind: Event, Service: name(of.Namespace, of.Name), Input: event.Input{
		Reason: v.Reason, Type: v.Type, Message: message,
		Component: cmp.Or(v.Source.Component, v.DeprecatedSource.Component, v.ReportingComponent, v.ReportingController),
	}}
	return r.found(about(t, of.Kind))
}

func (r *Reader) published(data []byte) error {
	var v struct {
		Reason, Type, Component, Message string
		Service                          struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return r.found(Text{Kind: Cloud, Why: "It is not a failure that lbremedy publishes."})
	}
	return r.found(Text{Kind: Cloud, Service: name(v.Service.Namespace, v.Service.Name),
		Input: event.Input{Reason: v.Reason, Type: v.Type, Component: v.Component, Message: v.Message}})
}

// about ignores an Event about another object, unless its reason is that of such an object's failure.
func about(t Text, kind string) Text {
	switch strings.ToLower(kind) {
	case "", "service", "services", "svc":
	default:
		if of, ok := event.FailureOf(t.Input.Reason); ok && of != "" {
			t.Service = ""
			return t
		}
		t.Why, t.Service = "The Event is about a "+event.Redact(kind)+" and not about a Service.", ""
	}
	return t
}

func name(namespace, name string) string {
	if namespace == "" || name == "" {
		return name
	}
	return namespace + "/" + name
}

// Keys of an Event's texts, as exporters name them. kube-eventer's webhook uses those that begin with Event.
var (
	messageKeys   = []string{"message", "Message", "EventMessage", "msg"}
	reasonKeys    = []string{"reason", "Reason", "EventReason"}
	typeKeys      = []string{"type", "Type", "EventType"}
	componentKeys = []string{"component", "Component", "EventComponent"}
	kindKeys      = []string{"kind", "Kind", "EventKind"}
)

var noKeys = "It has none of the keys that are read: " + strings.Join(slices.Concat(messageKeys, reasonKeys), ", ") + "."

func (r *Reader) fields(keys map[string]json.RawMessage) error {
	in := event.Input{Reason: textIn(keys, reasonKeys...), Type: textIn(keys, typeKeys...), Component: textIn(keys, componentKeys...),
		Message: textIn(keys, messageKeys...)}
	if t, ok := logLine(in.Message); ok && in == (event.Input{Message: in.Message}) {
		return r.found(t)
	}
	t := Text{Kind: Fields, Input: in}
	if in.Message == "" && in.Reason == "" {
		t.Why = noKeys
	}
	of := keysIn(keys["involved_object"])
	t.Service = name(cmp.Or(textIn(keys, "namespace", "Namespace", "EventNamespace"), textIn(of, "namespace")),
		cmp.Or(textIn(keys, "name", "Name", "EventObject"), textIn(of, "name")))
	return r.found(about(t, cmp.Or(textIn(keys, kindKeys...), textIn(of, "kind"))))
}

var yamlOpens = regex.New(`^\s*(?:- )?(?:apiVersion: \S|kind: [A-Z]\w*$|(?:items|involvedObject|regarding|metadata):$|eventTime: |firstTimestamp: )`)

var yamlLine = regex.New(`^(?:\s|[\w./-]+:(?:\s|$)|- |#|$)`)

func yamlGoesOn(line string) (more, last bool) { return yamlLine().MatchString(line), false }

func (r *Reader) yaml(text string) error {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil && len(data) > 0 && (data[0] == '{' || data[0] == '[') {
		return r.value(data)
	}
	return r.each(text)
}
