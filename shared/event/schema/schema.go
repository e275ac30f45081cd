// Package schema derives the JSON Schemas of what is on the wire from the types
// of package event.
//
// The schemas are checked in beside it, for readers in other languages. They
// allow unknown properties, since every reader of an event must: a later
// version adds fields without a new name.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Names of the files, by what they describe.
const (
	Failed = "failed.v1.json" // the data of event.TypeFailed
	Record = "record.v1.json" // the data of event.TypeIntent and events.TypeSettled
)

// module begins the paths of our packages.
const module = "github.com/lbremedy/lbremedy/"

// base begins the IDs of the schemas.
const base = "urn:lbremedy:schema:"

// Files returns the schemas by file name. Their descriptions are the comments
// in the source of package event, which is read in the module's root folder.
func Files(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, s := range []struct {
		name, title string
		value       any
	}{
		{Failed, "A failed sync of a Service", event.Failure{}},
		{Record, "An entry of the journal", event.Record{}},
	} {
		text, err := Of(root, s.name, s.title, s.value, true)
		if err != nil {
			return nil, err
		}
		files[s.name] = text
	}
	return files, nil
}

// Of returns the schema of a value's type, described by the comments in the source of its
// package, and of the packages of the others. The source is read in the module's root
// folder. An open schema allows unknown properties.
func Of(root, name, title string, value any, open bool, others ...any) ([]byte, error) {
	said := map[string]string{}
	for _, v := range append(others, value) {
		pkg := reflect.TypeOf(v).PkgPath()
		more, err := comments(filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(pkg, module))), pkg)
		if err != nil {
			return nil, fmt.Errorf("read the comments for the schema %s: %w", name, err)
		}
		maps.Copy(said, more)
	}
	text, err := derive(said, name, title, value, open)
	if err != nil {
		return nil, fmt.Errorf("derive the schema %s: %w", name, err)
	}
	return text, nil
}

// derive returns the schema of a value's type, described by what was said of it.
func derive(said map[string]string, name, title string, value any, open bool) ([]byte, error) {
	r := jsonschema.Reflector{
		Anonymous:                 true,
		AllowAdditionalProperties: open,
		ExpandedStruct:            true,
		Mapper:                    enumerate,
		CommentMap:                said,
	}
	s := r.Reflect(value)
	s.ID = base + jsonschema.ID(name)
	s.Title = title
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// enumerate names the values of the types that have a fixed list of them.
func enumerate(t reflect.Type) *jsonschema.Schema {
	var values []any
	switch t {
	case reflect.TypeFor[event.Result]():
		values = []any{
			event.Gone, event.Superseded, event.Planned, event.Asked, event.Waiting,
			event.Fixed, event.Unsettled, event.Failed, event.Undone, event.Foreign,
		}
	case reflect.TypeFor[event.Hold]():
		values = []any{event.HeldByPause, event.HeldByFreeze, event.HeldByBudget, event.TakenBack}
	case reflect.TypeFor[event.Reason]():
		values = []any{event.ForTarget, event.ForStep, event.AfterOthers, event.ForPolicy, event.ForSync, event.ByCause}
	case reflect.TypeFor[event.Impact]():
		values = []any{event.NeverUp, event.Frozen, event.Serving}
	case reflect.TypeFor[event.Phase]():
		values = []any{event.Started, event.Intent, event.Step, event.Settled}
	default:
		return nil
	}
	return &jsonschema.Schema{Type: "string", Enum: values}
}

// comments returns what the source in a folder says of its types, by
// "package.Type", and of their fields, by "package.Type.Field".
func comments(folder, pkg string) (map[string]string, error) {
	sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("no Go source in %s", folder)
	}
	said := map[string]string{}
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			types, ok := d.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, s := range types.Specs {
				t := s.(*ast.TypeSpec)
				name := pkg + "." + t.Name.Name
				said[name] = sentence(types.Doc)
				if fields, ok := t.Type.(*ast.StructType); ok {
					describe(said, name, fields)
				}
			}
		}
	}
	return said, nil
}

// describe adds what stands beside the fields of a type.
func describe(said map[string]string, name string, t *ast.StructType) {
	for _, f := range t.Fields.List {
		for _, n := range f.Names {
			said[name+"."+n.Name] = sentence(f.Comment)
		}
	}
}

// sentence returns a comment as one line.
func sentence(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
