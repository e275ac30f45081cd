package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// marks matches times, as cli.Clock and time.RFC3339 write them, and IDs of load balancers and vSwitches.
var marks = regex.New(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+-][A-Z0-9]*` +
	`|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)|\b(?:n?lb-[a-z]*[0-9][a-z0-9]*|vsw-[a-z0-9]+(?:-[a-z0-9]+)*)\b`)

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// prose returns HTML that shows times in the browser's zone and, given a region, links IDs to Alibaba Cloud's console.
func prose(text, of string, l *say.Language) template.HTML {
	safe := template.HTMLEscapeString(command.Clean(text))
	return template.HTML(marks().ReplaceAllStringFunc(safe, func(mark string) string {
		for _, layout := range []string{"2006-01-02 15:04:05 MST", time.RFC3339} {
			if t, err := time.ParseInLocation(layout, mark, time.Local); err == nil {
				return fmt.Sprintf(`<time data-clock datetime="%s" title="%s">%s</time>`, t.UTC().Format(time.RFC3339), utc(t), mark)
			}
		}
		if to := inCloud(mark, of, l); to != "" {
			return fmt.Sprintf(`<a href="%s" rel="noreferrer">%s</a>`, to, mark)
		}
		return mark
	}))
}

// Values in addresses of Alibaba Cloud's console. A policy's name has up to 128 letters, digits and hyphens (CreatePolicy of RAM, 2015-05-01).
var (
	region     = regex.New(`^[a-z]{2}(-[a-z0-9]+)+$`)
	policyName = regex.New(`^[A-Za-z0-9-]{1,128}$`)
)

// inCloud returns the address of a load balancer or a vSwitch in Alibaba Cloud's console; empty if it has none. The documentation links to the
// lists, such as https://slb.console.alibabacloud.com/slb/ap-southeast-1/slbs, https://slb.console.aliyun.com/nlb/cn-hangzhou/nlbs and
// https://vpc.console.alibabacloud.com/vpc/cn-hangzhou/switches, and to a CLB below its list; it does not say that the others are below theirs.
func inCloud(id, of string, l *say.Language) string {
	pages := map[string][2]string{"lb": {"slb", "slb/%s/slbs/"}, "nlb": {"slb", "nlb/%s/nlbs/"}, "vsw": {"vpc", "vpc/%s/switches/"}}
	kind, _, _ := strings.Cut(id, "-")
	page, ok := pages[kind]
	if !ok || !region().MatchString(of) {
		return ""
	}
	return cloudConsole(page[0], l) + fmt.Sprintf(page[1], of) + id
}

// cloudConsole selects the Chinese or the international site by the reader's language; they have separate accounts and consoles.
func cloudConsole(product string, l *say.Language) string {
	if l == nil {
		return "https://" + product + ".console.alibabacloud.com/"
	}
	return "https://" + product + ".console.aliyun.com/"
}

type link struct{ Name, To string }

// policyLinks links the RAM policies that a record's steps change, in the documented form for system policies:
// https://ram.console.alibabacloud.com/policies/AliyunCSFullAccess/System/content.
func policyLinks(r *event.Record, l *say.Language) []link {
	var list []link
	for _, step := range r.Steps {
		var of struct{ Policy string }
		if json.Unmarshal(step.Step, &of) == nil && policyName().MatchString(of.Policy) {
			list = append(list, link{of.Policy, cloudConsole("ram", l) + "policies/" + of.Policy + "/Custom/content"})
		}
	}
	return list
}

type stretch struct {
	Text, Bold, Code string
	link
}

var marked = regex.New("\\[([^\\]]+)\\]\\((https://[^)\\s]+)\\)|\\*\\*([^*]+)\\*\\*|(?s:```[a-z]*\n(.*?)\n```)|`([^`\n]+)`")

func stretches(page string) []stretch {
	if title, rest, ok := strings.Cut(page, "\n"); ok && strings.HasPrefix(title, "# ") {
		page = strings.TrimSpace(rest)
	}
	var list []stretch
	for {
		at := marked().FindStringSubmatchIndex(page)
		if at == nil {
			return append(list, stretch{Text: page})
		}
		part := func(n int) string { return page[max(0, at[2*n]):max(0, at[2*n+1])] }
		list = append(list, stretch{Text: page[:at[0]]}, stretch{Bold: part(3), Code: part(4) + part(5), link: link{part(1), part(2)}})
		page = page[at[1]:]
	}
}
