package rules

import (
	"slices"
	"strings"
)

// never lists packages that a function's program must not import, directly or indirectly: a function holds no key to the stream,
// decides nothing, and starts quickly.
var never = []string{
	module + "/shared/stream/...", module + "/shared/policy/...", module + "/shared/engine", module + "/shared/host", module + "/shared/observe/...",
	"github.com/nats-io/...", "github.com/prometheus/...", "go.opentelemetry.io/...",
}

// reach checks which packages the programs of functions import, directly or indirectly. It does not see the imports of libraries;
// tests of the built programs do.
func reach(tr *tree) []string {
	imports := map[string][]string{} // by folder, without test files
	var ways [][]string              // each from a program to a folder
	for dir, files := range tr.packages {
		for _, f := range files {
			if !strings.HasSuffix(f.name, "_test.go") {
				imports[dir] = append(imports[dir], sorted(f.imports())...)
			}
		}
		slices.Sort(imports[dir])
		imports[dir] = slices.Compact(imports[dir])
		if matches(dir, "functions/*/cmd/*") {
			ways = append(ways, []string{dir})
		}
	}
	slices.SortFunc(ways, slices.Compare)
	var out []string
	seen := map[string]bool{}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		for _, p := range imports[way[len(way)-1]] {
			if seen[p] {
				continue
			}
			seen[p] = true
			next := append(slices.Clone(way), strings.TrimPrefix(p, module+"/"))
			if matches(p, never...) {
				out = append(out, strings.Join(next, " imports ")+": the program of a function must not reach it")
				continue
			}
			ways = append(ways, next)
		}
	}
	return out
}
