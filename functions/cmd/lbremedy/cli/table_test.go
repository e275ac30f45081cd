package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Sentences are shortened before names, and short words last. In a pipe a table is whole.
func TestTableFits(t *testing.T) {
	t.Parallel()
	print := func(width int, output string) string {
		var out bytes.Buffer
		p := &Program{Out: &out, Getenv: func(string) string { return "" }, Terminal: func(any) int { return width }}
		p.Output = output
		table := p.Table("case", "service", "class", "result", "age", "finding")
		table.AppendRow([]any{"3f9a12bc", "shop-of-the-north/frontend", "shared-instance-discontinued", "needs-approval", "12d",
			"The Service has no CLB yet\nand asks for a kind that\tAlibaba Cloud no longer sells, with 中文 in between."})
		table.AppendRow([]any{"3f9a12bd", "", "x", "fixed", "1s", ""})
		table.Render()
		return out.String()
	}
	for _, tt := range []struct {
		width  int
		output string
		wants  []string
	}{
		{0, tableForm, []string{"shop-of-the-north/frontend", "shared-instance-discontinued",
			"asks for a kind that Alibaba Cloud no longer sells, with 中文 in between."}},
		{80, wideForm, []string{"shop-of-the-north/frontend", "shared-instance-discontinued", "with 中文 in between."}},
		{200, tableForm, []string{"shop-of-the-north/frontend", "shared-instance-discontinued", "asks for a kind that Alibaba"}},
		{120, tableForm, []string{"shop-of-the-n", "shared-instanc", "needs-approval", "The Service has no CLB yet and asks"}},
		{80, tableForm, []string{"3f9a12bc", "shop-of-t", "shared-in", "needs-approval", "12d", "The Service has no"}},
		{60, tableForm, []string{"shop", "shared", "The Ser"}},
	} {
		got := print(tt.width, tt.output)
		if strings.Count(got, "\n") != 3 {
			t.Errorf("at %d: a row is not a line: %q", tt.width, got)
		}
		for _, want := range tt.wants {
			if !strings.Contains(got, want) {
				t.Errorf("at %d, %s: no %q in\n%s", tt.width, tt.output, want, got)
			}
		}
		for i, line := range strings.Split(strings.TrimSpace(got), "\n") {
			if n := Columns(strings.TrimRight(line, " ")); tt.width > 0 && tt.output == tableForm && n > tt.width {
				t.Errorf("at %d: %d columns: %q", tt.width, n, line)
			}
			if i == 2 && len(strings.Fields(line)) != 6 {
				t.Errorf("at %d: words are missing in %q", tt.width, line)
			}
		}
	}
}
