package step

import (
	"encoding/json"
	"testing"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// FuzzDecode decodes what a record may contain. A decoded step can be shown, undone and recorded again with the same meaning.
func FuzzDecode(f *testing.F) {
	for _, s := range All() {
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Kind(), data)
		f.Add(s.Kind(), data[:len(data)/2])
	}
	f.Add("annotate", []byte("null"))
	f.Add("nothing", []byte("{}"))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		s, err := Decode(kind, data)
		if err != nil {
			return
		}
		if s.Kind() != kind {
			t.Errorf("%s was read as %s", kind, s.Kind())
		}
		_ = s.Target()
		if r := s.Risk(); r < remedy.Low || r > remedy.High {
			t.Errorf("%s has the risk %d", s.Says(), r)
		}
		steps := []remedy.Step{s}
		if back, ok := s.Undo(); ok {
			steps = append(steps, back)
		}
		for _, s := range steps {
			text := s.Says().String()
			again, err := json.Marshal(s)
			if err != nil {
				t.Fatalf("%s can't be journalled: %v", text, err)
			}
			same, err := Decode(s.Kind(), again)
			if err != nil {
				t.Fatalf("%s can't be read again: %v", text, err)
			}
			if same.Says().String() != text || same.Target() != s.Target() {
				t.Errorf("%s is %s after the journal", text, same.Says())
			}
		}
	})
}
