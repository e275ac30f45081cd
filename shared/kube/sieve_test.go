package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
)

// sifted returns what the shape of T keeps of a text.
func sifted[T any](from io.Reader) (string, error) {
	data, err := newSieve(from).sift(shapeOf[T]())
	return string(data), err
}

func TestSieve(t *testing.T) {
	type inner struct {
		A string `json:"a"`
		M map[string]struct {
			X int `json:"x"`
		} `json:"m"`
	}
	type outer struct {
		inner
		Short string          `json:"short" clip:"3"`
		Ends  string          `json:"ends" clip:"2,ends"`
		List  []inner         `json:"list"`
		Raw   json.RawMessage `json:"raw"`
		Next  *outer          `json:"next"`
	}
	for in, want := range map[string]string{
		`{"a":"x","b":{"a":"y","c":[1,{"d":null}]},"m":{"k":{"x":1,"y":2}}}`: `{"a":"x","m":{"k":{"x":1}}}`,
		`{"b":1,"list":[{"b":2,"a":"z"},{},null],"c":2}`:                     `{"list":[{"a":"z"},{},null]}`,
		`{"short":"abcdef","ends":"abcdefghij"}`:                             `{"short":"abc","ends":"ab […] ghij"}`,
		`{"short":"ab","ends":"abcd"}`:                                       `{"short":"ab","ends":"abcd"}`,
		`{"short":"a世界"}`:                                                    `{"short":"a世"}`,
		`{"short":"\u003c\"\\xyz"}`:                                          `{"short":"\u003c\"\\"}`,
		`{"raw":{"b":[1,2],"a":"\""},"next":{"a":"n","q":0}}`:                `{"raw":{"b":[1,2],"a":"\""},"next":{"a":"n"}}`,
		`{"a":{"b":1},"list":7,"m":[1]}`:                                     `{"a":null,"list":7,"m":[1]}`,
		`{"\u0061":"x"}`:                                                     `{"\u0061":"x"}`,
		` [ 1 ] `:                                                            `null`,
	} {
		for _, from := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			if got, err := sifted[outer](from); err != nil || got != want {
				t.Errorf("of %s is kept %s, %v; want %s", in, got, err, want)
			}
		}
	}
	for _, bad := range []string{`{`, `{"a"`, `{"a":`, `{"b":tru}`, `{"b":"\q"}`, `{"b":[1}`,
		`{"b":1,}`, `{"b":[1,]}`, `{"b" 1}`, "{\"b\":\"\n\"}", `{"short":"\u12"}`, `nul`,
		strings.Repeat("[", 2*deepest)} {
		if got, err := sifted[outer](strings.NewReader(bad)); err == nil {
			t.Errorf("%.40s is read as %s", bad, got)
		}
	}
}

// What a sieve holds of an Event does not grow with the Event.
func TestSieveHoldsLittle(t *testing.T) {
	long := strings.Repeat(`\"x世`, 1<<20)
	text := func(name string) string { return fmt.Sprintf("%q:\"%s\"", name, long) }
	body := `{"metadata":{` + text("name") + `,"annotations":{` + text("a") + `},"managedFields":[{"manager":"m","fieldsV1":{` + text("f:x") + `}}]},` +
		text("message") + "," + text("reason") + `,"source":{` + text("component") + `},` + text("action") + "}"
	s := newSieve(strings.NewReader(body))
	if _, err := s.sift(shapeOf[wireEvent]()); err != nil {
		t.Fatal(err)
	}
	// The name is not clipped: the API server takes no long ones.
	if most := len(long) + 1<<20; cap(s.out) > 2*most {
		t.Errorf("of %d bytes the sieve holds %d", len(body), cap(s.out))
	}
}

// FuzzSieve holds that what is decoded from a sieve is what is decoded without one.
func FuzzSieve(f *testing.F) {
	for _, s := range []string{listed, `{"metadata":{"labels":{"a":"b"}},"spec":{"ports":[{"port":80,"targetPort":"x"}]}}`,
		`{"message":"\ud83d\ude00","count":1e2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := newSieve(strings.NewReader(text)).sift(shapeOf[corev1.Service]())
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		var with, without corev1.Service
		if lenient(json.Unmarshal(data, &with)) != nil {
			t.Fatalf("of %q is kept %q, which is not JSON", text, data)
		}
		if lenient(json.Unmarshal([]byte(text), &without)) != nil || !exact(text) {
			return
		}
		if diff := cmp.Diff(without, with); diff != "" {
			t.Errorf("%q (-without a sieve +with one):\n%s", text, diff)
		}
	})
}

// exact reports whether no key of a text has an upper-case letter where encoding/json would overlook it, or a value of
// another type than its field, of which encoding/json keeps a part.
func exact(text string) bool {
	var s corev1.Service
	dec := json.NewDecoder(strings.NewReader(text))
	return dec.Decode(&s) == nil && strings.ToLower(text) == text
}

// FuzzClip holds that what is stored, and what is classified, of a clipped message is what it is of the whole one.
func FuzzClip(f *testing.F) {
	f.Add("a ", "password=x ", 40_000, "b")
	f.Add("世", "\\\"\u2028", 9_000, "token='")
	f.Add("😀", "<&>", 50_000, "")
	f.Fuzz(func(t *testing.T, begin, fill string, times int, end string) {
		if times < 0 || times*len(fill) > 1<<20 {
			return
		}
		whole := strings.ToValidUTF8(begin+strings.Repeat(fill, times)+end, "?")
		body, err := json.Marshal(map[string]string{"message": whole})
		if err != nil {
			t.Fatal(err)
		}
		data, err := newSieve(bytes.NewReader(body)).sift(shapeOf[wireEvent]())
		if err != nil {
			t.Fatal(err)
		}
		var e wireEvent
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		if got, want := event.Abridge(e.Message), event.Abridge(whole); got != want {
			t.Errorf("stored is %q, and of the whole message %q", got, want)
		}
		if got, want := event.Cut(e.Message), event.Cut(whole); got != want {
			t.Errorf("classified is %q, and of the whole message %q", got, want)
		}
	})
}

// Every text of an Event that the API server does not limit is clipped.
func TestEventTextsAreClipped(t *testing.T) {
	limited := map[string]bool{"name": true, "namespace": true, "uid": true, "resourceVersion": true} // of its metadata
	var check func(path string, typ reflect.Type)
	check = func(path string, typ reflect.Type) {
		for typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[stamp]() {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := f.Tag.Get("json")
			if f.Type.Kind() == reflect.String && f.Tag.Get("clip") == "" && !(path == "/metadata" && limited[name]) {
				t.Errorf("%s/%s is read however long it is", path, name)
			}
			check(path+"/"+name, f.Type)
		}
	}
	check("", reflect.TypeFor[wireEvent]())
}
