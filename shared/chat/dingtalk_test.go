package chat_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/chat"
	simulated "github.com/lbremedy/lbremedy/test/chat"
	"github.com/lbremedy/lbremedy/test/shell"
)

func hears(t *testing.T, app chat.App) <-chan chat.Click {
	clicks := make(chan chat.Click, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		app.Hear(ctx, func(_ context.Context, c chat.Click) chat.Reply {
			clicks <- c
			return chat.Reply{Card: &chat.Card{Title: "done", Text: "by " + c.User, Said: []string{"one", "two"}}}
		})
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
	return clicks
}

func dingTalk(t *testing.T, change func(*chat.Config)) (*simulated.DingTalk, chat.App, *shell.Log) {
	d := simulated.NewDingTalk(t)
	log := new(shell.Log)
	c := chat.Config{URL: d.URL(), App: d.App, Secret: func() (string, error) { return d.Secret, nil }, Group: d.Group, Card: d.Template,
		Now: time.Now, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&c)
	}
	return d, chat.DingTalk(c), log
}

var labels = map[chat.Button]string{chat.Approve: "Approve", chat.Mute: "Mute for a day"}

// Cards are sent, changed and clicked even if tokens expire and connections break.
func TestDingTalk(t *testing.T) {
	d, app, log := dingTalk(t, nil)
	clicks := hears(t, app)
	d.Connected()
	card := chat.Card{Title: "A", Text: "**b**", Value: "v/1", Buttons: []chat.Button{chat.Approve, chat.Mute}, Labels: labels, Said: []string{"c", "d"}}
	id, err := app.Send(t.Context(), "key-0", card)
	if err != nil || !strings.HasPrefix(id, "key-0-") {
		t.Fatalf("got %q, %v", id, err)
	}
	want := map[string]string{"title": "A", "text": "**b**", "value": "v/1", "approve": "true", "reject": "false", "mute": "true", "over": "false",
		"said": "c\n\nd", "approveLabel": "Approve", "rejectLabel": "", "muteLabel": "Mute for a day"}
	if diff := cmp.Diff(want, d.Cards()[0].Params); diff != "" {
		t.Error(diff)
	}
	d.Expire() // forces a new token
	card.Buttons, card.Over = nil, true
	if err := app.Change(t.Context(), id, card); err != nil {
		t.Error(err)
	}
	if got := d.Cards()[0].Params; got["approve"] != "false" || got["over"] != "true" {
		t.Errorf("got %v", got)
	}

	click := func() {
		t.Helper()
		sent := d.On(0, "0123", "reject")
		d.Click(sent)
		if got, want := <-clicks, (chat.Click{ID: sent.ID, User: "0123", Card: id, Button: chat.Reject, Value: sent.Value}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := d.Cards()[0].Params; got["title"] != "done" || got["text"] != "by 0123" || got["said"] != "one\n\ntwo" {
			t.Errorf("got %v", got)
		}
	}
	click()
	if a := d.Frame("SYSTEM", "ping", `{"opaque":"1"}`); a.Code != 200 || a.Data != `{"opaque":"1"}` {
		t.Errorf("a ping is answered with %+v", a)
	}
	if a := d.Frame("CALLBACK", "/v1.0/im/bot/messages/get", "{}"); a.Code != 404 {
		t.Errorf("what nobody asked for is answered with %+v", a)
	}
	for _, data := range []string{"", "[]", `{"content":"x"}`} {
		if a := d.Frame("CALLBACK", "/v1.0/card/instances/callback", data); a.Code != 400 {
			t.Errorf("%q is answered with %+v", data, a)
		}
	}
	d.Disconnect()
	click()
	d.Cut()
	d.Connected()
	click()
	d.Fail("/v1.0/gateway/", 500, "")
	d.Cut()
	d.Connected()
	click()
	for _, secret := range []string{d.Secret, "t0ken", "t1cket"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s: %s", secret, log.String())
		}
	}
}

func TestDingTalkErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*chat.Config)
		status  int
		body    string
		want    string
		refused bool
	}{
		"wrong secret": {change: func(c *chat.Config) { c.Secret = func() (string, error) { return "wr0ng", nil } },
			want: "invalidClientIdOrSecret", refused: true},
		"wrong template": {change: func(c *chat.Config) { c.Card = "x" }, want: "no such template", refused: true},
		"wrong group":    {change: func(c *chat.Config) { c.Group = "x" }, want: "the robot is not in the group", refused: true},
		"no secret":      {change: func(c *chat.Config) { c.Secret = func() (string, error) { return "", errors.New("no file") } }, want: "no file"},
		"too many calls": {status: 403, body: `{"code":"Forbidden.AccessDenied.QpsLimitForAppkeyAndApi","message":"slow"}`, want: "QpsLimit"},
		"busy":           {status: 503, body: "<html>", want: "status 503"},
		"not JSON":       {status: 200, body: "<html>", want: "not JSON"},
		"nothing":        {status: 200, body: "{}", want: "does not say that it was delivered"},
		"elsewhere":      {status: 302, body: "", want: "status 302", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, app, _ := dingTalk(t, tt.change)
			if tt.status != 0 {
				d.Fail("/v1.0/card/", tt.status, tt.body)
			}
			_, err := app.Send(t.Context(), "key", chat.Card{Title: "A"})
			var e *chat.Error
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.As(err, &e) && e.Refused != tt.refused || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// An unknown app receives nothing, reports that without its secret, and blocks nobody.
func TestDingTalkUnknown(t *testing.T) {
	d, app, log := dingTalk(t, func(c *chat.Config) { c.App = "other" })
	hears(t, app)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "authFailed"); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("got %s", log.String())
		}
	}
	if strings.Contains(log.String(), d.Secret) {
		t.Errorf("got %s", log.String())
	}
}
