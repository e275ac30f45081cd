package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

type outcome struct {
	class   string
	result  event.Result
	plan    event.Record // the journal's last record with steps, or the zero record
	seconds float64      // from the first failure event to the result
}

// markdown returns a table for a page, a row for each shown class. Titles come from the classes, fixes from the journal.
func markdown(classes []*remedy.Remedy, outcomes []outcome) string {
	var b strings.Builder
	b.WriteString("| class | cause | what is done | risk | seconds to healed |\n|---|---|---|---|---|\n")
	for _, r := range classes {
		var done, risks, kinds []string
		var took []float64
		ends, bare := map[event.Result]bool{}, map[event.Result]bool{} // bare: without a plan
		for _, o := range outcomes {
			if o.class != r.Class {
				continue
			}
			ends[o.result] = true
			if o.result.Worked() {
				took = append(took, o.seconds)
			}
			kind, what := plan(o)
			bare[o.result] = bare[o.result] || kind == ""
			if kind == "" || slices.Contains(kinds, kind) {
				continue
			}
			kinds, done = append(kinds, kind), append(done, what)
			if !slices.Contains(risks, o.plan.Risk) {
				risks = append(risks, o.plan.Risk)
			}
		}
		if len(ends) == 0 {
			continue
		}
		for _, end := range []struct {
			result event.Result
			word   string
		}{{event.Asked, "asks"}, {event.Waiting, "waits"}} {
			if bare[end.result] {
				done = append(done, end.word)
			}
		}
		row := []string{"`" + r.Class + "`", r.Title(), strings.Join(done, "; "), strings.Join(risks, ", "), span(took, ends)}
		for i, cell := range row {
			row[i] = strings.ReplaceAll(cell, "|", "\\|")
			if cell == "" {
				row[i] = "–"
			}
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

func plan(o outcome) (kinds, what string) {
	if len(o.plan.Steps) == 0 {
		return "", ""
	}
	var texts []string
	for _, s := range o.plan.Steps {
		kinds += s.Kind + " "
		texts = append(texts, brief(s.Text.String()))
	}
	what = strings.Join(texts, ", ")
	switch o.result {
	case event.Asked:
		kinds, what = "asks "+kinds, "asks whether to "+what
	case event.Waiting:
		kinds, what = "waits "+kinds, "waits, then may "+what
	}
	return kinds, what
}

func span(took []float64, ends map[event.Result]bool) string {
	var all []string
	if len(took) > 0 {
		low, high := fmt.Sprintf("%.1f", slices.Min(took)), fmt.Sprintf("%.1f", slices.Max(took))
		if high != low {
			low += " to " + high
		}
		all = append(all, low)
	}
	if ends[event.Asked] {
		all = append(all, "asks")
	}
	if ends[event.Waiting] {
		all = append(all, "waits")
	}
	return strings.Join(all, ", ")
}
