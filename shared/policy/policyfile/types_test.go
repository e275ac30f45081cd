package policyfile

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Line and field are reported without the name of a Go type, for every field.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	var check func(at string, of reflect.Type, write func(string) string)
	n := 0
	wrong := func(at, text string) {
		n++
		_, err := Parse([]byte(text), classes)
		if err == nil {
			return // a text may be valid there
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			for _, bad := range []string{"json:", "yaml:", "remedy.", "policy.", "policyfile.", "config.", "ccm.", "struct", "interface", "unmarshal", "int64", "!!"} {
				if strings.Contains(line, bad) {
					t.Errorf("%s: it says %q, in words of the program:\n%s", at, line, text)
				}
			}
			if !strings.HasPrefix(line, "line ") {
				t.Errorf("%s: no line in %q:\n%s", at, line, text)
			}
		}
		if name := strings.TrimSuffix(strings.SplitN(at, ".", 2)[0], "[0]"); !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the field is not named: %v\n%s", at, err, text)
		}
	}
	check = func(at string, of reflect.Type, write func(string) string) {
		refused := 0
		for _, value := range []string{"[1, [2]]", "{a: {b: 1}}", "3", "3.5", "true", "2026-01-01", "!!binary aGk=", "[]", "{}", "~", "text", "'3'", "!thing x"} {
			wrong(at, write(value))
			if _, err := Parse([]byte(write(value)), classes); err != nil {
				refused++
			}
		}
		if refused < 5 {
			t.Errorf("%s: only %d of the wrong values are refused", at, refused)
		}
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch of.Kind() {
		case reflect.Struct:
			if of == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range of.NumField() {
				name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				check(at+"."+name, of.Field(i).Type, func(v string) string { return write("{" + name + ": " + v + "}") })
			}
		case reflect.Slice:
			check(at+"[0]", of.Elem(), func(v string) string { return write("[" + v + "]") })
		case reflect.Map:
			check(at+".tag-missing", of.Elem(), func(v string) string { return write("{tag-missing: " + v + "}") })
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[File]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		check(name, f.Type, func(v string) string { return "# a policy\n" + name + ": " + v + "\n" })
	}
	if n < 500 {
		t.Errorf("only %d wrong values were tried", n)
	}
}
