package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// DeclaredPrefix begins the ID of each class that only a declaration describes. No built-in class has it, so an upgrade never brings one
// of the same name, and the admission policy of the built-in classes leaves these to their own.
const DeclaredPrefix = "x-"

// longestID is the longest declared class ID: "lbremedy-" and the ID name a function, and a Kubernetes Service.
const longestID = 48

// DecodeStrict reads YAML or JSON; an unknown field is an error.
func DecodeStrict(text []byte, to any) error {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	return event.DecodeStrict(data, to)
}

// ParseDeclaration reads the declaration of a class, perhaps a built-in one. Its Diagnose and StillFails only return an error.
func ParseDeclaration(text []byte) (*remedy.Remedy, error) {
	var d remedy.Declaration
	if err := DecodeStrict(text, &d); err != nil {
		return nil, err
	}
	r, err := d.Remedy(step.All())
	if err != nil {
		return nil, err
	}
	elsewhere := fmt.Errorf("the code of the class %s is in its function", r.Class)
	r.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) { return remedy.Plan{}, elsewhere }
	r.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, elsewhere }
	return r, errors.Join(event.ValidClass(r.Class), r.Validate())
}

// ParseDeclared reads the declaration of a class that is not built in.
func ParseDeclared(text []byte) (*remedy.Remedy, error) {
	r, err := ParseDeclaration(text)
	if err != nil {
		return nil, err
	}
	switch {
	case !strings.HasPrefix(r.Class, DeclaredPrefix) || len(r.Class) > longestID:
		return nil, fmt.Errorf("the class %q must begin with %s, and have at most %d characters", r.Class, DeclaredPrefix, longestID)
	case len(r.Texts) == 0 && len(r.Codes) == 0:
		return nil, fmt.Errorf("the class %s has no texts and no codes: no failure would be of it", r.Class)
	case len(r.Formats) == 0:
		return nil, fmt.Errorf("the class %s declares no formats, so it cannot report a finding", r.Class)
	}
	for _, g := range r.Reads {
		if !Reads(g) || g.Resource == "secrets" {
			return nil, fmt.Errorf("the class %s declares %q as a read", r.Class, g)
		}
	}
	for _, key := range r.Keys() {
		if domain, _, _ := strings.Cut(key, "/"); domain == "lbremedy.io" || strings.HasSuffix(domain, ".lbremedy.io") {
			return nil, fmt.Errorf("the class %s declares the annotation %s, which is lbremedy's own", r.Class, key)
		}
	}
	return r, nil
}

// Reads reports whether a grant changes nothing.
func Reads(g grant.Grant) bool {
	if !g.RAM() {
		return g == grant.ReviewAccess || slices.Contains([]string{"get", "list", "watch"}, g.Verb)
	}
	_, action, _ := strings.Cut(g.Action, ":")
	return slices.ContainsFunc([]string{"Describe", "List", "Get", "Query"}, func(begin string) bool { return strings.HasPrefix(action, begin) })
}

// largest is the most bytes of a declaration.
const largest = 64 << 10

// ReadDeclarations reads the declarations in a folder, such as a mounted ConfigMap: one in each file whose name does not begin with a dot.
// Classes that share a text or a code with each other or with a built-in class are an error.
func ReadDeclarations(folder string) ([]*remedy.Remedy, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []*remedy.Remedy
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := filepath.Join(folder, e.Name())
		r, err := readDeclaration(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if slices.ContainsFunc(all, func(o *remedy.Remedy) bool { return o.Class == r.Class }) {
			return nil, fmt.Errorf("%s: another file declares the class %s, too", name, r.Class)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no declaration", folder)
	}
	return all, event.CheckRows(rows(all))
}

func readDeclaration(name string) (*remedy.Remedy, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err == nil && len(text) > largest {
		err = errors.New("a declaration has at most 64 KiB")
	}
	if err != nil {
		return nil, err
	}
	return ParseDeclared(text)
}

// rows returns the rows of the classifier's table with those of declared classes.
func rows(declared []*remedy.Remedy) []event.Row {
	all := table.Table()
	for _, r := range declared {
		all = append(all, event.Row{Class: r.Class, Kinds: r.Kinds, Codes: r.Codes, Texts: r.Texts})
	}
	return all
}

// declare reads the folder of --declarations.
func (p *Program) declare() (err error) {
	if p.declarations == "" {
		return nil
	}
	if p.Declared, err = ReadDeclarations(p.declarations); err != nil {
		return command.Wrong("--declarations: %w", err)
	}
	return nil
}

// Classifier returns the classifier of all classes.
func (p *Program) Classifier() *event.Classifier { return event.NewClassifier(rows(p.Declared)) }
