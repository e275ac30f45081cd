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

// JSON writes a value as JSON with this indent, and a line break after it.
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

// YAML writes a value as YAML, with the names that it has in JSON.
func YAML(to io.Writer, value any) error {
	b, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = to.Write(b)
	return err
}

// JSONPath returns what writes what an expression finds in a value, as kubectl does: fields
// have their names in JSON, and the braces around the whole may be left out.
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

// Template returns what fills a template of Go with a value, as kubectl does: fields have
// their names in JSON.
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

// generic returns a value as JSON has it: maps, lists, texts, and numbers that are whole
// where they can be.
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

// numbers puts Go's numbers in place of those that JSON wrote.
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

// Table returns a table with these columns, in the style of all programs.
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

// A Build is what a program was built from.
type Build struct {
	Version  string            `json:"version"`
	Revision string            `json:"revision,omitempty"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	Modules  map[string]string `json:"modules,omitempty"` // versions by path
}

// String says it on a line, behind the program's name.
func (b Build) String() string { return fmt.Sprintf("%s (%s, %s)", b.Version, b.Go, b.Platform) }

// Built returns what this program, of this version, was built from.
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
