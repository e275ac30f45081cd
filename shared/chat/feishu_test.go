package chat_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/chat"
	simulated "github.com/lbremedy/lbremedy/test/chat"
	"github.com/lbremedy/lbremedy/test/shell"
)

func feishu(t *testing.T, change func(*chat.Config)) (*simulated.Feishu, chat.App, *shell.Log) {
	f := simulated.NewFeishu(t)
	log := new(shell.Log)
	c := chat.Config{URL: f.URL(), App: f.App, Secret: func() (string, error) { return f.Secret, nil }, Group: f.Group,
		Now: time.Now, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&c)
	}
	return f, chat.Feishu(c), log
}

// Cards are sent, changed and clicked even if tokens expire and connections break.
func TestFeishu(t *testing.T) {
	f, app, log := feishu(t, nil)
	clicks := hears(t, app)
	f.Connected()
	card := chat.Card{Title: "A", Text: "**b**", Value: "v/1", Buttons: []chat.Button{chat.Approve, chat.Mute}, Labels: labels, Said: []string{"c", "d"}}
	id, err := app.Send(t.Context(), "key-0", card)
	if err != nil || id != "om_1" {
		t.Fatalf("got %q, %v", id, err)
	}
	if again, err := app.Send(t.Context(), "key-0", card); err != nil || again != id || f.Count() != 1 {
		t.Errorf("the same again: got %q, %v", again, err)
	}
	for _, want := range []string{"A\n\n**b**", "> c\n> d", "[Approve] [Mute for a day]"} {
		if !strings.Contains(f.Transcript(), want) {
			t.Errorf("got %s", f.Transcript())
		}
	}
	f.Expire() // forces a new token
	card.Over = true
	if err := app.Change(t.Context(), id, card); err != nil || f.Messages()[0].Card.Header.Template != "grey" {
		t.Errorf("got %+v, %v", f.Messages()[0], err)
	}
	click := func() {
		t.Helper()
		sent := f.On(0, "ou_1", "reject")
		f.Click(sent)
		if got, want := <-clicks, (chat.Click{ID: sent.ID, User: "ou_1", Card: id, Button: chat.Reject, Value: sent.Value}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := f.Messages()[0].Card.Header.Title.Content; got != "done" {
			t.Errorf("got %v", got)
		}
	}
	click()
	f.Parts = 4
	click()
	f.Parts = 1
	for _, event := range []string{"[]", "{}", `{"header":{"event_type":"im.message.receive_v1","app_id":"cli_app1"}}`,
		`{"header":{"event_type":"card.action.trigger","app_id":"other"}}`} {
		if code, _ := f.Event(event); code != 500 {
			t.Errorf("%s is answered with %d", event, code)
		}
	}
	if code, _ := f.Event(`{"header":{"event_type":"card.action.trigger","app_id":"cli_app1"},"event":{"context":{"open_message_id":"om_1",` +
		`"open_chat_id":"oc_other"}}}`); code != 200 {
		t.Errorf("it is answered with %d", code)
	}
	if got := <-clicks; got.Card != "" {
		t.Errorf("got %+v", got)
	}
	f.Pinged()
	f.Disconnect()
	click()
	f.Fail("/callback/ws/", 200, `{"code":1,"msg":"system busy"}`)
	f.Cut()
	f.Connected()
	click()
	for _, secret := range []string{f.Secret, "t0ken", "t1cket"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s: %s", secret, log.String())
		}
	}
}

func TestFeishuErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*chat.Config)
		status  int
		body    string
		want    string
		refused bool
	}{
		"wrong secret": {change: func(c *chat.Config) { c.Secret = func() (string, error) { return "wr0ng", nil } }, want: "code 10014", refused: true},
		"wrong group":  {change: func(c *chat.Config) { c.Group = "x" }, want: "outside the group", refused: true},
		"no secret":    {change: func(c *chat.Config) { c.Secret = func() (string, error) { return "", errors.New("no file") } }, want: "no file"},
		"too often":    {status: 400, body: `{"code":230020,"msg":"This operation triggers the frequency limit."}`, want: "230020"},
		"busy":         {status: 503, body: "<html>", want: "status 503"},
		"not JSON":     {status: 200, body: "<html>", want: "not JSON"},
		"nothing":      {status: 200, body: `{"code":0,"data":{}}`, want: "no message"},
		"no data":      {status: 200, body: `{"code":0}`, want: "no data"},
	} {
		t.Run(name, func(t *testing.T) {
			f, app, _ := feishu(t, tt.change)
			if tt.status != 0 {
				f.Fail("/open-apis/im/", tt.status, tt.body)
			}
			_, err := app.Send(t.Context(), "key", chat.Card{Title: "A", Text: "b"})
			var e *chat.Error
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.As(err, &e) && e.Refused != tt.refused || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("got %v", err)
			}
		})
	}
}
