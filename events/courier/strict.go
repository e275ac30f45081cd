package courier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A checker notes what is wrong with a file, each with its line.
type checker struct {
	lines map[string]int // of fields, by their path
	errs  []error
	seen  map[string]bool
}

// fail notes what is wrong with a field. What has no line of its own has that of
// what it is part of.
func (c *checker) fail(at, format string, args ...any) {
	line := 0
	for p := at; line == 0; {
		line = c.lines[p]
		i := strings.LastIndexByte(p, '.')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	text := fmt.Sprintf("line %d: %s: ", max(line, 1), at) + fmt.Sprintf(format, args...)
	if !c.seen[text] {
		if c.seen == nil {
			c.seen = map[string]bool{}
		}
		c.seen[text] = true
		c.errs = append(c.errs, errors.New(text))
	}
}

func (c *checker) err() error { return errors.Join(c.errs...) }

// decode reads YAML, or JSON which is YAML too, into a struct by its json names. What
// it does not know is wrong, and so is what stands there twice. An error means that
// the text can't be read at all; what is wrong with single fields is in the checker.
func decode(text []byte, into any) (*checker, error) {
	c := &checker{lines: map[string]int{}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return c, nil
	}
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has several documents: leave one")
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		c.value("", root, reflect.ValueOf(into).Elem())
	}
	return c, nil
}

// value reads a node into a value.
func (c *checker) value(at string, n *yaml.Node, to reflect.Value) {
	if at != "" {
		c.lines[at] = n.Line
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		c.fail(at, "anchors are not read: write it out")
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		c.value(at, n, to.Elem())
	case reflect.Struct:
		c.pairs(at, n, func(key, inner string, value *yaml.Node) {
			for i := range to.NumField() {
				if name, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ","); name == key {
					c.value(inner, value, to.Field(i))
					return
				}
			}
			c.fail(inner, "there is no such field; there are %s", strings.Join(fields(to.Type()), ", "))
		})
	case reflect.Map:
		to.Set(reflect.MakeMap(to.Type()))
		c.pairs(at, n, func(key, inner string, value *yaml.Node) {
			v := reflect.New(to.Type().Elem()).Elem()
			c.value(inner, value, v)
			to.SetMapIndex(reflect.ValueOf(key), v)
		})
	default:
		c.scalar(at, n, to)
	}
}

// pairs goes through the fields of a mapping.
func (c *checker) pairs(at string, n *yaml.Node, each func(key, inner string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		c.fail(at, "it must be a list of fields")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		inner := strings.TrimPrefix(at+"."+k.Value, ".")
		c.lines[inner] = k.Line
		switch {
		case k.Kind != yaml.ScalarNode || k.Value == "":
			c.fail(inner, "it must have a name")
		case seen[k.Value]:
			c.fail(inner, "it is there twice")
		default:
			each(k.Value, inner, v)
			c.lines[inner] = k.Line
		}
		seen[k.Value] = true
	}
}

// scalar reads a text, a number, or true or false. Numbers and dates are good as texts
// only in quotes: 0123 would lose its zero.
func (c *checker) scalar(at string, n *yaml.Node, to reflect.Value) {
	what := map[reflect.Kind]string{reflect.String: "a text", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number"}[to.Kind()]
	good := map[reflect.Kind][]string{reflect.String: {"!!str"}, reflect.Bool: {"!!bool"}, reflect.Int: {"!!int"}, reflect.Float64: {"!!int", "!!float"}}[to.Kind()]
	if n.Kind == yaml.ScalarNode {
		for _, tag := range good {
			if n.ShortTag() == tag && n.Decode(to.Addr().Interface()) == nil {
				return
			}
		}
		if to.Kind() == reflect.String && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float") {
			what = "a text: put it in quotes"
		}
	}
	c.fail(at, "it must be %s", what)
}

// fields returns the names of a struct's fields.
func fields(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}
