package paste_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/paste"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
)

type answer struct {
	kind  paste.Kind
	class string
}

var classifier = sync.OnceValue(func() *event.Classifier { return event.NewClassifier(table.Table()) })

func answers(t testing.TB, text string) []answer {
	t.Helper()
	by := classifier()
	var all []answer
	r := paste.NewReader(func(found paste.Text) error {
		all = append(all, answer{found.Kind, found.Classify(by).Class})
		return nil
	})
	for line := range strings.Lines(text) {
		if err := r.Line(strings.TrimSuffix(line, "\n")); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Errorf("%s\n%v", text, err)
	}
	return all
}

// TestNamed counts the recognized failures and ignored other texts, for each kind of held-out and development texts. With -v it prints the tables.
func TestNamed(t *testing.T) {
	for _, file := range []struct {
		name  string
		named int // at least
	}{{"heldout", 75}, {"pastes", 299}} {
		t.Run(file.name, func(t *testing.T) { measure(t, "testdata/"+file.name+".txtar", file.named) })
	}
}

type count struct{ failures, named, others, alone int }

func measure(t *testing.T, file string, atLeast int) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]*count{"all": {}}
	for _, f := range archive.Files {
		kind, want, _ := strings.Cut(f.Name, ": ")
		if counts[kind] == nil {
			counts[kind] = &count{}
		}
		wanted := slices.DeleteFunc(strings.Split(want, ", "), func(class string) bool { return class == "none" })
		var got []string
		for _, a := range answers(t, string(f.Data)) {
			if a.class == event.Ignored {
				continue
			}
			got = append(got, a.class)
			if len(wanted) > 0 && kind != "mixed" && string(a.kind) != kind {
				t.Errorf("%s\nis said to be %s, want %s", f.Data, a.kind, kind)
			}
			if a.class != event.Unclassified && !slices.Contains(wanted, a.class) {
				t.Errorf("%s\nof %s got %s, which is wrong: want %v", f.Data, kind, a.class, wanted)
			}
		}
		for _, c := range []*count{counts[kind], counts["all"]} {
			c.failures += len(wanted)
			switch same := slices.Equal(got, wanted); {
			case len(wanted) == 0:
				c.others++
				if same {
					c.alone++
				}
			case same:
				c.named += len(wanted)
			}
		}
		if !slices.Equal(got, wanted) {
			t.Logf("%s\nof %s got %v, want %v", f.Data, kind, got, wanted)
		}
	}
	lines := []string{fmt.Sprintf("%-17s %8s %6s %7s %6s", "kind", "failures", "named", "others", "alone")}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		c := counts[kind]
		lines = append(lines, fmt.Sprintf("%-17s %8d %6d %7d %6d", kind, c.failures, c.named, c.others, c.alone))
	}
	t.Log("\n" + strings.Join(lines, "\n"))
	if all := counts["all"]; all.named < atLeast || all.named*100 < all.failures*98 || all.alone < all.others {
		t.Errorf("%d of %d failures are named, and %d of %d others left alone", all.named, all.failures, all.alone, all.others)
	}
}
