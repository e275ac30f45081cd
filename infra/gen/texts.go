package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
)

// learnt are the releases whose source "make learn" has compared with the corpus.
var learnt = []string{"v2.9.1", "v2.11.2", "v2.12.4", "v2.13.0", "v2.14.0"}

func knownTexts(dir string) ([]byte, error) {
	count := map[string][]int{}
	for _, pattern := range []string{"functions/*/testdata/corpus.jsonl", "shared/event/testdata/corpus.jsonl"} {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			for rows := json.NewDecoder(bytes.NewReader(data)); rows.More(); {
				var row struct{ Reason, Since, Until string }
				if err := rows.Decode(&row); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				since, ok := ccm.ParseVersion(row.Since)
				until, ends := ccm.ParseVersion(row.Until)
				if count[row.Reason] == nil {
					count[row.Reason] = make([]int, len(learnt))
				}
				for i, release := range learnt {
					if v, _ := ccm.ParseVersion(release); ok && !v.Before(since) && !(ends && !v.Before(until)) {
						count[row.Reason][i]++
					}
				}
			}
		}
	}
	var out bytes.Buffer
	out.WriteString("\nThis many texts of each warning are known, by release of the controller. `make learn CCM=FOLDER` compares them with its source.\n\n")
	fmt.Fprintf(&out, "| reason | %s |\n|---|%s\n", strings.Join(learnt, " | "), strings.Repeat("---|", len(learnt)))
	for _, w := range event.Warnings {
		if count[w.Reason] == nil {
			continue
		}
		fmt.Fprintf(&out, "| `%s` |", w.Reason)
		for _, n := range count[w.Reason] {
			fmt.Fprintf(&out, " %d |", n)
		}
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}
