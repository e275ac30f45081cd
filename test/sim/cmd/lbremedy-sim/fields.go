package main

import (
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim"
)

// kindOf returns the kind that a word means: its name in a world in any case, its singular, or an alias.
func kindOf(word string) (string, error) {
	short := map[string]string{
		"lb": "loadBalancers", "lbs": "loadBalancers", "clb": "loadBalancers", "clbs": "loadBalancers",
		"vsw": "vswitches", "vsws": "vswitches", "sg": "securityGroups", "sgs": "securityGroups", "ecs": "instances", "cert": "certificates", "certs": "certificates",
	}
	all := kinds()
	low := strings.ToLower(word)
	if kind := short[low]; kind != "" {
		return kind, nil
	}
	for _, kind := range all {
		name := strings.ToLower(kind)
		singular := strings.TrimSuffix(name, "s")
		switch {
		case strings.HasSuffix(name, "ies"):
			singular = strings.TrimSuffix(name, "ies") + "y"
		case strings.HasSuffix(name, "ches"):
			singular = strings.TrimSuffix(name, "es")
		}
		if low == name || low == singular {
			return kind, nil
		}
	}
	return "", command.Wrong("there is no kind %q; there are %s", word, strings.Join(all, ", "))
}

func kinds() []string { return slices.Sorted(maps.Keys(sim.Kinds())) }

func typeOf(kind string) reflect.Type {
	world := reflect.TypeFor[sim.World]()
	if kind == worldKind {
		return world
	}
	if f, ok := fieldOf(world, kind); ok && f.Type.Kind() == reflect.Slice {
		return f.Type.Elem()
	}
	return reflect.TypeFor[map[string]any]()
}

const worldKind = "world"

func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && jsonName(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" && f.IsExported() {
			names = append(names, name)
		}
	}
	return names
}

// An assignment is a field and its new value, written as account.arrearage=true, or tags[a.b]=c if a name has dots.
type assignment struct {
	path  []string
	value any // nil removes
}

// assign parses an assignment. The type decides whether the value is plain text or YAML.
func assign(t reflect.Type, text string) (assignment, error) {
	name, raw, ok := cutAssignment(text)
	if !ok || name == "" {
		return assignment{}, command.Wrong("%q is not FIELD=VALUE", text)
	}
	path, err := splitPath(name)
	if err != nil {
		return assignment{}, err
	}
	a := assignment{path: path}
	for i, part := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		at := strings.Join(path[:i], ".")
		switch t.Kind() {
		case reflect.Struct:
			f, ok := fieldOf(t, part)
			if !ok {
				return a, command.Wrong("there is no field %q; there are %s", strings.Join(path[:i+1], "."), strings.Join(fieldNames(t), ", "))
			}
			t = f.Type
		case reflect.Map:
			t = t.Elem()
		case reflect.Interface:
		case reflect.Slice:
			return a, command.Wrong("%s is a list: give all of it, as YAML, or use \"lbremedy-sim edit\"", at)
		default:
			return a, command.Wrong("%s has no fields", at)
		}
	}
	a.value, err = valueOf(t, raw)
	if err != nil {
		return a, command.Wrong("%s: %w", name, err)
	}
	return a, nil
}

// cutAssignment cuts a text at its first = outside of brackets.
func cutAssignment(text string) (name, value string, ok bool) {
	depth := 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '=' && depth == 0:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// splitPath splits a.b[c.d] into a, b and c.d.
func splitPath(name string) ([]string, error) {
	var path []string
	for rest := name; rest != ""; {
		var part string
		switch {
		case rest[0] == '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, command.Wrong("%q has a bracket that does not end", name)
			}
			part, rest = rest[1:end], rest[end+1:]
			rest = strings.TrimPrefix(rest, ".")
		default:
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			part, rest = rest[:end], rest[end:]
			rest = strings.TrimPrefix(rest, ".")
		}
		if part == "" {
			return nil, command.Wrong("%q has an empty name in it", name)
		}
		path = append(path, part)
	}
	return path, nil
}

// valueOf parses a value for a type. null removes values of all types.
func valueOf(t reflect.Type, raw string) (any, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case raw == "null":
		return nil, nil
	case t.Kind() == reflect.String, t == reflect.TypeFor[sim.Duration](), t.Kind() == reflect.Struct && t.Name() == "Time":
		return raw, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String && !strings.HasPrefix(strings.TrimSpace(raw), "["):
		if raw == "" {
			return []string{}, nil
		}
		return strings.Split(raw, ","), nil
	}
	var v any
	if err := yaml.Unmarshal([]byte(raw), &v); err != nil {
		return nil, oneLine(err)
	}
	fits := true
	switch t.Kind() {
	case reflect.Bool:
		_, fits = v.(bool)
	case reflect.Int, reflect.Float64:
		_, fits = v.(float64)
	case reflect.Slice:
		_, fits = v.([]any)
	case reflect.Map, reflect.Struct:
		_, fits = v.(map[string]any)
	}
	if !fits {
		return nil, command.Wrong("%q is not %s", raw, map[reflect.Kind]string{
			reflect.Bool: "true or false", reflect.Int: "a number", reflect.Float64: "a number", reflect.Slice: "a list", reflect.Map: "a map", reflect.Struct: "a map",
		}[t.Kind()])
	}
	return v, nil
}

func patchOf(t reflect.Type, texts []string) (map[string]any, error) {
	patch := map[string]any{}
	for _, text := range texts {
		a, err := assign(t, text)
		if err != nil {
			return nil, err
		}
		m := patch
		for _, part := range a.path[:len(a.path)-1] {
			next, ok := m[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[part] = next
			}
			m = next
		}
		m[a.path[len(a.path)-1]] = a.value
	}
	return patch, nil
}

var noise = regexp.MustCompile(`error unmarshaling JSON: |while decoding JSON: |error converting YAML to JSON: |json: |Go struct `)

func oneLine(err error) error {
	return errors.New(noise.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), ""))
}
