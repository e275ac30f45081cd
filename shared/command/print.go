package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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
