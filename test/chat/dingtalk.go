package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// DingTalk is a DingTalk organization with an app, a group and a card template.
type DingTalk struct {
	platform
	App, Secret, Group, Template string

	cards []*DingCard
	conns []*dingConn
}

// A DingCard is a card as seen in the group.
type DingCard struct {
	ID     string
	Params map[string]string
}

type dingConn struct {
	*websocket.Conn
	mu   sync.Mutex
	acks map[string]chan DingAck
}

// A DingAck is the app's answer to a frame.
type DingAck struct {
	Code    int
	Headers map[string]string
	Message string
	Data    string
}

// NewDingTalk returns an organization that ends with the test.
func NewDingTalk(t testing.TB) *DingTalk {
	d := &DingTalk{App: "dingapp1", Secret: "ding-s3cr3t", Group: "cidGroup==", Template: "card-1.schema"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1.0/oauth2/accessToken", d.login)
	mux.HandleFunc("POST /v1.0/gateway/connections/open", d.open)
	mux.HandleFunc("POST /v1.0/card/instances/createAndDeliver", d.create)
	mux.HandleFunc("PUT /v1.0/card/instances", d.change)
	mux.HandleFunc("GET /connect", d.connect)
	d.serve(t, mux, d.Cut)
	return d
}

// Cards returns the group's cards, oldest first.
func (d *DingTalk) Cards() []DingCard {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []DingCard
	for _, c := range d.cards {
		all = append(all, DingCard{c.ID, c.Params})
	}
	return all
}

func (d *DingTalk) show(doing string, n int) {
	p := d.cards[n].Params
	var said, buttons []string
	if p["said"] != "" {
		said = strings.Split(p["said"], "\n\n")
	}
	for _, b := range []string{"approve", "reject", "mute"} {
		if p[b] == "true" {
			buttons = append(buttons, p[b+"Label"])
		}
	}
	d.shown(n, doing, p["title"], p["text"], said, buttons)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message, "requestid": "r1"})
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	b := json.NewDecoder(r.Body)
	b.DisallowUnknownFields()
	if err := b.Decode(into); err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		refuse(w, http.StatusBadRequest, "InvalidParameter", fmt.Sprint(err))
		return false
	}
	return true
}

func (d *DingTalk) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ AppKey, AppSecret string }
	if !read(w, r, &in) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if in.AppKey != d.App || in.AppSecret != d.Secret {
		refuse(w, http.StatusBadRequest, "invalidClientIdOrSecret", "invalid clientId or clientSecret")
		return
	}
	d.count++
	token := fmt.Sprintf("t0ken-%d", d.count)
	d.tokens[token] = true
	_ = json.NewEncoder(w).Encode(map[string]any{"accessToken": token, "expireIn": 7200})
}

func (d *DingTalk) may(w http.ResponseWriter, r *http.Request) bool {
	if d.tokens[r.Header.Get("x-acs-dingtalk-access-token")] {
		return true
	}
	refuse(w, http.StatusBadRequest, "InvalidAuthentication", "the access token is not valid")
	return false
}

func (d *DingTalk) open(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ClientID, ClientSecret, UA string
		Subscriptions              []struct{ Type, Topic string }
	}
	if !read(w, r, &in) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case in.ClientID != d.App || in.ClientSecret != d.Secret:
		refuse(w, http.StatusUnauthorized, "authFailed", "authentication failed")
		return
	case len(in.Subscriptions) != 1 || in.Subscriptions[0].Type != "CALLBACK" || in.Subscriptions[0].Topic != "/v1.0/card/instances/callback":
		refuse(w, http.StatusBadRequest, "InvalidParameter", "no subscription")
		return
	}
	d.count++
	ticket := fmt.Sprintf("t1cket/+%d", d.count) // needs escaping
	d.ticket[ticket] = true
	_ = json.NewEncoder(w).Encode(map[string]string{"endpoint": strings.Replace(d.server.URL, "http", "ws", 1) + "/connect", "ticket": ticket})
}

func (d *DingTalk) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		CardTemplateID, OutTrackID, CallbackType, OpenSpaceID string
		CardData                                              struct{ CardParamMap map[string]string }
		UserIDType                                            int
		ImGroupOpenSpaceModel                                 struct {
			SupportForward  bool
			LastMessageI18n map[string]string
		}
		ImGroupOpenDeliverModel struct{ RobotCode string }
	}
	if !read(w, r, &in) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.may(w, r):
	case in.CardTemplateID != d.Template:
		refuse(w, http.StatusBadRequest, "param.cardTemplateIdEmpty", "no such template")
	case in.OutTrackID == "" || slices.ContainsFunc(d.cards, func(c *DingCard) bool { return c.ID == in.OutTrackID }):
		refuse(w, http.StatusBadRequest, "param.outTrackIdEmpty", "no outTrackId, or one that is taken")
	case len(in.CardData.CardParamMap) == 0 || in.CallbackType != "STREAM":
		refuse(w, http.StatusBadRequest, "param.cardPublicDataEmpty", "no data, or no stream")
	case in.OpenSpaceID != "dtv1.card//IM_GROUP."+d.Group || in.ImGroupOpenDeliverModel.RobotCode != d.App:
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "result": map[string]any{"outTrackId": in.OutTrackID,
			"deliverResults": []map[string]any{{"success": false, "errorMsg": "the robot is not in the group"}}}})
	default:
		d.cards = append(d.cards, &DingCard{in.OutTrackID, in.CardData.CardParamMap})
		d.show("arrives", len(d.cards)-1)
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "result": map[string]any{"outTrackId": in.OutTrackID,
			"deliverResults": []map[string]any{{"success": true, "spaceId": d.Group, "spaceType": "IM_GROUP"}}}})
	}
}

func (d *DingTalk) change(w http.ResponseWriter, r *http.Request) {
	var in struct {
		OutTrackID        string
		CardData          struct{ CardParamMap map[string]string }
		CardUpdateOptions struct{ UpdateCardDataByKey bool }
		UserIDType        int
	}
	if !read(w, r, &in) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.may(w, r) {
		return
	}
	n := slices.IndexFunc(d.cards, func(c *DingCard) bool { return c.ID == in.OutTrackID })
	if n < 0 {
		refuse(w, http.StatusBadRequest, "param.cardNotExist", "there is no such card")
		return
	}
	d.put(n, in.CardData.CardParamMap)
	_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "result": true})
}

func (d *DingTalk) put(n int, params map[string]string) {
	now := maps.Clone(d.cards[n].Params)
	maps.Copy(now, params)
	d.cards[n].Params = now
	d.show("changes", n)
}

func (d *DingTalk) connect(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	ticket := r.URL.Query().Get("ticket")
	good := d.ticket[ticket]
	delete(d.ticket, ticket) // a ticket is valid for one connection
	d.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	up := websocket.Upgrader{}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &dingConn{Conn: conn, acks: map[string]chan DingAck{}}
	d.mu.Lock()
	d.conns = append(d.conns, c)
	d.mu.Unlock()
	d.opened <- struct{}{}
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			d.mu.Lock()
			d.conns = slices.DeleteFunc(d.conns, func(o *dingConn) bool { return o == c })
			d.mu.Unlock()
			return
		}
		var a DingAck
		if err := json.Unmarshal(data, &a); err != nil {
			d.Errorf("an answer that is not JSON: %s", data)
			continue
		}
		c.mu.Lock()
		waits := c.acks[a.Headers["messageId"]]
		delete(c.acks, a.Headers["messageId"])
		c.mu.Unlock()
		if waits == nil || a.Headers["contentType"] != "application/json" {
			d.Errorf("an answer to nothing: %s", data)
			continue
		}
		waits <- a
	}
}

func (d *DingTalk) frame(kind, topic, id, data string) DingAck {
	d.Helper()
	d.mu.Lock()
	if len(d.conns) == 0 {
		d.mu.Unlock()
		d.Fatal("the app is not connected")
	}
	c := d.conns[len(d.conns)-1]
	d.mu.Unlock()
	waits := make(chan DingAck, 1)
	text, err := json.Marshal(map[string]any{"specVersion": "1.0", "type": kind, "time": 1767323045000, "data": data,
		"headers": map[string]string{"topic": topic, "messageId": id, "contentType": "application/json", "time": "1767323045000"}})
	if err != nil {
		d.Fatal(err)
	}
	c.mu.Lock()
	c.acks[id] = waits
	err = c.WriteMessage(websocket.TextMessage, text)
	c.mu.Unlock()
	if err != nil {
		d.Fatal(err)
	}
	select {
	case a := <-waits:
		return a
	case <-time.After(time.Minute):
		d.Fatalf("the frame %s is not answered", text)
		return DingAck{}
	}
}

// Frame sends a frame of any kind and returns the app's answer.
func (d *DingTalk) Frame(kind, topic, data string) DingAck {
	d.Helper()
	return d.frame(kind, topic, d.number(), data)
}

// Disconnect requests another connection, as before a DingTalk release, and waits for it.
func (d *DingTalk) Disconnect() {
	d.Helper()
	if a := d.Frame("SYSTEM", "disconnect", `{"reason":"update"}`); a.Code != 200 {
		d.Errorf("the disconnect is answered with %+v", a)
	}
	d.Connected()
}

// Cut breaks all connections.
func (d *DingTalk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

// On returns a user's click on a button of the current card.
func (d *DingTalk) On(card int, user, button string) Click {
	c := d.Cards()[card]
	return Click{ID: d.number(), User: user, Card: c.ID, Button: button, Value: c.Params["value"]}
}

// Count returns the number of cards in the group.
func (d *DingTalk) Count() int { return len(d.Cards()) }

// Said returns a card's text about clicks.
func (d *DingTalk) Said(card int) string { return d.Cards()[card].Params["said"] }

// Click delivers a click, and shows the app's answer.
func (d *DingTalk) Click(c Click) {
	d.Helper()
	content, err := json.Marshal(map[string]any{"cardPrivateData": map[string]any{
		"actionIds": []string{c.Button}, "params": map[string]string{"button": c.Button, "value": c.Value}}})
	if err != nil {
		d.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{
		"type": "actionCallback", "outTrackId": c.Card, "corpId": "ding1", "userId": c.User, "userIdType": 1, "content": string(content),
		"spaceType": "IM_GROUP", "spaceId": d.Group, "extension": "{}",
	})
	if err != nil {
		d.Fatal(err)
	}
	if c.ID == "" {
		c.ID = d.number()
	}
	d.Say("\n=== %s clicks %s ===", c.User, c.Button)
	a := d.frame("CALLBACK", "/v1.0/card/instances/callback", c.ID, string(data))
	var said struct {
		Response struct {
			CardUpdateOptions struct{ UpdateCardDataByKey bool }
			CardData          *struct{ CardParamMap map[string]string }
		}
	}
	err = json.Unmarshal([]byte(a.Data), &said)
	if err != nil || a.Code != 200 || said.Response.CardData != nil && !said.Response.CardUpdateOptions.UpdateCardDataByKey {
		d.Fatalf("the click is answered with %+v", a)
	}
	if said.Response.CardData == nil {
		d.Say("\n(the message stays as it is)")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := slices.IndexFunc(d.cards, func(o *DingCard) bool { return o.ID == c.Card }); n >= 0 {
		d.put(n, said.Response.CardData.CardParamMap)
	}
}
