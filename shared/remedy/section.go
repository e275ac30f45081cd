package remedy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Section is settings of classes' own in the policy file: one key at its top. A class
// declares it, as a Setting, in its Remedy. It says where it is known what there is to it: the
// reader of the file decodes and checks it, the schema and the catalogue describe it.
type Section interface {
	Name() string // the key
	About() string
	New() any                                                     // where to decode it into: a pointer to the default
	Judge(value any, bad func(field, format string, args ...any)) // what is wrong with a value that New returned
	Put(p *Policy, value any) error                               // has the policy hold a value that New returned
	Fill(p Policy, value any) error                               // has a value that New returned be the one that holds under the policy
	Read(p Policy) error                                          // what keeps it from being read, or nil
	Validate() error                                              // what is wrong with its declaration, or nil
}

// A Setting is a Section whose value has the type T. Where the policy file leaves out the
// section, or a field of it, that of Default holds. A struct has its fields' names in the
// tags json, and no structs in it.
type Setting[T any] struct {
	Key     string // a name such as ramDelay
	Doc     string // what it says and its default, for people
	Default T
	Check   func(value T, bad func(field, format string, args ...any)) // nil: each value of the type is right
}

// Of returns the value that holds under a policy. That of a policy which can't be read is the
// default: the engine runs no class, and the doctor no check, that declares it then.
func (s *Setting[T]) Of(p Policy) T {
	v, err := s.read(p)
	if err != nil {
		return s.Default
	}
	return v
}

func (s *Setting[T]) read(p Policy) (T, error) {
	v := s.Default
	if text, ok := p.Sections[s.Key]; ok {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			return s.Default, fmt.Errorf("read %s: %w", s.Key, err)
		}
	}
	return v, nil
}

// With returns the policy with this value.
func (s *Setting[T]) With(p Policy, v T) (Policy, error) {
	sections := map[string]json.RawMessage{}
	for key, text := range p.Sections {
		if key != s.Key {
			sections[key] = text
		}
	}
	if !reflect.DeepEqual(v, s.Default) {
		text, err := json.Marshal(v)
		if err != nil {
			return p, fmt.Errorf("write %s: %w", s.Key, err)
		}
		sections[s.Key] = text
	}
	if p.Sections = sections; len(sections) == 0 {
		p.Sections = nil
	}
	return p, nil
}

// Name returns the key of the section.
func (s *Setting[T]) Name() string { return s.Key }

// About returns what the section says.
func (s *Setting[T]) About() string { return s.Doc }

// New returns a pointer to a copy of the default.
func (s *Setting[T]) New() any {
	v := s.Default
	return &v
}

// Judge tells bad what is wrong with a value.
func (s *Setting[T]) Judge(value any, bad func(field, format string, args ...any)) {
	if s.Check != nil {
		s.Check(*value.(*T), bad)
	}
}

// Put has the policy hold the value.
func (s *Setting[T]) Put(p *Policy, value any) (err error) {
	*p, err = s.With(*p, *value.(*T))
	return err
}

// Fill sets a value that New returned to the one that holds under a policy.
func (s *Setting[T]) Fill(p Policy, value any) (err error) {
	*value.(*T), err = s.read(p)
	return err
}

// Read returns what keeps the section of a policy from being read, or nil.
func (s *Setting[T]) Read(p Policy) error {
	_, err := s.read(p)
	return err
}

var keyForm = regex.New(`^[a-z][A-Za-z]*$`)

// Validate returns what is wrong with the declaration, or nil.
func (s *Setting[T]) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("section %q: "+format, append([]any{s.Key}, args...)...))
	}
	if !keyForm().MatchString(s.Key) {
		bad("its key is no name such as ramDelay")
	}
	if reserved(s.Key) {
		bad("all classes have a section of that name: choose another one")
	}
	if strings.TrimSpace(s.Doc) == "" {
		bad("Doc is empty: nobody would know what it says")
	}
	for _, f := range structFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !keyForm().MatchString(name) {
			bad("its field %s has no tag json with a name such as reserve", f.Name)
		}
		if len(structFields(f.Type)) > 0 {
			bad("its field %s is a struct: make it a section of its own", f.Name)
		}
	}
	// An operator who writes a zero means it.
	var zero T
	if p, err := s.With(Policy{}, zero); err != nil {
		errs = append(errs, err)
	} else if v, err := s.read(p); err != nil || !reflect.DeepEqual(v, zero) {
		bad("its zero value becomes %+v: leave out omitempty and omitzero where the default is not zero", v)
	}
	s.Judge(s.New(), func(field, format string, args ...any) {
		bad("its default is wrong: %s: %s", field, fmt.Sprintf(format, args...))
	})
	return errors.Join(errs...)
}

func structFields(t reflect.Type) []reflect.StructField {
	if t.Kind() != reflect.Struct {
		return nil
	}
	return reflect.VisibleFields(t)
}

// Sections returns the sections of remedies, each once, in the order of the remedies.
func Sections(remedies ...*Remedy) []Section {
	var all []Section
	seen := map[Section]bool{}
	for _, r := range remedies {
		for _, s := range r.Sections {
			if !seen[s] {
				all = append(all, s)
			}
			seen[s] = true
		}
	}
	return all
}

// fileOnly are the keys at the top of a policy file that are no fields of Policy.
var fileOnly = []string{"unsettled", "tell", "version", "doctor"}

// reserved reports whether a key is not a class's to take.
func reserved(key string) bool {
	for _, name := range fileOnly {
		if strings.EqualFold(name, key) {
			return true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Policy]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(name, key) {
			return true
		}
	}
	return false
}

// MarshalJSON writes the policy with the sections beside its fields.
func (p Policy) MarshalJSON() ([]byte, error) {
	type plain Policy
	text, err := json.Marshal(plain(p))
	if err != nil || len(p.Sections) == 0 {
		return text, err
	}
	more, err := json.Marshal(p.Sections)
	if err != nil {
		return nil, err
	}
	return append(append(text[:len(text)-1], ','), more[1:]...), nil
}

// A Duration is a length of time, in a file 60s or 1m.
type Duration time.Duration

// String returns the duration as it stands in a file.
func (d Duration) String() string { return time.Duration(d).String() }

// ReadText reads the duration from a text such as 60s.
func (d *Duration) ReadText(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no duration such as 60s", text)
	}
	*d = Duration(v)
	return nil
}
