// Cards draws the tickets in a group chat as HTML pages, for the pictures of "make capture". DingTalk's and Feishu's cards are
// rendered only in their apps, so lbremedy's own code sends a night's transcript to a server in this program, which draws what
// arrives: Feishu's cards by its published schema, DingTalk's like a template with the variables on shared/chat's page. The apps
// may look different. Its argument is the folder for card-feishu.html, card-feishu-zh.html and card-dingtalk.html.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/chat"
)

//go:embed card.html
var page string

var buttons = []chat.Button{chat.Approve, chat.Reject, chat.Mute}

// A card is the used part of Feishu's body; DingTalk's is converted to it.
type card struct {
	Header struct {
		Template string
		Title    text
	}
	Elements []element
}

type text struct{ Content string }

type element struct {
	Content string // Markdown; empty: none
	Actions []action
}

type action struct {
	Type string
	Text text
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cards FOLDER")
		os.Exit(2)
	}
	for name, app := range map[string]func(chat.Config) chat.App{"feishu": chat.Feishu, "feishu-zh": chat.Feishu, "dingtalk": chat.DingTalk} {
		if err := draw(name, app, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "cards:", err)
			os.Exit(1)
		}
	}
}

func draw(name string, app func(chat.Config) chat.App, folder string) error {
	night, err := os.ReadFile("shared/ticket/testdata/night-" + name + ".txt")
	if err != nil {
		return err
	}
	var first, last []card
	for _, c := range told(string(night)) {
		one, err := sent(app, c)
		if err != nil {
			return fmt.Errorf("send a card to %s: %w", name, err)
		}
		if first == nil {
			first = []card{one}
		}
		if c.Over && len(c.Said) > 0 {
			last = []card{one}
		}
	}
	var out bytes.Buffer
	if err := template.Must(template.New("card").Funcs(template.FuncMap{"markdown": markdown}).Parse(page)).Execute(&out, append(first, last...)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "card-"+name+".html"), out.Bytes(), 0o644)
}

var heading = regexp.MustCompile(`(?m)^(?:--- message .* ---|=== .* ===|\(.*\))$`)

func told(night string) []chat.Card {
	var all []chat.Card
	at := heading.FindAllStringIndex(night, -1)
	for i, here := range at {
		end := len(night)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if !strings.HasPrefix(night[here[0]:], "---") {
			continue
		}
		parts := strings.Split(strings.TrimSpace(night[here[1]:end]), "\n\n")
		c, last := chat.Card{Title: parts[0], Value: "uid/case/1/digest"}, len(parts)-1
		if row, is := strings.CutPrefix(parts[last], "["); is {
			labels := strings.Split(strings.TrimSuffix(row, "]"), "] [")
			c.Buttons, c.Labels = buttons[len(buttons)-len(labels):], map[chat.Button]string{}
			for i, b := range c.Buttons {
				c.Labels[b] = labels[i]
			}
			last--
		}
		c.Over = c.Buttons == nil
		if said, is := strings.CutPrefix(parts[last], "> "); is {
			c.Said = strings.Split(said, "\n> ")
			last--
		}
		c.Text = strings.Join(parts[1:last+1], "\n\n")
		all = append(all, c)
	}
	return all
}

func sent(app func(chat.Config) chat.App, c chat.Card) (got card, err error) {
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Content  string
			CardData struct{ CardParamMap map[string]string }
		}
		// The login has no content; invalid content is not drawn.
		if _ = json.NewDecoder(r.Body).Decode(&body); body.Content != "" {
			_ = json.Unmarshal([]byte(body.Content), &got)
		} else if p := body.CardData.CardParamMap; p != nil {
			got.Header.Template, got.Header.Title = "plain", text{p["title"]}
			got.Elements = []element{{Content: p["text"]}, {Content: p["said"]}, {}}
			for _, b := range buttons {
				if p[string(b)] == "true" {
					got.Elements[2].Actions = append(got.Elements[2].Actions, action{"default", text{p[string(b)+"Label"]}})
				}
			}
		}
		fmt.Fprint(w, `{"tenant_access_token": "t", "expire": 7200, "data": {"message_id": "m"},
			"accessToken": "t", "expireIn": 7200, "success": true, "result": {"deliverResults": [{"success": true}]}}`)
	}))
	defer platform.Close()
	secret := func() (string, error) { return "secret", nil }
	config := chat.Config{URL: platform.URL, App: "app", Secret: secret, Group: "group", Card: "card", Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	_, err = app(config).Send(context.Background(), "key", c)
	return got, err
}

var item = regexp.MustCompile(`(?m)^(?:-|(\d+)\.) (.*)$`)

func markdown(text string) template.HTML {
	var b strings.Builder
	for _, block := range strings.Split(text, "\n\n") {
		list := "div"
		if m := item.FindStringSubmatch(block); m != nil {
			list = map[bool]string{true: "ul", false: "ol"}[m[1] == ""]
		}
		block = item.ReplaceAllString(template.HTMLEscapeString(block), "<li>$2</li>")
		fmt.Fprintf(&b, "<%s>%s</%s>\n", list, block, list)
	}
	return template.HTML(b.String())
}
