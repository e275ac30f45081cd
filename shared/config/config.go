// Package config reads the YAML files that people write: the policy, the routes and the configuration of the command line. Begin with
// [Decode].
//
// It is strict, since a typo must neither loosen a rule nor send an event elsewhere. Unknown or duplicate fields, values of another type,
// empty values, anchors and a second document are errors that name line and field; one run reports all of them. It does not decode
// Kubernetes objects or the contents of the stream, whose APIs have their own rules.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const most = 1 << 20

// A Document is a file that was read, and its mistakes. The zero value is an empty file.
type Document struct {
	lines  map[string]int  // of fields, by their path
	broken map[string]bool // fields whose value has the wrong type
	errs   []error
	seen   map[string]bool
	said   bool // the text holds a value
}

// Empty reports whether the text holds only white space and comments.
func (d *Document) Empty() bool { return !d.said }

// A texter reads itself from the text in a file and returns what is wrong with it. An empty text leaves the value unchanged.
type texter interface{ ReadText(text string) error }

// Decode reads YAML or JSON into a struct or a map by its json names; a value with a method ReadText reads itself. An empty file leaves the
// value unchanged. An error means an unreadable text; mistakes in fields are in the document, to which the caller can add more.
func Decode(text []byte, into any) (*Document, error) {
	if len(text) > most {
		return nil, fmt.Errorf("the file has more than %d bytes", most)
	}
	d := &Document{lines: map[string]int{}, broken: map[string]bool{}, seen: map[string]bool{}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return d, nil
	}
	if err != nil {
		return nil, unreadable(text, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("line %d: a second document begins here: leave one", second.Line)
	case !errors.Is(err, io.EOF):
		return nil, unreadable(text, err)
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		d.said = true
		d.value("", root, reflect.ValueOf(into).Elem())
	}
	return d, nil
}

// unreadable returns the error of a text that is not YAML, with its line, which the library omits for the first one and for binary bytes.
func unreadable(text []byte, err error) error {
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(said, "line ") {
		return errors.New(said)
	}
	control := func(r rune) bool {
		return r == utf8.RuneError || r < ' ' && !strings.ContainsRune("\t\r\n", r) || r == 0x7f
	}
	return fmt.Errorf("line %d: %s", 1+bytes.Count(text[:max(0, bytes.IndexFunc(text, control))], []byte("\n")), said)
}

// Fail notes what is wrong with a field, or nothing if its type was already reported. A field without a line has that of its parent.
func (d *Document) Fail(at, format string, args ...any) {
	if d.broken[at] {
		return
	}
	line := 0
	for p := at; line == 0; {
		line = d.lines[p]
		i := strings.LastIndexByte(p, '.')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	text := fmt.Sprintf("line %d: ", max(line, 1))
	if at != "" {
		text += at + ": "
	}
	text += fmt.Sprintf(format, args...)
	if !d.seen[text] {
		d.seen[text] = true
		d.errs = append(d.errs, errors.New(text))
	}
}

// Has reports whether the file contains the field.
func (d *Document) Has(at string) bool { return d.lines[at] > 0 }

// Broken reports whether the field's type is wrong, which is already reported.
func (d *Document) Broken(at string) bool { return d.broken[at] }

// Err returns all mistakes, one line each; nil without any.
func (d *Document) Err() error { return errors.Join(d.errs...) }

func (d *Document) misfit(at, format string, args ...any) {
	d.Fail(at, format, args...)
	d.broken[at] = true
}

func (d *Document) value(at string, n *yaml.Node, to reflect.Value) {
	d.lines[at] = n.Line
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.misfit(at, "anchors are not read: write it out")
		return
	}
	if t, ok := to.Addr().Interface().(texter); ok {
		d.text(at, n, t)
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		if _, ok := reflect.New(to.Type().Elem()).Interface().(texter); ok && empty(n) {
			return
		}
		to.Set(reflect.New(to.Type().Elem()))
		d.value(at, n, to.Elem())
	case reflect.Struct:
		d.pairs(at, n, func(key, inner string, value *yaml.Node) {
			for i := range to.NumField() {
				if name, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ","); name == key {
					d.value(inner, value, to.Field(i))
					return
				}
			}
			d.Fail(inner, "the field is unknown; the fields are %s", strings.Join(fields(to.Type()), ", "))
		})
	case reflect.Map:
		to.Set(reflect.MakeMap(to.Type()))
		d.pairs(at, n, func(key, inner string, value *yaml.Node) {
			v := reflect.New(to.Type().Elem()).Elem()
			d.value(inner, value, v)
			to.SetMapIndex(reflect.ValueOf(key), v)
		})
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.misfit(at, "it must be a list")
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
		for i, entry := range n.Content {
			d.value(fmt.Sprintf("%s[%d]", at, i), entry, to.Index(i))
		}
	default:
		d.scalar(at, n, to)
	}
}

func (d *Document) text(at string, n *yaml.Node, to texter) {
	var text string
	d.scalar(at, n, reflect.ValueOf(&text).Elem())
	if d.broken[at] || text == "" {
		return
	}
	if err := to.ReadText(text); err != nil {
		d.misfit(at, "%v", err)
	}
}

func empty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == ""
}

func (d *Document) pairs(at string, n *yaml.Node, each func(key, inner string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.misfit(at, "it must be a list of fields")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		inner := strings.TrimPrefix(at+"."+k.Value, ".")
		d.lines[inner] = k.Line
		switch {
		case k.Kind != yaml.ScalarNode || k.Value == "":
			d.Fail(inner, "it must have a name")
		case k.Anchor != "" || k.ShortTag() == "!!merge":
			d.Fail(inner, "anchors are not read: write it out")
		case seen[k.Value]:
			d.Fail(inner, "it is there twice")
		default:
			each(k.Value, inner, v)
			d.lines[inner] = k.Line
		}
		seen[k.Value] = true
	}
}

// kinds are the kinds of scalars: the required value, and the tag in YAML.
var kinds = map[reflect.Kind]struct{ what, tag string }{
	reflect.String: {"a text", "!!str"},
	reflect.Bool:   {"true or false", "!!bool"},
	reflect.Int:    {"a whole number", "!!int"},
	reflect.Int64:  {"a whole number", "!!int"},
}

// scalar reads a text, a number or a boolean. A number counts as a text only in quotes: 0123 would lose its zero. A time stays its text.
func (d *Document) scalar(at string, n *yaml.Node, to reflect.Value) {
	k := kinds[to.Kind()]
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode:
	case tag == "!!timestamp" && to.Kind() == reflect.String:
		to.SetString(n.Value)
		return
	case k.tag == tag && n.Decode(to.Addr().Interface()) == nil:
		return
	case to.Kind() == reflect.String && (tag == "!!int" || tag == "!!float"):
		d.misfit(at, "it must be a text: put it in quotes")
		return
	}
	d.misfit(at, "it must be %s", k.what)
}

func fields(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}
