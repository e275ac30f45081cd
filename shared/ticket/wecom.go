package ticket

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// wecom posts messages through the robot of a WeCom group. They can't be changed, and a robot may send 20
// in a minute (https://developer.work.weixin.qq.com/document/path/91770).
type wecom struct{ endpoint }

// Codes that WeCom answers with, under a status of 200 (https://developer.work.weixin.qq.com/document/path/90313).
const (
	wecomBusy  = -1    // its system is busy
	wecomOften = 45009 // the robot sends too often
)

// wecomText is the most bytes that a message of Markdown has.
const wecomText = 4096

// Open posts a message.
func (w *wecom) Open(ctx context.Context, t Ticket) (string, error) { return "", w.send(ctx, t) }

// Update posts a message.
func (w *wecom) Update(ctx context.Context, t Ticket) error { return w.send(ctx, t) }

func (w *wecom) send(ctx context.Context, t Ticket) error {
	u, err := w.address()
	if err != nil {
		return err
	}
	said, err := w.postJSON(ctx, u, map[string]any{
		"msgtype": "markdown", "markdown": map[string]string{"content": clip("### "+t.Title+"\n"+t.Text, wecomText)},
	})
	if err != nil {
		return err
	}
	if key := u.Query().Get("key"); key != "" { // should WeCom repeat what makes the address a secret
		said = bytes.ReplaceAll(said, []byte(key), []byte("…"))
	}
	var answer struct {
		Code *int   `json:"errcode"`
		Text string `json:"errmsg"`
	}
	if err := json.Unmarshal(said, &answer); err != nil || answer.Code == nil {
		return fmt.Errorf("post to %s: the answer has no errcode%s", u.Host, quote(said))
	}
	if *answer.Code == 0 {
		return nil
	}
	err = fmt.Errorf("post to %s: errcode %d%s", u.Host, *answer.Code, quote([]byte(answer.Text)))
	switch *answer.Code {
	case wecomBusy:
		return err
	case wecomOften:
		return &RetryError{After: time.Minute, Err: err}
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
