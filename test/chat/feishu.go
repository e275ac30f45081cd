package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protowire"
)

// Feishu is a Feishu organization with an app and a group.
type Feishu struct {
	platform
	App, Secret, Group string
	Parts              int

	cards []*FeishuMessage
	conns []*feishuConn
	pings chan struct{} // receives for each ping
}

// A FeishuMessage is a card as seen in the group.
type FeishuMessage struct {
	ID, Key string
	Card    FeishuCard
}

// A FeishuCard has the used fields of a card's JSON.
type FeishuCard struct {
	Config struct {
		WideScreenMode bool `json:"wide_screen_mode"`
		UpdateMulti    bool `json:"update_multi"`
		EnableForward  bool `json:"enable_forward"`
	} `json:"config"`
	Header struct {
		Template string     `json:"template"`
		Title    FeishuText `json:"title"`
	} `json:"header"`
	Elements []struct {
		Tag     string `json:"tag"`
		Content string `json:"content,omitempty"`
		Actions []struct {
			Tag   string            `json:"tag"`
			Type  string            `json:"type"`
			Text  FeishuText        `json:"text"`
			Value map[string]string `json:"value"`
		} `json:"actions,omitempty"`
	} `json:"elements"`
}

// A FeishuText is a text of a card.
type FeishuText struct {
	Tag     string `json:"tag"`
	Content string `json:"content"`
}

type feishuAck struct {
	Code    int
	Headers map[string]string
	Data    []byte
}

type feishuConn struct {
	*websocket.Conn
	mu   sync.Mutex
	acks map[string]chan feishuAck
}

// NewFeishu returns an organization that ends with the test.
func NewFeishu(t testing.TB) *Feishu {
	f := &Feishu{App: "cli_app1", Secret: "feishu-s3cr3t", Group: "oc_group", Parts: 1, pings: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /open-apis/auth/v3/tenant_access_token/internal", f.login)
	mux.HandleFunc("POST /open-apis/im/v1/messages", f.create)
	mux.HandleFunc("PATCH /open-apis/im/v1/messages/{id}", f.change)
	mux.HandleFunc("POST /callback/ws/endpoint", f.endpoint)
	mux.HandleFunc("GET /ws", f.connect)
	f.serve(t, mux, f.Cut)
	return f
}

// Messages returns the group's messages, oldest first.
func (f *Feishu) Messages() []FeishuMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []FeishuMessage
	for _, m := range f.cards {
		all = append(all, *m)
	}
	return all
}

// Count returns the number of messages in the group.
func (f *Feishu) Count() int { return len(f.Messages()) }

func (c FeishuCard) parts() (text string, said, buttons []string, value string) {
	for _, e := range c.Elements {
		switch {
		case e.Tag == "markdown" && text == "":
			text = e.Content
		case e.Tag == "markdown":
			said = strings.Split(e.Content, "\n")
		}
		for _, a := range e.Actions {
			buttons = append(buttons, a.Text.Content)
			value = a.Value["value"]
		}
	}
	return text, said, buttons, value
}

// Said returns a message's text about clicks.
func (f *Feishu) Said(n int) string {
	_, said, _, _ := f.Messages()[n].Card.parts()
	return strings.Join(said, "\n")
}

func (f *Feishu) show(doing string, n int) {
	c := f.cards[n].Card
	text, said, buttons, _ := c.parts()
	f.shown(n, doing, c.Header.Title.Content, text, said, buttons)
}

// answerCode answers like Feishu: the code matters, and the status is 400 unless the code is 0.
func answerCode(w http.ResponseWriter, code int, text string, data any) {
	if code != 0 {
		w.WriteHeader(http.StatusBadRequest)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "msg": text, "data": data})
}

func (f *Feishu) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ID     string `json:"app_id"`
		Secret string `json:"app_secret"`
	}
	if !read(w, r, &in) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.ID != f.App || in.Secret != f.Secret { // with status 200
		_ = json.NewEncoder(w).Encode(map[string]any{"code": 10014, "msg": "app secret invalid"})
		return
	}
	f.count++
	token := fmt.Sprintf("t-t0ken-%d", f.count)
	f.tokens[token] = true
	_ = json.NewEncoder(w).Encode(map[string]any{"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200})
}

func (f *Feishu) may(w http.ResponseWriter, r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if ok && f.tokens[token] {
		return true
	}
	answerCode(w, 99991663, "Invalid access token for authorization. Please make a test attempt with the correct token.", nil)
	return false
}

// card parses a message's content: JSON of at most 30 KB, in a string, that can be updated for all.
func (f *Feishu) card(w http.ResponseWriter, content string) (c FeishuCard, ok bool) {
	d := json.NewDecoder(strings.NewReader(content))
	d.DisallowUnknownFields()
	switch err := d.Decode(&c); {
	case err != nil:
		answerCode(w, 230099, "Failed to create card content: "+err.Error(), nil)
	case len(content) > 30<<10:
		answerCode(w, 230025, "The length of the message content reaches its limit.", nil)
	case !c.Config.UpdateMulti || c.Header.Title.Tag != "plain_text" || len(c.Elements) == 0:
		answerCode(w, 230001, "Your request contains an invalid request parameter.", nil)
	default:
		return c, true
	}
	return c, false
}

func (f *Feishu) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ReceiveID string `json:"receive_id"`
		MsgType   string `json:"msg_type"`
		Content   string `json:"content"`
		UUID      string `json:"uuid"`
	}
	if !read(w, r, &in) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.may(w, r) {
		return
	}
	c, ok := f.card(w, in.Content)
	switch {
	case !ok:
	case r.URL.Query().Get("receive_id_type") != "chat_id" || in.MsgType != "interactive" || len(in.UUID) > 50:
		answerCode(w, 230001, "Your request contains an invalid request parameter.", nil)
	case in.ReceiveID != f.Group:
		answerCode(w, 230002, "The bot can not be outside the group.", nil)
	default:
		n := slices.IndexFunc(f.cards, func(m *FeishuMessage) bool { return m.Key == in.UUID && in.UUID != "" })
		if n < 0 {
			n = len(f.cards)
			f.cards = append(f.cards, &FeishuMessage{ID: fmt.Sprintf("om_%d", n+1), Key: in.UUID, Card: c})
			f.show("arrives", n)
		}
		answerCode(w, 0, "success", map[string]string{"message_id": f.cards[n].ID})
	}
}

func (f *Feishu) change(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Content string `json:"content"`
	}
	if !read(w, r, &in) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.may(w, r) {
		return
	}
	c, ok := f.card(w, in.Content)
	n := slices.IndexFunc(f.cards, func(m *FeishuMessage) bool { return m.ID == r.PathValue("id") })
	switch {
	case !ok:
	case n < 0:
		answerCode(w, 230011, "The message is recalled.", nil)
	default:
		f.cards[n].Card = c
		f.show("changes", n)
		answerCode(w, 0, "success", map[string]any{})
	}
}

func (f *Feishu) endpoint(w http.ResponseWriter, r *http.Request) {
	var in struct{ AppID, AppSecret string }
	if !read(w, r, &in) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.AppID != f.App || in.AppSecret != f.Secret {
		_ = json.NewEncoder(w).Encode(map[string]any{"code": 514, "msg": "auth failed"})
		return
	}
	f.count++
	ticket := fmt.Sprintf("t1cket-%d", f.count)
	f.ticket[ticket] = true
	_ = json.NewEncoder(w).Encode(map[string]any{"code": 0, "msg": "", "data": map[string]any{
		"URL":          strings.Replace(f.server.URL, "http", "ws", 1) + "/ws?device_id=1&service_id=7&access_key=" + ticket,
		"ClientConfig": map[string]int{"ReconnectCount": -1, "ReconnectInterval": 120, "ReconnectNonce": 30, "PingInterval": 1},
	}})
}

type feishuFrame struct {
	service, method uint64
	headers         map[string]string
	payload         []byte
}

func (f feishuFrame) encode() []byte {
	var b []byte
	for n, v := range []uint64{1, 2, f.service, f.method} {
		b = protowire.AppendTag(b, protowire.Number(n+1), protowire.VarintType)
		b = protowire.AppendVarint(b, v)
	}
	for k, v := range f.headers {
		var h []byte
		h = protowire.AppendString(protowire.AppendTag(h, 1, protowire.BytesType), k)
		h = protowire.AppendString(protowire.AppendTag(h, 2, protowire.BytesType), v)
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), h)
	}
	b = protowire.AppendString(protowire.AppendTag(b, 6, protowire.BytesType), "none")
	b = protowire.AppendString(protowire.AppendTag(b, 9, protowire.BytesType), "log-1")
	return protowire.AppendBytes(protowire.AppendTag(b, 8, protowire.BytesType), f.payload)
}

// decode decodes a frame. Fields 1 to 4 are required.
func decode(b []byte) (f feishuFrame, err error) {
	f.headers = map[string]string{}
	seen := map[protowire.Number]bool{}
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return f, protowire.ParseError(size)
		}
		b = b[size:]
		seen[n] = true
		switch kind {
		case protowire.VarintType:
			v, size := protowire.ConsumeVarint(b)
			if size < 0 {
				return f, protowire.ParseError(size)
			}
			b = b[size:]
			switch n {
			case 3:
				f.service = v
			case 4:
				f.method = v
			}
		case protowire.BytesType:
			v, size := protowire.ConsumeBytes(b)
			if size < 0 {
				return f, protowire.ParseError(size)
			}
			b = b[size:]
			switch n {
			case 5:
				_, _, tag := protowire.ConsumeTag(v)
				k, text := protowire.ConsumeString(v[tag:])
				_, _, tag2 := protowire.ConsumeTag(v[tag+text:])
				value, _ := protowire.ConsumeString(v[tag+text+tag2:])
				f.headers[k] = value
			case 8:
				f.payload = v
			}
		default:
			return f, fmt.Errorf("field %d is of another kind", n)
		}
	}
	for n := protowire.Number(1); n <= 4; n++ {
		if !seen[n] {
			return f, fmt.Errorf("field %d is missing", n)
		}
	}
	return f, nil
}

func (f *Feishu) connect(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	ticket := r.URL.Query().Get("access_key")
	good := f.ticket[ticket]
	delete(f.ticket, ticket)
	f.mu.Unlock()
	if !good {
		w.Header().Set("Handshake-Status", "514")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	up := websocket.Upgrader{}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &feishuConn{Conn: conn, acks: map[string]chan feishuAck{}}
	f.mu.Lock()
	f.conns = append(f.conns, c)
	f.mu.Unlock()
	f.opened <- struct{}{}
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil {
			f.mu.Lock()
			f.conns = slices.DeleteFunc(f.conns, func(o *feishuConn) bool { return o == c })
			f.mu.Unlock()
			return
		}
		frame, err := decode(data)
		if err != nil || kind != websocket.BinaryMessage || frame.service != 7 {
			f.Errorf("a frame that is none: %v: %x", err, data)
			continue
		}
		if frame.method == 0 {
			if frame.headers["type"] != "ping" {
				f.Errorf("got the control frame %+v", frame)
			}
			pong := feishuFrame{service: 7, headers: map[string]string{"type": "pong"}, payload: []byte(`{"PingInterval":1}`)}
			c.mu.Lock()
			_ = c.WriteMessage(websocket.BinaryMessage, pong.encode())
			c.mu.Unlock()
			select {
			case f.pings <- struct{}{}:
			default:
			}
			continue
		}
		var a feishuAck
		if err := json.Unmarshal(frame.payload, &a); err != nil || frame.headers["biz_rt"] == "" {
			f.Errorf("an answer that is none: %s", frame.payload)
			continue
		}
		c.mu.Lock()
		waits := c.acks[frame.headers["message_id"]]
		delete(c.acks, frame.headers["message_id"])
		c.mu.Unlock()
		if waits == nil {
			f.Errorf("an answer to nothing: %+v", frame)
			continue
		}
		waits <- a
	}
}

// Pinged waits for the app's ping.
func (f *Feishu) Pinged() {
	f.Helper()
	f.await(f.pings, "ping")
}

// Disconnect closes the connection regularly, as Feishu does when its servers change, and waits for another one.
func (f *Feishu) Disconnect() {
	f.Helper()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseServiceRestart, ""), time.Now().Add(time.Second))
		_ = c.Close()
	}
	f.conns = nil
	f.mu.Unlock()
	f.Connected()
}

// Cut breaks all connections.
func (f *Feishu) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

// On returns a user's click on a button of the current message.
func (f *Feishu) On(message int, user, button string) Click {
	m := f.Messages()[message]
	_, _, _, value := m.Card.parts()
	return Click{ID: f.number(), User: user, Card: m.ID, Button: button, Value: value}
}

// Event delivers an event in Parts frames, and returns the answer's code and data.
func (f *Feishu) Event(payload string) (int, []byte) {
	f.Helper()
	f.mu.Lock()
	if len(f.conns) == 0 {
		f.mu.Unlock()
		f.Fatal("the app is not connected")
	}
	c := f.conns[len(f.conns)-1]
	f.mu.Unlock()
	id := f.number()
	waits := make(chan feishuAck, 1)
	c.mu.Lock()
	c.acks[id] = waits
	size := (len(payload) + f.Parts - 1) / f.Parts
	for i := range f.Parts {
		n := f.Parts - 1 - i // last one first
		part := feishuFrame{service: 7, method: 1, payload: []byte(payload[min(n*size, len(payload)):min((n+1)*size, len(payload))]), headers: map[string]string{
			"type": "event", "message_id": id, "sum": fmt.Sprint(f.Parts), "seq": fmt.Sprint(n), "trace_id": "trace-1"}}
		if err := c.WriteMessage(websocket.BinaryMessage, part.encode()); err != nil {
			c.mu.Unlock()
			f.Fatal(err)
		}
	}
	c.mu.Unlock()
	select {
	case a := <-waits:
		return a.Code, a.Data
	case <-time.After(time.Minute):
		f.Fatalf("the event %s is not answered", payload)
		return 0, nil
	}
}

// Click delivers a click, and shows the app's answer.
func (f *Feishu) Click(c Click) {
	f.Helper()
	if c.ID == "" {
		c.ID = f.number()
	}
	text, err := json.Marshal(map[string]any{
		"schema": "2.0",
		"header": map[string]string{"event_id": c.ID, "event_type": "card.action.trigger", "app_id": f.App, "tenant_key": "tenant", "token": "v1",
			"create_time": "1767323045000000"},
		"event": map[string]any{
			"operator": map[string]string{"open_id": c.User, "user_id": "x", "union_id": "on_x", "tenant_key": "tenant"}, "token": "c-1", "host": "im_message",
			"action":  map[string]any{"tag": "button", "timezone": "Asia/Shanghai", "value": map[string]string{"button": c.Button, "value": c.Value}},
			"context": map[string]string{"open_message_id": c.Card, "open_chat_id": f.Group},
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Say("\n=== %s clicks %s ===", c.User, c.Button)
	began := time.Now()
	code, data := f.Event(string(text))
	if took := time.Since(began); took > 3*time.Second {
		f.Errorf("the click was answered after %s, and Feishu waits three seconds", took)
	}
	var said struct {
		Toast struct{ Type, Content string }
		Card  *struct {
			Type string
			Data FeishuCard
		}
	}
	err = json.Unmarshal(data, &said)
	if err != nil || code != 200 || said.Card != nil && (said.Card.Type != "raw" || !said.Card.Data.Config.UpdateMulti) {
		f.Fatalf("the click is answered with %d %s", code, data)
	}
	if said.Toast.Content != "" {
		f.Say("\n(only %s sees: %s)", c.User, said.Toast.Content)
	}
	if said.Card == nil {
		f.Say("\n(the message stays as it is)")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := slices.IndexFunc(f.cards, func(m *FeishuMessage) bool { return m.ID == c.Card }); n >= 0 {
		f.cards[n].Card = said.Card.Data
		f.show("changes", n)
	}
}
