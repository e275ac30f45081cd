package events

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A labelled is one row of the corpus: an Event and the class it belongs to.
type labelled struct {
	Want      string `json:"want"`
	Reason    string `json:"reason"`
	Type      string `json:"type"`
	Component string `json:"component"`
	Message   string `json:"message"`
}

func (l labelled) input() Input {
	return Input{Reason: l.Reason, Type: l.Type, Component: l.Component, Message: l.Message}
}

// corpus returns the rows of testdata/corpus.jsonl.
func corpus(t testing.TB) []labelled {
	t.Helper()
	f, err := os.Open("testdata/corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []labelled
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l labelled
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		rows = append(rows, l)
	}
	return rows
}

// table returns the rows of testdata/table.txt.
func table(t testing.TB) []Row {
	t.Helper()
	data, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch kind, value, _ := strings.Cut(line, " "); {
		case line == "" || kind == "#":
		case kind == "code":
			rows[len(rows)-1].Codes = append(rows[len(rows)-1].Codes, value)
		case kind == "text":
			rows[len(rows)-1].Texts = append(rows[len(rows)-1].Texts, value)
		default:
			rows = append(rows, Row{Class: line})
		}
	}
	return rows
}

func TestCorpus(t *testing.T) {
	c := NewClassifier(table(t))
	rows := map[string]int{}
	for _, l := range corpus(t) {
		rows[l.Want]++
		if got := c.Classify(l.input()); got.Class != l.Want {
			t.Errorf("%s %q by %q:\n%s\ngot %+v, want %s", l.Type, l.Reason, l.Component, l.Message, got, l.Want)
		}
	}
	for _, r := range table(t) {
		if rows[r.Class] < 10 {
			t.Errorf("%s has %d rows in the corpus; give it 10", r.Class, rows[r.Class])
		}
	}
	if n := rows[Ignored] + rows[Unclassified]; n < 100 {
		t.Errorf("%d negatives are in the corpus; give it 100", n)
	}
}

func BenchmarkClassify(b *testing.B) {
	c := NewClassifier(table(b))
	rows := corpus(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Classify(rows[i%len(rows)].input())
		i++
	}
}
