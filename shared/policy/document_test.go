package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/nats"
)

// Every field of the document has a name of its own, which no renaming in the code changes.
func TestTagged(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			check(of.Elem())
			return
		case reflect.Map:
			check(of.Elem())
			return
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || seen[of] {
			return
		}
		seen[of] = true
		names := map[string]string{}
		for i := range of.NumField() {
			f := of.Field(i)
			if of == reflect.TypeFor[remedy.Policy]() && f.Name == "Sections" {
				continue // each lies beside the fields; its own declaration is checked
			}
			if of == reflect.TypeFor[document]() && f.Name == "Version" {
				continue // document writes and reads it itself
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if before, twice := names[strings.ToLower(name)]; twice && !f.Anonymous {
				t.Errorf("%s.%s has the name of %s", of, f.Name, before)
			}
			names[strings.ToLower(name)] = f.Name
			if name == "" && !f.Anonymous {
				t.Errorf("%s.%s has no json tag: it lies in the policy in force", of, f.Name)
			}
			if !f.Anonymous && !strings.EqualFold(name, f.Name) {
				t.Errorf("%s.%s is %q: releases before the tags would not find it", of, f.Name, name)
			}
			check(f.Type)
		}
	}
	check(reflect.TypeFor[document]())
	check(reflect.TypeFor[sinksDocument]())
	if len(seen) < 11 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// A policy of a release to come is not read at all.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := nats.Streams(t)
	put := func(text string) {
		t.Helper()
		if err := s.Put(t.Context(), key+".c1", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for text, says := range map[string]string{
		`{"version":2,"mode":"fix"}`:                              "its version is 2",
		`{"version":1,"mode":"fix","curfew":"22:00"}`:             `its field "curfew" is not known`,
		`{"version":1,"mode":"fix","rules":[{"zones":["a"]}]}`:    `its field "zones" is not known`,
		`{"version":1,"classes":{"a":{"mode":"fix","most":3}}}`:   `its field "most" is not known`,
		`{"version":1,"mode":"fix","budgets":{"perNamespace":1}}`: `its field "perNamespace" is not known`,
		`{"version":1,"mode":"fix","vswitches":{"zonal":true}}`:   `its field "zonal" is not known`,
	} {
		put(text)
		p, err := InForce(t.Context(), s, "c1")
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), says) || p.Mode != "" {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
}

// Sinks of a release to come are not read at all.
func TestSinkVersions(t *testing.T) {
	t.Parallel()
	s := nats.Streams(t)
	put := func(text string) {
		t.Helper()
		if err := s.Put(t.Context(), sinksKey+".c1", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string][]Sink{
		`{"version":1,"sinks":[{"name":"e","kind":"event"}]}`: {{Name: "e", Kind: Event}},
	} {
		put(text)
		if got, err := SinksInForce(t.Context(), s, "c1"); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v %s", text, err, cmp.Diff(want, got))
		}
	}
	for text, says := range map[string]string{
		`{"version":2,"sinks":[]}`:                                      "its version is 2",
		`{"version":1,"sinks":[{"name":"e","kind":"event","until":1}]}`: `its field "until" is not known`,
		`{"version":1,"sinks":[],"quiet":"22:00"}`:                      `its field "quiet" is not known`,
	} {
		put(text)
		if got, err := SinksInForce(t.Context(), s, "c1"); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), says) || got != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
