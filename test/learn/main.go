// Learn compares the source of Alibaba Cloud's cloud controller manager (github.com/kubernetes/cloud-provider-alibaba-cloud) with
// this project's knowledge of that release: the annotations for each kind of load balancer, immutable attributes, defaults,
// Events with their objects, texts of errors, and the API actions of each reconciler. Each difference needs a verdict in
// verdicts.yaml, or learn exits with 1. No line of the controller is in this tree.
//
// It type-checks the source with its vendor folder, and follows calls from each reconciler's function Add, through interfaces to
// all types of the module with these methods. It does not judge whether a branch can be taken.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout, known)
	if err != nil {
		fmt.Fprintln(os.Stderr, "learn:", err)
	}
	os.Exit(code)
}

// A Release is the result for a source tree.
type Release struct {
	Release string   `json:"release"`
	Results []Result `json:"results"`
	Facts   Facts    `json:"facts"`
}

// run returns 0 if all differences have verdicts, 1 if some are open, and 2 with an error.
func run(args []string, out io.Writer, tables func(ccm.Version) (Tables, error)) (int, error) {
	flags := flag.NewFlagSet("learn", flag.ContinueOnError)
	verdictFile := flags.String("verdicts", "test/learn/verdicts.yaml", "file with the verdicts")
	release := flags.String("release", "", "release of the source tree, such as v2.15.0; without it the name of the folder")
	asJSON := flags.Bool("json", false, "print all facts and differences as JSON")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.NArg() == 0 || *release != "" && flags.NArg() > 1 {
		return 2, errors.New("name the folder of a source tree: make learn CCM=FOLDER; with -release one alone")
	}
	verdicts, err := readVerdicts(*verdictFile)
	if err != nil {
		return 2, err
	}
	var all []Release
	for _, dir := range flags.Args() {
		r, err := learn(dir, *release, verdicts, tables)
		if err != nil {
			return 2, fmt.Errorf("%s: %w", dir, err)
		}
		all = append(all, r)
	}
	if *asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(all)
	} else {
		err = show(out, all, verdicts)
	}
	if err != nil {
		return 2, err
	}
	if slices.ContainsFunc(all, func(r Release) bool { return slices.ContainsFunc(r.Results, func(r Result) bool { return r.Open > 0 }) }) {
		return 1, nil
	}
	return 0, nil
}

func learn(dir, release string, verdicts Verdicts, tables func(ccm.Version) (Tables, error)) (Release, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Release{}, err
	}
	if release == "" {
		release = filepath.Base(dir)
	}
	v, ok := ccm.ParseVersion(release)
	if !ok {
		return Release{}, fmt.Errorf("%s is not a release: name the folder after its release, or use -release", release)
	}
	t, err := load(dir)
	if err != nil {
		return Release{}, err
	}
	ours, err := tables(v)
	if err != nil {
		return Release{}, err
	}
	out := Release{Release: release, Facts: read(t)}
	out.Results, err = compare(out.Facts, ours, verdicts)
	return out, err
}

func show(out io.Writer, all []Release, verdicts Verdicts) error {
	unused := map[string]bool{}
	for kind, list := range verdicts {
		for what := range list {
			unused[kind+" "+what] = true
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range all {
		for _, k := range r.Results {
			for _, d := range k.Differences {
				delete(unused, k.Kind+" "+d.as)
				if d.Verdict == "" {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Release, k.Kind, d.What, d.Where[0])
				}
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		fmt.Fprintf(out, "not needed for these: the verdict on %s\n", name)
	}
	fmt.Fprintln(w, "release\tkind\tsource\ttables\tverdicts\topen")
	for _, r := range all {
		for _, k := range r.Results {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", r.Release, k.Kind, k.Source, k.Tables, k.Verdicts, k.Open)
		}
	}
	return w.Flush()
}
