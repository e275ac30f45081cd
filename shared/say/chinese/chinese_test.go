package chinese_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

func TestLanguage(t *testing.T) {
	for _, c := range []struct {
		text say.Text
		want string
	}{
		{say.F("The load balancer %s of the Service is gone.", "lb-1").And("Its backends are no longer updated."),
			"Service 的负载均衡 lb-1 已不存在。其后端不再更新。"},
		{say.F("The Service has %s. Its load balancer was not found.", say.Count(3, "listener")), "Service 有 3 个监听。未找到其负载均衡。"},
		{say.F("According to the Events, %d Services of the cluster have this failure: %s.", 3, say.List([]string{"a/b", "c/d", "e/f"}, 2)),
			"据 Event，集群中有 3 个 Service 出现此失败：a/b, c/d 及另外 1 个。"},
		{say.Clauses([]say.Text{say.F("is cordoned"), say.F("lacks the label %s", "a")}, 3), "不可调度；缺少 Label a"},
		{say.F("A sentence of a later release about %s.", "lb-1"), "A sentence of a later release about lb-1."},
	} {
		if got := c.text.In(chinese.Language()); got != c.want {
			t.Errorf("%q is %q, not %q", c.text, got, c.want)
		}
	}
}

type term struct {
	english, chinese string
	not              []string
	source           string
}

func terms(t *testing.T) []term {
	t.Helper()
	data, err := os.ReadFile("TERMS.md")
	if err != nil {
		t.Fatal(err)
	}
	var list []term
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.Contains(cells[0], "---") || strings.TrimSpace(cells[0]) == "English" {
			continue
		}
		list = append(list, term{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.Fields(cells[2]), strings.TrimSpace(cells[3])})
	}
	return list
}

func TestTerms(t *testing.T) {
	list := terms(t)
	if len(list) < 30 {
		t.Fatalf("the list has %d terms", len(list))
	}
	source := regexp.MustCompile(`\]\(https://` +
		`(?:help\.aliyun\.com|(?:www\.)?alibabacloud\.com|github\.com/AliyunContainerService|kubernetes\.io/zh-cn)/\S+\)|^ours$|^common use$`)
	for _, term := range list {
		if !source.MatchString(term.source) {
			t.Errorf("%s: %q is no source", term.english, term.source)
		}
		used := false
		for english, twin := range chinese.Language().Twins {
			used = used || strings.Contains(twin, term.chinese)
			for _, not := range term.not {
				if strings.Contains(twin, not) {
					t.Errorf("%q: it says %s for %s, where %s is the term: %s", english, not, term.english, term.chinese, twin)
				}
			}
		}
		if !used {
			t.Errorf("%s: nothing says %s", term.english, term.chinese)
		}
	}
}

// TestForm checks the typography: a space between Chinese and Latin letters, digits or verbs, none beside full-width punctuation, and
// no half-width punctuation after Chinese.
func TestForm(t *testing.T) {
	han := func(r rune) bool { return unicode.Is(unicode.Han, r) }
	latin := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '%'
	}
	wide := func(r rune) bool { return strings.ContainsRune("，。；：！？、（）", r) }
	close := regexp.MustCompile(`[a-z]%`) // the English has no space there either: the argument includes one
	for english, twin := range chinese.Language().Twins {
		runes := []rune(twin)
		for i := 1; i < len(runes); i++ {
			a, b := runes[i-1], runes[i]
			bad := ""
			switch {
			case han(a) && latin(b) || latin(a) && han(b):
				bad = "a space is missing"
			case a == ' ' && wide(b) || wide(a) && b == ' ':
				bad = "a space stands beside full-width punctuation"
			case han(a) && strings.ContainsRune(",.;:!?", b):
				bad = "half-width punctuation stands behind Chinese"
			}
			if bad != "" && !(b == '%' && close.MatchString(english)) {
				t.Errorf("%q: %s at %q: %s", english, bad, string(runes[i-1:i+1]), twin)
			}
		}
	}
}

// Chinese sentences contain no English words of ours, except in commands, quotations and fields of the policy. Texts about flags and
// exit codes use what a person types, and class is a field of a Service.
func TestOwnWords(t *testing.T) {
	words := []string{"absent", "fixed", "low", "medium", "high", "waiting", "worker", "question", "policy", "approval", "severity"}
	for _, term := range terms(t) {
		if term.source == "ours" && term.english != "class" {
			words = append(words, regexp.QuoteMeta(term.english))
		}
	}
	ours := regexp.MustCompile(`(?:^|[\p{Han} ，。；：！？、（])(` + strings.Join(words, "|") + `)s?(?:$|[\p{Han} ，。；：！？、）])`)
	command := regexp.MustCompile(`\b(?:kubectl|aliyun|lbremedy|make|nats)\b[\x20-\x7e]*|--[a-z-]+ [\w:-]+|“[^”]*”|\b\w+: \w+`)
	for english, twin := range chinese.Language().Twins {
		if strings.Contains(english, "--") || strings.Contains(english, "`") || strings.HasPrefix(english, "Exit codes") {
			continue
		}
		if m := ours.FindStringSubmatch(command.ReplaceAllString(twin, "")); m != nil {
			t.Errorf("%q: its twin says %q: %s", english, m[1], twin)
		}
	}
}
