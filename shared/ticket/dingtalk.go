package ticket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy"
)

// dingtalk posts messages through a custom robot of a DingTalk group. A robot's
// messages can't be changed, and it may send 20 in a minute
// (https://open.dingtalk.com/document/orgapp/custom-robot-access).
type dingtalk struct{ endpoint }

// Codes that DingTalk answers with, under a status of 200
// (https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages).
const (
	dingBusy    = -1     // its system is busy
	dingOften   = 130101 // more than 20 messages in a minute
	dingOften2  = 660026 // the same
	dingFlooded = 90030  // the webhook is over its limit
)

// dingPause is how long a robot that has sent too much stays silent.
const dingPause = 10 * time.Minute

// dingSign returns the signature for a time in milliseconds: the secret is the key and
// a part of what is signed
// (https://open.dingtalk.com/document/orgapp/customize-robot-security-settings).
func dingSign(secret, timestamp string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "\n" + secret))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Open posts a message.
func (d *dingtalk) Open(ctx context.Context, t Ticket) (string, error) { return "", d.send(ctx, t) }

// Update posts a message.
func (d *dingtalk) Update(ctx context.Context, t Ticket) error { return d.send(ctx, t) }

func (d *dingtalk) send(ctx context.Context, t Ticket) error {
	u, err := d.address()
	if err != nil {
		return err
	}
	if d.sink.SecretFrom != (policy.Reference{}) {
		secret, err := d.sink.SecretFrom.Read()
		if err != nil {
			return err
		}
		timestamp := strconv.FormatInt(d.now().UnixMilli(), 10)
		q := u.Query()
		q.Set("timestamp", timestamp)
		q.Set("sign", dingSign(secret, timestamp))
		u.RawQuery = q.Encode()
	}
	said, err := d.postJSON(ctx, u, map[string]any{
		"msgtype":  "markdown",
		"markdown": map[string]string{"title": t.Title, "text": "### " + t.Title + "\n\n" + t.Text},
	})
	if err != nil {
		return err
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
	case dingBusy:
		return err
	case dingOften, dingOften2, dingFlooded:
		return &RetryError{After: dingPause, Err: err}
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
