package ticket

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy"
)

// A robot posts messages to a group of a chat. They can't be changed, and a group takes some 20 in a minute.
type robot struct {
	endpoint
	robotKind
}

// A robotKind is what differs between the chats of robots.
type robotKind struct {
	body  func(title, text string) any
	codes bool          // it answers with an errcode under a status of 200; -1: its system is busy
	often []int         // codes of a robot that sends too often
	pause time.Duration // of such a robot
	title int           // most bytes of a title
	text  int           // most bytes of a text
}

// robotKinds are the chats, by the kind of the sink.
var robotKinds = map[string]robotKind{
	// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
	policy.Slack: {title: 150, text: 12000, body: func(title, text string) any {
		return map[string]any{"text": "*" + escaped.Replace(title) + "*\n" + escaped.Replace(text)}
	}},
	// https://developer.work.weixin.qq.com/document/path/91770, and 90313 for the codes. A message has at most 4096 bytes.
	policy.WeCom: {title: 100, text: 3900, codes: true, often: []int{45009}, pause: time.Minute, body: func(title, text string) any {
		return map[string]any{"msgtype": "markdown", "markdown": map[string]string{"content": clip("### "+title+"\n"+text, 4096)}}
	}},
	// https://open.dingtalk.com/document/orgapp/custom-robot-access, and for the codes
	// https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages.
	policy.DingTalk: {title: 100, text: 12000, codes: true, often: []int{130101, 660026, 90030}, pause: dingPause, body: func(title, text string) any {
		return map[string]any{"msgtype": "markdown", "markdown": map[string]string{"title": title, "text": "### " + title + "\n\n" + text}}
	}},
}

// dingPause is how long a robot of DingTalk that has sent too much stays silent.
const dingPause = 10 * time.Minute

// escaped are the characters that Slack reads as markup
// (https://docs.slack.dev/messaging/formatting-message-text).
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// dingSign returns DingTalk's signature for a time in milliseconds: the secret is the key and
// a part of what is signed
// (https://open.dingtalk.com/document/orgapp/customize-robot-security-settings).
func dingSign(secret, timestamp string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "\n" + secret))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (r *robot) send(ctx context.Context, t Ticket) error {
	u, err := r.address()
	if err != nil {
		return err
	}
	q := u.Query()
	if r.sink.Kind == policy.DingTalk && r.sink.SecretFrom != (policy.Reference{}) {
		secret, err := r.sink.SecretFrom.Read()
		if err != nil {
			return err
		}
		timestamp := strconv.FormatInt(r.now().UnixMilli(), 10)
		q.Set("timestamp", timestamp)
		q.Set("sign", dingSign(secret, timestamp))
		u.RawQuery = q.Encode()
	}
	said, err := r.postJSON(ctx, u, r.body(t.Title, t.Text))
	if err != nil || !r.codes {
		return err
	}
	for _, name := range []string{"key", "access_token"} { // should the answer repeat what makes the address a secret
		if secret := q.Get(name); secret != "" {
			said = bytes.ReplaceAll(said, []byte(secret), []byte("…"))
		}
	}
	var answer struct {
		Code *int   `json:"errcode"`
		Text string `json:"errmsg"`
	}
	if err := json.Unmarshal(said, &answer); err != nil || answer.Code == nil {
		return fmt.Errorf("post to %s: the answer has no errcode%s", u.Host, quote(said))
	}
	err = fmt.Errorf("post to %s: errcode %d%s", u.Host, *answer.Code, quote([]byte(answer.Text)))
	switch code := *answer.Code; {
	case code == 0:
		return nil
	case code == -1:
		return err
	case slices.Contains(r.often, code):
		return &RetryError{After: r.pause, Err: err}
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
