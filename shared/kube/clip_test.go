package kube

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
)

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		"abcdef": "abc", "ab": "ab", "a世界": "a世", "世世": "世", "": "",
	} {
		if got := clipped(in, 3, false); got != want {
			t.Errorf("of %q is kept %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"abcdefghij": "ab […] ij", "abcd": "abcd", "a世bcd界e": "a世 […] 界e",
	} {
		if got := clipped(in, 2, true); got != want {
			t.Errorf("of %q is kept %q, want %q", in, got, want)
		}
	}
}

func TestWeight(t *testing.T) {
	type inner struct {
		Texts []string
		By    map[string]*inner
		At    time.Time
		any
	}
	long := strings.Repeat("x", 1000)
	v := inner{Texts: []string{long, long}, By: map[string]*inner{long: {Texts: []string{long}}}, At: time.Now(), any: long}
	if n := weight(reflect.ValueOf(&v).Elem()); n < 5000 || n > 6000 {
		t.Errorf("it weighs %d", n)
	}
}

func TestLongObject(t *testing.T) {
	long := `{"message":"` + strings.Repeat("x", largest) + `"}`
	for name, read := range map[string]func() error{
		"list": func() error {
			from := &bounded{from: strings.NewReader(`{"items":[` + long + `]}`)}
			return items(from, new(metav1.ListMeta), func() any { return new(wireEvent) }, func(any) error { return nil })
		},
		"watch": func() error {
			return frames(strings.NewReader(`{"type":"ADDED","object":`+long+`}`), "watch", func(string, *wireEvent) error { return nil })
		},
	} {
		if err := read(); !errors.Is(err, errLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A clipped message is stored and classified as the whole message is.
func FuzzClip(f *testing.F) {
	f.Add("a ", "password=x ", 40_000, "b")
	f.Add("世", "\\\"\u2028", 9_000, "token='")
	f.Add("😀", "<&>", 50_000, "")
	f.Fuzz(func(t *testing.T, begin, fill string, times int, end string) {
		if times < 0 || times*len(fill) > 1<<20 {
			return
		}
		whole := strings.ToValidUTF8(begin+strings.Repeat(fill, times)+end, "?")
		e := (&wireEvent{Message: whole}).event()
		if got, want := event.Abridge(e.Message), event.Abridge(whole); got != want {
			t.Errorf("stored is %q, and of the whole message %q", got, want)
		}
		if got, want := event.Cut(e.Message), event.Cut(whole); got != want {
			t.Errorf("classified is %q, and of the whole message %q", got, want)
		}
	})
}

func TestEventTextsAreClipped(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.Kind() == reflect.String:
			v.SetString(long)
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[stamp]():
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		}
	}
	var w wireEvent
	fill(reflect.ValueOf(&w).Elem())
	e := w.event()
	limited := map[string]bool{"Namespace": true, "Name": true, "UID": true, "ResourceVersion": true} // of its metadata, by the API server
	var check func(path string, v reflect.Value)
	check = func(path string, v reflect.Value) {
		switch {
		case v.Kind() == reflect.String && !limited[path] && v.Len() > 1<<10 && !(path == "Message" && v.Len() < 65<<10):
			t.Errorf("%s is kept however long it is", path)
		case v.Kind() == reflect.Slice:
			check(path, v.Index(0))
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
			for i := range v.NumField() {
				check(strings.TrimPrefix(path+"/"+v.Type().Field(i).Name, "/"), v.Field(i))
			}
		}
	}
	check("", reflect.ValueOf(e))
}
