package policyfile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// sameAgain fails unless the file that is written of a version means the same.
func sameAgain(t *testing.T, v policy.Version, classes []string) {
	t.Helper()
	text, err := Document(v, sections...)
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	again, err := ParseVersion(text, classes, sections...)
	if err != nil {
		t.Fatalf("what was written can't be read: %v\n%s", err, text)
	}
	if !v.Same(again) {
		t.Errorf("it means something else:\n%s\n was %+v\n  is %+v", text, v, again)
	}
	if changes := policy.Compare(v, again, policy.What{Sections: sections}); len(changes) > 0 {
		t.Errorf("it changes something: %+v\n%s", changes, text)
	}
}

// right are policy files with each field that there is.
var right = []string{
	"{}", "mode: observe", "mode: fix", "mode: fix\nrisk: high", "classes: {tag-missing: {}}",
	"mode: fix\nclasses: {ram-permission: {risk: low}, tag-missing: {mode: fix, risk: high, oneWay: true}}",
	"rules: [{namespaces: ['prod-*', 'on', '012'], risk: low}, {clusters: ['*'], namespaceLabels: {'a/b.c': 'true'}, classes: [tag-missing], mode: fix, " +
		"risk: high}, {labels: {'c/d': 'on'}, mode: observe}]",
	"freezes: [{name: 'yes', days: [fri, mon], from: '09:00', until: '24:00', zone: Asia/Shanghai}, {name: 'a: b', from: '22:30', until: '06:00'}]",
	"freezes: [{name: s, from: 2026-11-10T20:00:00.5+08:00, until: 2026-11-12T02:00:00+08:00}]",
	"freezes: [{name: summer, from: '08:00', until: '09:00', zone: Europe/Berlin}]",
	"budgets: {attempts: 1, class: 50, share: 100%, least: 10}\nunsettled: undo",
	"vswitches: {allow: [vsw-1], reserve: 0, replaceMissing: true}\nramDelay: 90s\npayBySpec: true",
	"doctor: {protect: ['prod-*'], target: v1.9.3.380, localPorts: 20000-60999}",
	"mode: fix\ntell: [{name: e, kind: event, results: [needs-action]}, {name: ops, kind: webhook, url: 'https://x/y', secretFrom: {env: 'NO'}}]",
}

// What is written of a policy in force is a policy file again, of all that the tests of the
// reader know.
func TestDocument(t *testing.T) {
	t.Parallel()
	for _, text := range right {
		v, err := ParseVersion([]byte(text), classes, sections...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		sameAgain(t, v, classes)
	}
}

// Any policy at all comes back from the file that is written of it.
func TestDocumentOfAny(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(16, 5))
	one := func(from ...string) string { return from[r.IntN(len(from))] }
	for range 300 {
		var b strings.Builder
		fmt.Fprintf(&b, "mode: %s\nrisk: %s\nunsettled: %s\n", one("observe", "fix"), one("low", "medium", "high"), one("leave", "undo"))
		fmt.Fprintf(&b, "classes: {%s: {mode: fix, risk: %s, oneWay: %s}}\n", one(classes...), one("low", "high"), one("true", "false"))
		b.WriteString("rules:\n")
		for i := range r.IntN(4) {
			fmt.Fprintf(&b, "- {namespaces: [%q, n%d], %s}\n", one("a*", "1", "null", "~", "x?"), i, one("mode: observe", "mode: fix, risk: low", "risk: medium"))
		}
		if strings.HasSuffix(b.String(), "rules:\n") {
			b.WriteString("- {risk: low}\n")
		}
		fmt.Fprintf(&b, "budgets: {attempts: %d, share: %d%%}\n", 1+r.IntN(9), 1+r.IntN(100))
		fmt.Fprintf(&b, "freezes: [{name: %q, from: '%02d:%02d', until: '24:00', zone: %s}]\n", one("a", "2026-01-01", "9:00"), r.IntN(24), r.IntN(60),
			one("UTC", "Asia/Shanghai", "America/New_York", "Asia/Kolkata"))
		fmt.Fprintf(&b, "vswitches: {reserve: %d}\nramDelay: %dms\n", r.IntN(20), 1+r.IntN(1_000_000))
		v, err := ParseVersion([]byte(b.String()), classes, sections...)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		sameAgain(t, v, classes)
	}
}

// A policy that an earlier release put in force names no time zones: an offset of whole
// hours has a name of its own, and for others it is said what to do.
func TestDocumentWithoutZones(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{"": "", "UTC": "", "Asia/Shanghai": "Etc/GMT-8", "America/Bogota": "Etc/GMT+5"} {
		v, err := ParseVersion(fmt.Appendf(nil, "freezes: [{name: n, from: '09:00', until: '18:00', zone: %q}]", zone), classes)
		if err != nil {
			t.Fatal(err)
		}
		v.Zones = nil
		text, err := Document(v)
		if err != nil || want != "" && !strings.Contains(string(text), "zone: "+want) || want == "" && strings.Contains(string(text), "zone:") {
			t.Errorf("%s: %v\n%s", zone, err, text)
		}
		again, err := ParseVersion(text, classes)
		if changes := policy.Compare(v, again, policy.What{}); err != nil || len(changes) > 0 {
			t.Errorf("%s: %v, %+v", zone, err, changes)
		}
	}
	for _, zone := range []string{"Europe/Berlin", "Asia/Kolkata"} {
		v, err := ParseVersion(fmt.Appendf(nil, "freezes: [{name: n, from: '09:00', until: '18:00', zone: %q}]", zone), classes)
		if err != nil {
			t.Fatal(err)
		}
		v.Zones = nil
		if text, err := Document(v); err == nil || !strings.Contains(err.Error(), `freeze "n"`) {
			t.Errorf("%s: %v\n%s", zone, err, text)
		}
	}
}

// A value of a wrong type is told with line and field, and no name of a Go type: for every
// field that a policy file has.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	var check func(at string, of reflect.Type, write func(string) string)
	n := 0
	wrong := func(at, text string) {
		n++
		_, err := Parse([]byte(text), classes, sections...)
		if err == nil {
			return // a text may be right there
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
			if _, err := Parse([]byte(write(value)), classes, sections...); err != nil {
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
	for _, s := range sections {
		check(s.Name(), reflect.TypeOf(s.New()), func(v string) string { return s.Name() + ": " + v + "\n" })
	}
	if n < 500 {
		t.Errorf("only %d wrong values were tried", n)
	}
}

// The freezes' offsets of another year are the same zone.
func TestZonesLater(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(year int) policy.Version {
		return policy.Version{Policy: remedy.Policy{Freezes: []remedy.Freeze{{Name: "n", From: time.Hour, Until: 2 * time.Hour,
			Zone: remedy.Offsets(berlin, time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC))}}}, Zones: []string{"Europe/Berlin"}}
	}
	a, b := at(2026), at(2028)
	if changes := policy.Compare(a, b, policy.What{}); len(changes) > 0 || !a.Same(b) {
		t.Errorf("two years later: %+v", changes)
	}
	b.Policy.Freezes[0].Zone = []remedy.Offset{{Seconds: 7200}}
	if changes := policy.Compare(a, b, policy.What{}); !policy.Loosens(changes) {
		t.Errorf("in another zone: %+v", changes)
	}
}
