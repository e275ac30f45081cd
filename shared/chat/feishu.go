package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protowire"
)

// feishu is an organization's app at Feishu or Lark, with a bot. It opens a long connection
// (https://open.feishu.cn/document/server-docs/event-subscription-guide/event-subscription-configure-/request-url-configuration-case),
// sends cards (https://open.feishu.cn/document/server-docs/im-v1/message/create) and changes them
// (https://open.feishu.cn/document/server-docs/im-v1/message-card/patch), which Feishu allows for 14 days.
type feishu struct {
	Config
	token token
}

// Feishu returns an app of Feishu without connecting.
func Feishu(c Config) App {
	if c.URL == "" {
		c.URL = "https://open.feishu.cn"
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	return &feishu{Config: c}
}

// feishuBusy are the codes for too many calls: of the app (https://open.feishu.cn/document/ukTMukTMukTM/uUzN04SN3QjL1cDN), of the
// organization and to the group.
var feishuBusy = map[int]bool{1: true, 99991400: true, 11232: true, 230020: true, 1000040343: true}

// feishuTokens are the codes for an invalid token (https://github.com/larksuite/oapi-sdk-go/blob/v3_main/core/constants.go).
var feishuTokens = []string{"99991663", "99991664", "99991671"}

type feishuAnswer struct {
	Code int
	Msg  string
	Data json.RawMessage

	TenantAccessToken string `json:"tenant_access_token"`
	Expire            int64
}

func (a feishuAnswer) failed(doing string) error {
	if a.Code == 0 {
		return nil
	}
	return &Error{Doing: doing, Code: strconv.Itoa(a.Code), Refused: !feishuBusy[a.Code], Err: fmt.Errorf("code %d: %s", a.Code, quote(a.Msg))}
}

// post calls Feishu. Every code but 0 is an error, whatever the status.
func (f *feishu) post(ctx context.Context, doing, method, path string, header http.Header, body any) (feishuAnswer, error) {
	var answer feishuAnswer
	err := f.Config.call(ctx, doing, method, f.URL+path, header, body, &answer, func(said []byte, fail *Error) {
		var a feishuAnswer
		if json.Unmarshal(said, &a) == nil && a.Code != 0 {
			fail.Code, fail.Refused = strconv.Itoa(a.Code), fail.Refused && !feishuBusy[a.Code]
			fail.Err = fmt.Errorf("%w: code %d: %s", fail.Err, a.Code, quote(a.Msg))
		}
	})
	if err == nil {
		err = answer.failed(doing)
	}
	return answer, err
}

// call calls Feishu's API and replaces a refused token once.
func (f *feishu) call(ctx context.Context, doing, method, path string, body, into any) error {
	return f.token.use(f.Now(), func() (string, time.Duration, error) { return f.login(ctx) }, func(value string) error {
		answer, err := f.post(ctx, doing, method, path, http.Header{"Authorization": {"Bearer " + value}}, body)
		if err == nil && into != nil && json.Unmarshal(answer.Data, into) != nil {
			err = &Error{Doing: doing, Err: errors.New("the answer has no data")}
		}
		return err
	}, func(code string) bool { return slices.Contains(feishuTokens, code) })
}

// login returns a token (https://open.feishu.cn/document/server-docs/authentication-management/access-token/tenant_access_token_internal).
func (f *feishu) login(ctx context.Context) (string, time.Duration, error) {
	const doing = "log in to Feishu"
	secret, err := f.Secret()
	if err != nil {
		return "", 0, err
	}
	answer, err := f.post(ctx, doing, http.MethodPost, "/open-apis/auth/v3/tenant_access_token/internal", nil,
		map[string]string{"app_id": f.App, "app_secret": secret})
	if err == nil && answer.TenantAccessToken == "" {
		err = &Error{Doing: doing, Err: errors.New("the answer has no token")}
	}
	return answer.TenantAccessToken, time.Duration(answer.Expire) * time.Second, err
}

// feishuCard returns a card in Feishu's JSON
// (https://open.feishu.cn/document/common-capabilities/message-card/message-cards-content/card-structure). update_multi makes a
// change visible to everyone.
func feishuCard(c Card) map[string]any {
	type object = map[string]any
	markdown := func(text string) object { return object{"tag": "markdown", "content": text} }
	elements := []object{markdown(c.Text)}
	if len(c.Said) > 0 {
		elements = append(elements, object{"tag": "hr"}, markdown(strings.Join(c.Said, "\n")))
	}
	var buttons []object
	for _, b := range c.Buttons {
		look := "default"
		switch b {
		case Approve:
			look = "primary"
		case Reject:
			look = "danger"
		}
		buttons = append(buttons, object{"tag": "button", "type": look, "text": object{"tag": "plain_text", "content": c.Labels[b]},
			"value": object{"button": b, "value": c.Value}})
	}
	if len(buttons) > 0 {
		elements = append(elements, object{"tag": "action", "actions": buttons})
	}
	color := "orange"
	if c.Over {
		color = "grey"
	}
	return object{
		"config": object{"wide_screen_mode": true, "update_multi": true, "enable_forward": false},
		"header": object{"template": color, "title": object{"tag": "plain_text", "content": c.Title}}, "elements": elements,
	}
}

// Send sends a card to the group. Feishu drops a second one with the same key within an hour.
func (f *feishu) Send(ctx context.Context, key string, c Card) (string, error) {
	const doing = "send a card to Feishu"
	content, err := json.Marshal(feishuCard(c))
	if err != nil {
		return "", err
	}
	var answer struct {
		MessageID string `json:"message_id"`
	}
	err = f.call(ctx, doing, http.MethodPost, "/open-apis/im/v1/messages?receive_id_type=chat_id",
		map[string]string{"receive_id": f.Group, "msg_type": "interactive", "content": string(content), "uuid": key}, &answer)
	if err == nil && answer.MessageID == "" {
		err = &Error{Doing: doing, Err: errors.New("the answer has no message")}
	}
	return answer.MessageID, err
}

func (f *feishu) Change(ctx context.Context, id string, c Card) error {
	content, err := json.Marshal(feishuCard(c))
	if err != nil {
		return err
	}
	return f.call(ctx, "change a card of Feishu", http.MethodPatch, "/open-apis/im/v1/messages/"+url.PathEscape(id),
		map[string]string{"content": string(content)}, nil)
}

// A feishuFrame is a frame of the connection, a message of protocol buffers (https://github.com/larksuite/oapi-sdk-go/blob/v3_main/ws/pbbp2.pb.go).
type feishuFrame struct {
	seq, log uint64 // fields 1 and 2
	service  int32  // field 3
	method   int32  // field 4
	headers  [][2]string
	payload  []byte // field 8
}

const (
	feishuControl = 0
	feishuData    = 1
)

func (f feishuFrame) header(name string) string {
	for _, h := range f.headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

func (f feishuFrame) encode() []byte {
	var b []byte
	for n, v := range []uint64{f.seq, f.log, uint64(f.service), uint64(f.method)} {
		b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(n+1), protowire.VarintType), v)
	}
	for _, h := range f.headers {
		var pair []byte
		for n, text := range h {
			pair = protowire.AppendString(protowire.AppendTag(pair, protowire.Number(n+1), protowire.BytesType), text)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), pair)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, 8, protowire.BytesType), f.payload)
}

// fields calls see for each field of a message, with its number or text.
func fields(b []byte, see func(n protowire.Number, number uint64, text []byte)) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var number uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		see(n, number, text)
	}
	return nil
}

func decodeFeishu(b []byte) (feishuFrame, error) {
	var f feishuFrame
	var inner error
	err := fields(b, func(n protowire.Number, number uint64, text []byte) {
		switch n {
		case 1:
			f.seq = number
		case 2:
			f.log = number
		case 3:
			f.service = int32(number)
		case 4:
			f.method = int32(number)
		case 5:
			var h [2]string
			err := fields(text, func(n protowire.Number, _ uint64, text []byte) {
				if n == 1 || n == 2 {
					h[n-1] = string(text)
				}
			})
			inner = errors.Join(inner, err)
			f.headers = append(f.headers, h)
		case 8:
			f.payload = text
		}
	})
	return f, errors.Join(err, inner)
}

func (f *feishu) Hear(ctx context.Context, take func(context.Context, Click) Reply) {
	f.keep(ctx, func(ctx context.Context) error {
		l, service, every, err := f.connect(ctx)
		if err != nil {
			return err
		}
		f.Log.Info("listening for clicks in Feishu")
		ping := func() error {
			return l.send(websocket.BinaryMessage, feishuFrame{service: service, method: feishuControl, headers: [][2]string{{"type", "ping"}}}.encode())
		}
		whole := parts{of: map[string][][]byte{}}
		return l.serve(ctx, every, ping, func(kind int, data []byte) error {
			frame, err := decodeFeishu(data)
			if kind != websocket.BinaryMessage || err != nil || frame.method != feishuData {
				return nil // a pong, or a frame that needs no answer
			}
			payload, ok := whole.add(frame)
			if !ok {
				return nil
			}
			began := time.Now()
			answer := struct {
				Code    int               `json:"code"`
				Headers map[string]string `json:"headers"`
				Data    []byte            `json:"data"`
			}{Code: http.StatusOK}
			if answer.Data, err = f.clicked(ctx, frame, payload, take); err != nil {
				answer.Code = http.StatusInternalServerError
			}
			if frame.payload, err = json.Marshal(answer); err != nil {
				return err
			}
			frame.headers = append(frame.headers, [2]string{"biz_rt", strconv.FormatInt(time.Since(began).Milliseconds(), 10)})
			return l.send(websocket.BinaryMessage, frame.encode())
		})
	})
}

// connect asks for the address and connects to it. It also returns the service ID and interval of pings.
func (f *feishu) connect(ctx context.Context) (l *link, service int32, every time.Duration, err error) {
	secret, err := f.Secret()
	if err != nil {
		return nil, 0, 0, err
	}
	const doing = "open a connection to Feishu"
	answer, err := f.post(ctx, doing, http.MethodPost, "/callback/ws/endpoint", http.Header{"Locale": {"zh"}},
		map[string]string{"AppID": f.App, "AppSecret": secret})
	if err != nil {
		return nil, 0, 0, err
	}
	var at struct {
		URL          string
		ClientConfig struct{ PingInterval int64 }
	}
	u, wrong := (*url.URL)(nil), json.Unmarshal(answer.Data, &at)
	if wrong == nil {
		u, wrong = url.Parse(at.URL)
	}
	if wrong != nil || u.Host == "" {
		return nil, 0, 0, errors.New(doing + ": the answer names no address")
	}
	id, _ := strconv.ParseInt(u.Query().Get("service_id"), 10, 32)
	every = pinged
	if s := time.Duration(at.ClientConfig.PingInterval) * time.Second; s > 0 && s < every {
		every = s
	}
	l, err = dial(ctx, u)
	return l, int32(id), every, err
}

type parts struct {
	mu sync.Mutex
	of map[string][][]byte
}

// mostParts is the most parts of one event, and the most incomplete events.
const mostParts = 64

// add returns the payload of an event once all parts have arrived.
func (p *parts) add(f feishuFrame) ([]byte, bool) {
	sum, _ := strconv.Atoi(f.header("sum"))
	seq, _ := strconv.Atoi(f.header("seq"))
	if sum <= 1 {
		return f.payload, true
	}
	id := f.header("message_id")
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.of[id]
	if sum > mostParts || seq < 0 || seq >= sum || have != nil && len(have) != sum {
		return nil, false
	}
	if have == nil {
		if len(p.of) >= mostParts {
			clear(p.of) // they are delivered again
		}
		have = make([][]byte, sum)
		p.of[id] = have
	}
	have[seq] = f.payload
	var whole []byte
	for _, part := range have {
		if len(part) == 0 {
			return nil, false
		}
		whole = append(whole, part...)
	}
	delete(p.of, id)
	return whole, true
}

// clicked handles a click (https://open.feishu.cn/document/feishu-cards/card-callback-communication) and returns the present card and a line
// for the person. Feishu waits three seconds.
func (f *feishu) clicked(ctx context.Context, frame feishuFrame, payload []byte, take func(context.Context, Click) Reply) ([]byte, error) {
	var said struct {
		Header struct {
			EventID   string `json:"event_id"`
			EventType string `json:"event_type"`
			AppID     string `json:"app_id"`
		}
		Event struct {
			Operator struct {
				OpenID string `json:"open_id"`
			}
			Action  struct{ Value map[string]any }
			Context struct {
				MessageID string `json:"open_message_id"`
				ChatID    string `json:"open_chat_id"`
			}
		}
	}
	err := json.Unmarshal(payload, &said)
	if err != nil || frame.header("type") != "event" || said.Header.EventType != "card.action.trigger" || said.Header.AppID != f.App {
		return nil, errors.New("this is not a click on a card")
	}
	text := func(name string) string {
		s, _ := said.Event.Action.Value[name].(string)
		return s
	}
	e := said.Event
	c := Click{ID: said.Header.EventID, User: e.Operator.OpenID, Card: e.Context.MessageID, Button: Button(text("button")), Value: text("value")}
	if e.Context.ChatID != f.Group {
		c.Card = "" // our cards are in our group only
	}
	reply := take(ctx, c)
	answer := map[string]any{}
	if reply.Card != nil {
		answer["card"] = map[string]any{"type": "raw", "data": feishuCard(*reply.Card)}
	}
	if reply.Text != "" {
		answer["toast"] = map[string]string{"type": "info", "content": reply.Text}
	}
	return json.Marshal(answer)
}
