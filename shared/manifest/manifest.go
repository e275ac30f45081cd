// Package manifest changes annotations and target ports of one Service in a file of Kubernetes manifests, and nothing else: comments,
// order, quotes and the other documents stay as they are.
//
// It replaces, inserts and removes text at the positions that the YAML parser reports, then parses the result and compares it with what
// it has to be. A form of YAML that it does not know, such as a value with an anchor, is therefore an error and never a wrong file.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A patch is what a merge patch of a Service may change here.
type patch struct {
	Metadata struct {
		Annotations map[string]*string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Ports []port `json:"ports"`
	} `json:"spec"`
}

type port struct {
	Port     int             `json:"port"`
	Protocol string          `json:"protocol"`
	Target   json.RawMessage `json:"targetPort"`
}

// Patch returns the file with the merge patch of a Service applied to the only document of this Service; the same text if the document
// has the change already. A document without a namespace may get it from its tool, and counts as the Service's. Of ports it changes
// only targetPort, by number and protocol: the others' fields have defaults of the cluster.
func Patch(text []byte, namespace, name string, merge []byte) ([]byte, error) {
	var p patch
	if err := json.Unmarshal(merge, &p); err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	docs, values, err := parse(text)
	if err != nil {
		return nil, err
	}
	found := -1
	for i, v := range values {
		switch {
		case !is(v, namespace, name):
		case found >= 0:
			return nil, fmt.Errorf("it has the Service %s/%s twice", namespace, name)
		default:
			found = i
		}
	}
	if found < 0 {
		return nil, fmt.Errorf("%w %s/%s", ErrNotFound, namespace, name)
	}
	f := &file{text: string(text)}
	if err := f.change(docs[found], p); err != nil {
		return nil, fmt.Errorf("change the Service %s/%s: %w", namespace, name, err)
	}
	out := f.edited()
	docs, got, err := parse(out)
	if err != nil || len(got) != len(values) {
		return nil, fmt.Errorf("change the Service %s/%s: %w", namespace, name, errForm)
	}
	again := &file{text: string(out)}
	err = again.change(docs[found], p)
	p.strip(values[found])
	p.strip(got[found])
	if err != nil || len(again.edits) > 0 || !reflect.DeepEqual(got, values) {
		return nil, fmt.Errorf("change the Service %s/%s: %w", namespace, name, errForm)
	}
	return out, nil
}

// parse returns the documents, as nodes and as values.
func parse(text []byte) (docs []*yaml.Node, values []any, err error) {
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			if errors.Is(err, io.EOF) {
				return docs, values, nil
			}
			return nil, nil, fmt.Errorf("it is not YAML: %w", err)
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, nil, fmt.Errorf("it is not YAML: %w", err)
		}
		docs, values = append(docs, n.Content[0]), append(values, v)
	}
}

// is reports whether a document is the Service.
func is(doc any, namespace, name string) bool {
	top, _ := doc.(map[string]any)
	meta, _ := top["metadata"].(map[string]any)
	in, has := meta["namespace"]
	return top["apiVersion"] == "v1" && top["kind"] == "Service" && meta["name"] == name && (!has || in == namespace)
}

// strip removes from a document what the patch may change.
func (p patch) strip(doc any) {
	top, _ := doc.(map[string]any)
	meta, _ := top["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	for key := range p.Metadata.Annotations {
		delete(all, key)
	}
	if len(all) == 0 { // null, empty and absent mean the same
		delete(meta, "annotations")
	}
	spec, _ := top["spec"].(map[string]any)
	list, _ := spec["ports"].([]any)
	for _, one := range list {
		if fields, _ := one.(map[string]any); len(p.Spec.Ports) > 0 {
			delete(fields, "targetPort")
		}
	}
}

// A file is a text and its edits.
type file struct {
	text  string
	edits []edit
}

type edit struct {
	from, to int
	text     string
}

// ErrNotFound says that a file does not have the Service.
var ErrNotFound = errors.New("it does not have the Service")

var errForm = errors.New("its form is not one that can be changed: write each field on a line of its own, without anchors and aliases")

// change adds the edits that make a document as the patch wants it.
func (f *file) change(doc *yaml.Node, p patch) error {
	if err := f.annotations(doc, p.Metadata.Annotations); err != nil {
		return err
	}
	return f.ports(doc, p.Spec.Ports)
}

func (f *file) annotations(doc *yaml.Node, change map[string]*string) error {
	if len(change) == 0 {
		return nil
	}
	metaKey, meta := child(doc, "metadata")
	key, all := child(meta, "annotations")
	if key == nil {
		return f.insert(metaKey, meta, "annotations", change)
	}
	if merged, _ := child(all, "<<"); merged != nil {
		return errForm // what it brings is elsewhere
	}
	added := map[string]*string{}
	left := len(all.Content) / 2
	for _, name := range slices.Sorted(maps.Keys(change)) {
		value := change[name]
		k, v := child(all, name)
		switch {
		case v == nil:
			if value != nil {
				added[name] = value
			}
		case value == nil:
			from, to := f.line(k.Line), f.line(k.Line+1)
			if end, err := f.end(v); err != nil || end > to || all.Style&yaml.FlowStyle != 0 {
				return errForm
			}
			if left--; left == 0 && k.Line == key.Line+1 {
				from = f.line(key.Line) // without entries, the field is null
			}
			f.edits = append(f.edits, edit{from, to, ""})
		case v.Value != *value || v.ShortTag() != "!!str":
			if err := f.replace(v, quoted(*value)); err != nil {
				return err
			}
		}
	}
	if len(added) == 0 {
		return nil
	}
	if left == 0 && len(all.Content) > 0 {
		return errForm
	}
	return f.insert(key, all, "", added)
}

func (f *file) ports(doc *yaml.Node, change []port) error {
	_, spec := child(doc, "spec")
	_, list := child(spec, "ports")
	for _, c := range change {
		i := -1
		if list != nil {
			i = slices.IndexFunc(list.Content, func(n *yaml.Node) bool {
				_, number := child(n, "port")
				_, protocol := child(n, "protocol")
				is := "TCP"
				if protocol != nil {
					is = protocol.Value
				}
				return number != nil && number.Value == strconv.Itoa(c.Port) && is == cmp.Or(c.Protocol, "TCP")
			})
		}
		if i < 0 {
			return fmt.Errorf("it has no port %d/%s", c.Port, cmp.Or(c.Protocol, "TCP"))
		}
		one := list.Content[i]
		switch _, v := child(one, "targetPort"); {
		case v != nil && v.Value == strings.Trim(string(c.Target), `"`), v == nil && string(c.Target) == strconv.Itoa(c.Port):
		case v != nil:
			if err := f.replace(v, string(c.Target)); err != nil {
				return err
			}
		default: // behind the port's number, on the same line or the next one
			k, number := child(one, "port")
			end, err := f.end(number)
			if err != nil {
				return err
			}
			before := ", "
			if one.Style&yaml.FlowStyle == 0 {
				before = f.newline() + strings.Repeat(" ", k.Column-1)
			}
			f.edits = append(f.edits, edit{end, end, before + "targetPort: " + string(c.Target)})
		}
	}
	return nil
}

// insert adds entries at the beginning of a mapping, whose key this is; under a name, if there is one, as a mapping of their own.
func (f *file) insert(key, mapping *yaml.Node, name string, values map[string]*string) error {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return errForm
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if v := values[k]; v != nil {
			list = append(list, k+": "+quoted(*v))
		}
	}
	if len(list) == 0 {
		return nil
	}
	if mapping.Style&yaml.FlowStyle != 0 {
		at, text := f.offset(mapping)+1, strings.Join(list, ", ")
		if name != "" {
			text = name + ": {" + text + "}"
		}
		if len(mapping.Content) > 0 {
			text += ", "
		}
		f.edits = append(f.edits, edit{at, at, text})
		return nil
	}
	if len(mapping.Content) == 0 {
		return errForm
	}
	indent := strings.Repeat(" ", mapping.Content[0].Column-1)
	text := ""
	if name != "" {
		text, indent = indent+name+":"+f.newline(), indent+"  "
	}
	for _, entry := range list {
		text += indent + entry + f.newline()
	}
	at := f.line(key.Line + 1)
	f.edits = append(f.edits, edit{at, at, text})
	return nil
}

// replace replaces the text of a scalar.
func (f *file) replace(n *yaml.Node, text string) error {
	end, err := f.end(n)
	if err == nil {
		f.edits = append(f.edits, edit{f.offset(n), end, text})
	}
	return err
}

// end returns where the text of a scalar on one line ends.
func (f *file) end(n *yaml.Node) (int, error) {
	if n.Kind != yaml.ScalarNode || n.Anchor != "" || n.Value == "" && n.Style == 0 {
		return 0, errForm
	}
	at := f.offset(n)
	rest := f.text[at:f.line(n.Line+1)]
	if n.Style == 0 && strings.HasPrefix(rest, n.Value) {
		return at + len(n.Value), nil
	}
	if text := inQuotes().FindString(rest); text != "" {
		return at + len(text), nil
	}
	return 0, errForm
}

// inQuotes matches a scalar in quotes.
var inQuotes = regex.New(`^("([^"\\\n]|\\.)*"|'([^'\n]|'')*')`)

// line returns where a line begins, from 1; the end of the text for those behind it.
func (f *file) line(n int) int {
	at := 0
	for ; n > 1; n-- {
		i := strings.IndexByte(f.text[at:], '\n')
		if i < 0 {
			return len(f.text)
		}
		at += i + 1
	}
	return at
}

// offset returns where a node begins. The parser counts characters.
func (f *file) offset(n *yaml.Node) int {
	at := f.line(n.Line)
	for range n.Column - 1 {
		_, size := utf8.DecodeRuneInString(f.text[at:])
		at += size
	}
	return at
}

func (f *file) newline() string {
	if strings.Contains(f.text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

func (f *file) edited() []byte {
	slices.SortStableFunc(f.edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	out := f.text
	for _, e := range f.edits {
		out = out[:e.from] + e.text + out[e.to:]
	}
	return []byte(out)
}

// child returns the entry of a mapping.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// quoted returns a text as a double-quoted scalar. JSON's strings are YAML's.
func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("manifest: a text does not encode: %v", err))
	}
	return string(data)
}
