package paste

import (
	"encoding/json"
	"maps"
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

// deepest is how deep JSON values may nest. Each level reads everything within it again.
const deepest = 16

func (r *Reader) value(data []byte) error {
	if r.level == deepest {
		return r.found(Text{Kind: Fields, Why: "The JSON is nested too deep to be read."})
	}
	r.level++
	defer func() { r.level-- }()
	if starts(data, "[") {
		var all []json.RawMessage
		_ = json.Unmarshal(data, &all) // valid at this point
		for _, one := range all {
			if string(one) == "null" {
				continue
			}
			if err := r.value(one); err != nil {
				return err
			}
		}
		return nil
	}
	values, f := read(data)
	switch {
	case strings.HasSuffix(f["kind"], "List") && values["items"] != nil:
		return r.value(values["items"])
	case f["kind"] == "Event" || values["involvedObject"] != nil || values["regarding"] != nil:
		return r.found(f.text(Event))
	}
	if inner := event.Unwrap(data); inner != nil {
		return r.value(inner)
	}
	for _, path := range nests {
		if inner := values[path]; starts(inner, "{[") {
			return r.value(inner)
		}
	}
	switch {
	case values["attributes"] != nil && f["body/stringValue"] != "":
		return r.record(values["attributes"], f)
	case f["specversion"] != "" && values["data"] != nil:
		if _, f = read(values["data"]); len(f) == 0 {
			return r.found(Text{Kind: Cloud, Why: "It is not a failure that lbremedy publishes."})
		}
		return r.found(f.text(Cloud))
	case f["Code"] != "" && values["Message"] != nil && (values["RequestId"] != nil || values["HostId"] != nil):
		return r.found(answered(f["Code"], f["Message"], string(data)))
	case f.get(lines...) != "" && values["message"] == nil:
		return r.logged(f.get(lines...))
	case f.get("msg", "logger", "error") != "" && f.get("logger", "error", "err", "reason", "level", "severity", "lvl", "caller") != "" &&
		(values["msg"] != nil || f.get("level", "severity", "lvl") != ""):
		return r.found(f.logged())
	case f["@level"] != "" && f["@message"] != "": // terraform -json
		return r.each(f["@message"])
	case f["kind"] != "" && f["apiVersion"] != "":
		return r.found(Text{Kind: Object, Why: "It is a " + event.Redact(f["kind"]) + " and no Event."})
	}
	if said := f.get("text/content", "text/text", "markdown/content", "markdown/text"); said != "" { // DingTalk and WeCom
		return r.each(said)
	}
	t := f.text(Fields)
	if logged, ok := logLine(t.Input.Message); ok && t.Input == (event.Input{Message: t.Input.Message}) {
		return r.found(logged)
	}
	if t.Input.Message == "" && t.Input.Reason == "" {
		t.Why = "It has none of the keys that are read: message, Message, EventMessage, msg, reason, Reason, EventReason."
	}
	return r.found(t)
}

// nests are where searches of Elasticsearch, OpenTelemetry and Metricbeat keep records.
var nests = []string{"hits/hits", "_source", "resourceLogs", "scopeLogs", "logRecords", "kubernetes/event"}

// Fields are the texts of a record, by the names of the Kubernetes API or of another tool: "reason", "involvedObject/kind".
type fields map[string]string

func (f fields) get(names ...string) string {
	for _, name := range names {
		if f[name] != "" {
			return f[name]
		}
	}
	return ""
}

// text reads an Event under any exporter's names. Those of kube-eventer's webhook begin with Event.
func (f fields) text(kind Kind) Text {
	of := f.get("involvedObject/kind", "regarding/kind", "involved_object/kind", "kind", "Kind", "EventKind")
	if of == "Event" {
		of = ""
	}
	return about(Text{
		Kind: kind,
		Input: event.Input{
			Reason: f.get("reason", "Reason", "EventReason"),
			Type:   f.get("type", "Type", "EventType"),
			Component: f.get("source/component", "deprecatedSource/component", "reportingComponent", "reportingController",
				"component", "Component", "EventComponent"),
			Message: f.get("message", "note", "Message", "EventMessage", "msg"),
		},
		Service: name(
			f.get("involvedObject/namespace", "regarding/namespace", "involved_object/namespace", "service/namespace", "namespace", "Namespace", "EventNamespace"),
			f.get("involvedObject/name", "regarding/name", "involved_object/name", "service/name", "name", "Name", "EventObject")),
	}, of)
}

// read returns the values in a JSON object, and in the objects in it, by their paths, and the texts among them.
func read(data json.RawMessage) (map[string]json.RawMessage, fields) {
	values, texts := keysIn(data), fields{}
	for key, value := range maps.Clone(values) {
		for below, v := range keysIn(value) {
			values[key+"/"+below] = v
		}
	}
	for path, value := range values {
		var s string
		if starts(value, `"`) && json.Unmarshal(value, &s) == nil {
			texts[path] = s
		}
	}
	return values, texts
}

// record reads an Event from OpenTelemetry's receiver k8sevents: the message is the body, the rest are attributes.
func (r *Reader) record(attributes json.RawMessage, f fields) error {
	var list []struct {
		Key   string
		Value struct{ StringValue string }
	}
	_ = json.Unmarshal(attributes, &list) // attributes of another type are ignored
	of := fields{}
	for _, a := range list {
		of[a.Key] = a.Value.StringValue
	}
	return r.found(fields{"reason": of["k8s.event.reason"], "type": f["severityText"], "message": f["body/stringValue"],
		"namespace": of["k8s.namespace.name"], "name": objectOf(of["k8s.event.name"])}.text(Fields))
}

// eventName matches the name of an Event: the object's name, and the time in nanoseconds.
var eventName = regex.New(`^(.+)\.[0-9a-f]{14,20}$`)

func objectOf(name string) string { return eventName().ReplaceAllString(name, "$1") }

func keysIn(data json.RawMessage) (keys map[string]json.RawMessage) {
	if starts(data, "{") { // spares a long array the attempt
		_ = json.Unmarshal(data, &keys)
	}
	return keys
}

func starts(data []byte, with string) bool {
	return len(data) > 0 && strings.IndexByte(with, data[0]) >= 0
}

var lines = []string{"log", "content", "MESSAGE", "line", "_msg"}

func (r *Reader) logged(line string) error {
	line = strings.TrimSpace(line)
	if t, ok := logLine(line); ok {
		return r.found(t)
	}
	return r.found(Text{Kind: Log, Input: event.Input{Message: line}, Why: notController})
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
