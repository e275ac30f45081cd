package command

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/template"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	integers "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// JSON writes a value as indented JSON with a line break.
func JSON(to io.Writer, value any, indent string) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
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
	return executed(path.Parse(text), path.Execute, func(err error) error { return Wrong("the JSONPath expression %s: %w", expr, err) })
}

// Template returns a function that executes a Go template on a value, as kubectl does: fields have their JSON names.
func Template(source string) (func(to io.Writer, value any) error, error) {
	t := template.New("output")
	_, err := t.Parse(source)
	return executed(err, t.Execute, func(err error) error { return Wrong("the template: %w", err) })
}

// executed returns a function that executes something on a value as decoded JSON: maps, lists, strings, and numbers, as integers if possible.
func executed(parsed error, execute func(io.Writer, any) error, wrong func(error) error) (func(to io.Writer, value any) error, error) {
	if parsed != nil {
		return nil, wrong(parsed)
	}
	return func(to io.Writer, value any) error {
		data, err := json.Marshal(value)
		var fields any
		if err == nil {
			err = integers.Unmarshal(data, &fields)
		}
		if err != nil {
			return fmt.Errorf("write data: %w", err)
		}
		if err := execute(to, fields); err != nil {
			return wrong(err)
		}
		return nil
	}, nil
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
