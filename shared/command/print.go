package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/template"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// JSON writes a value as indented JSON with a line break.
func JSON(to io.Writer, value any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := to.Write(b.Bytes())
	return err
}

// YAML writes a value as YAML, with the names of its JSON fields.
func YAML(to io.Writer, value any) error {
	b, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = to.Write(b)
	return err
}

// JSONPath returns a function that writes what an expression finds, as kubectl does: fields have their JSON names, and the outer braces are optional.
func JSONPath(expr string) (func(to io.Writer, value any) error, error) {
	text := expr
	if !strings.Contains(text, "{") {
		if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") {
			text = "." + text
		}
		text = "{" + text + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, Wrong("the JSONPath expression %s: %w", expr, err)
	}
	return func(to io.Writer, value any) error {
		data, err := generic(value)
		if err != nil {
			return err
		}
		if err := path.Execute(to, data); err != nil {
			return Wrong("the JSONPath expression %s: %w", expr, err)
		}
		return nil
	}, nil
}

// Template returns a function that executes a Go template on a value, as kubectl does: fields have their JSON names.
func Template(source string) (func(to io.Writer, value any) error, error) {
	t, err := template.New("output").Parse(source)
	if err != nil {
		return nil, Wrong("the template: %w", err)
	}
	return func(to io.Writer, value any) error {
		data, err := generic(value)
		if err != nil {
			return err
		}
		if err := t.Execute(to, data); err != nil {
			return Wrong("the template: %w", err)
		}
		return nil
	}, nil
}

// generic returns a value as decoded JSON: maps, lists, strings, and numbers, as integers if possible.
func generic(value any) (any, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write data: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var data any
	if err := dec.Decode(&data); err != nil {
		return nil, fmt.Errorf("write data: %w", err)
	}
	return numbers(data), nil
}

func numbers(data any) any {
	switch v := data.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
	}
	return data
}

// Table returns a table with these columns, in the common style.
func Table(columns ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(columns)
	return t
}

// A Build describes how a program was built.
type Build struct {
	Version  string            `json:"version"`
	Revision string            `json:"revision,omitempty"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	Modules  map[string]string `json:"modules,omitempty"` // versions by module path
}

// String returns it as one line, to print after the program's name.
func (b Build) String() string { return fmt.Sprintf("%s (%s, %s)", b.Version, b.Go, b.Platform) }

// Built returns how this program was built.
func Built(version string) Build {
	b := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: map[string]string{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Modules[m.Path] = m.Version
	}
	return b
}
