// Package corpus reads the classifier's test messages: those of each class's folder, and shared/event's, which are not about failed syncs.
package corpus

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A Row is a message of an Event with its class. With Since it is a text of the controller, read in the source of these releases
// (github.com/kubernetes/cloud-provider-alibaba-cloud). The prefix before the error itself may be that of a later release.
type Row struct {
	Want      string `json:"want"` // a class, "unclassified" or "ignored"
	Reason    string `json:"reason"`
	Type      string `json:"type"`
	Component string `json:"component"`
	Message   string `json:"message"`
	Since     string `json:"since"` // first release known to write it
	Until     string `json:"until"` // first release that no longer does; empty: unknown
	Why       string `json:"why"`   // for a controller's text: why no class handles it
}

// Files returns the files with rows, sorted.
func Files(t testing.TB) []string {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func files() ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, pattern := range []string{"functions/*/testdata/corpus.jsonl", "shared/event/testdata/corpus.jsonl"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("there is no file %s: %w", pattern, err)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return all, nil
}

// Rows returns all rows in order of their files.
func Rows(t testing.TB) []Row {
	t.Helper()
	rows, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// All returns all rows, for a program in the tree.
func All() ([]Row, error) {
	names, err := files()
	var all []Row
	for _, name := range names {
		rows, err := read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, err
}

func read(name string) ([]Row, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []Row
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			err = fmt.Errorf("no go.mod at or above %s", dir)
		}
		dir = up
	}
	return "", err
}
