package chat

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// A Robot posts messages to a chat group. They can't be changed, and a group accepts some 20 a minute.
type Robot struct {
	Title int // limit of a title in bytes
	Text  int // limit of a text in bytes

	body  func(title, text string) any
	codes bool          // answers with an errcode under status 200; -1: its system is busy
	often []int         // codes for too many messages
	pause time.Duration // to make after such a code
}

// Robots are the robots by name of the chat.
var Robots = map[string]Robot{
	// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
	"slack": {Title: 150, Text: 12000, body: func(title, text string) any {
		return map[string]any{"text": "*" + SlackText.Replace(title) + "*\n" + SlackText.Replace(text)}
	}},
	// https://developer.work.weixin.qq.com/document/path/91770, and 90313 for the codes. A message has at most 4096 bytes.
	"wecom": {Title: 100, Text: 3900, codes: true, often: []int{45009}, pause: time.Minute, body: func(title, text string) any {
		return map[string]any{"msgtype": "markdown", "markdown": map[string]string{"content": event.Clip("### "+title+"\n"+text, 4096)}}
	}},
	// https://open.dingtalk.com/document/orgapp/custom-robot-access, and for the codes
	// https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages.
	"dingtalk": {Title: 100, Text: 12000, codes: true, often: []int{130101, 660026, 90030}, pause: DingPause, body: func(title, text string) any {
		return map[string]any{"msgtype": "markdown", "markdown": map[string]string{"title": title, "text": "### " + title + "\n\n" + text}}
	}},
}

// DingPause is how long DingTalk blocks a robot that has sent too much.
const DingPause = 10 * time.Minute

// SlackText escapes the characters that Slack reads as markup (https://docs.slack.dev/messaging/formatting-message-text).
var SlackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// DingSign returns DingTalk's signature for a time in milliseconds: the secret is both the key and part of the signed text
// (https://open.dingtalk.com/document/orgapp/customize-robot-security-settings).
func DingSign(secret, timestamp string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "\n" + secret))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Send posts a message to an address, signed with a secret if it is not empty, which only DingTalk's robots support. Its error is an [Error].
func (r Robot) Send(ctx context.Context, wire http.RoundTripper, now time.Time, to *url.URL, secret, title, text string) error {
	u, q := *to, to.Query()
	if secret != "" {
		timestamp := strconv.FormatInt(now.UnixMilli(), 10)
		q.Set("timestamp", timestamp)
		q.Set("sign", DingSign(secret, timestamp))
		u.RawQuery = q.Encode()
	}
	fail := &Error{Doing: "post to " + u.Host}
	body, err := json.Marshal(r.body(title, text))
	if err != nil {
		fail.Err, fail.Refused = err, true
		return fail
	}
	said, err := Post(ctx, wire, now, fail.Doing, http.MethodPost, u.String(), http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body)
	if err != nil || !r.codes {
		return err
	}
	for _, name := range []string{"key", "access_token"} { // the answer might repeat the secret part of the address
		if secret := q.Get(name); secret != "" {
			said = bytes.ReplaceAll(said, []byte(secret), []byte("…"))
		}
	}
	var answer struct {
		Code *int   `json:"errcode"`
		Text string `json:"errmsg"`
	}
	if err := json.Unmarshal(said, &answer); err != nil || answer.Code == nil {
		fail.Err = fmt.Errorf("the answer has no errcode%s", event.Quote(said))
		return fail
	}
	code := *answer.Code
	fail.Err = fmt.Errorf("errcode %d%s", code, event.Quote([]byte(answer.Text)))
	switch {
	case code == 0:
		return nil
	case slices.Contains(r.often, code):
		fail.After = r.pause
	default:
		fail.Refused = code != -1
	}
	return fail
}
