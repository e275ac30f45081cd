package say_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/say"
)

func TestMarkup(t *testing.T) {
	const source = `{{define "main"}}<h1 class="Big">Load balancers</h1>
<p>{{if .At}}Read at <time datetime="{{iso .At}}">{{clock .At}}</time>.{{else}}not "read"{{end}} · <b>5</b></p>
<form aria-label="Answer: {{print "a}}b" .Title}}" data-state="off"><button name="verdict" value="approve">Approve …</button></form>{{end}}`
	var found []string
	got := say.Markup(source, func(s string) string {
		found = append(found, s)
		return strings.ToUpper(s)
	})
	want := []string{"Load balancers", "Read at", `not "read"`, "Answer:", "Approve …"}
	if !slices.Equal(found, want) {
		t.Errorf("it finds %q, not %q", found, want)
	}
	if !strings.Contains(got, `<h1 class="Big">LOAD BALANCERS</h1>`) || !strings.Contains(got, `aria-label="ANSWER: {{print "a}}b" .Title}}" data-state="off"`) {
		t.Errorf("it becomes %s", got)
	}
	if same := say.Markup(source, func(s string) string { return s }); same != source {
		t.Errorf("without a change it becomes %s", same)
	}
}
