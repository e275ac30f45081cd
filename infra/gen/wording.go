package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/infra/gen/folders"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

const wordingFile = "test/scenario/testdata/wording.txt"

func wording(dir string, all []*remedy.Remedy) ([]byte, error) {
	b := bytes.NewBufferString(generated + "\nWhat lbremedy says to people, in each scenario of each class.\n")
	for _, r := range all {
		fmt.Fprintf(b, "\n== %s: %s\n", r.Class, r.Title())
		files, err := filepath.Glob(filepath.Join(dir, "functions", folders.Name(r.Class), "testdata", "*.txtar"))
		if err != nil {
			return nil, fmt.Errorf("find the scenarios of %s: %w", r.Class, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read a scenario: %w", err)
			}
			a := txtar.Parse(text)
			fmt.Fprintf(b, "\n%s\n", bytes.TrimSpace(a.Comment))
			for _, f := range a.Files {
				if f.Name != "want" {
					continue
				}
				for line := range strings.SplitSeq(strings.TrimSpace(string(f.Data)), "\n") {
					fmt.Fprintf(b, "    %s\n", line)
				}
			}
		}
	}
	return b.Bytes(), nil
}
