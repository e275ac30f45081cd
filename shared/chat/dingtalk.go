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
	"time"

	"github.com/gorilla/websocket"
)

// dingtalk is an organization's app at DingTalk, with a robot. It connects by Stream mode (https://open.dingtalk.com/document/orgapp/stream)
// and sends interactive cards (https://open.dingtalk.com/document/orgapp/create-and-deliver-cards). Their template, made by hand in
// DingTalk's card platform, shows these variables, all of them texts:
//
//   - title, text and said; text and said are Markdown;
//   - approve, reject and mute: "true" if the button is visible;
//   - approveLabel, rejectLabel and muteLabel: labels of the buttons, unless the template has its own;
//   - over: "true" when everything has ended;
//   - value, which each button returns: its request has the parameters button (approve, reject or mute) and value (the variable).
type dingtalk struct {
	Config
	token token
}

// DingTalk returns an app of DingTalk without connecting.
func DingTalk(c Config) App {
	if c.URL == "" {
		c.URL = "https://api.dingtalk.com"
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	return &dingtalk{Config: c}
}

// dingClicks is the topic of clicks on cards (https://github.com/open-dingtalk/dingtalk-stream-sdk-go/blob/v0.9.1/payload/utils.go).
const dingClicks = "/v1.0/card/instances/callback"

// call calls DingTalk's API and replaces a refused token once.
func (d *dingtalk) call(ctx context.Context, doing, method, path string, body, into any) error {
	return d.token.use(d.Now(), func() (string, time.Duration, error) { return d.login(ctx) }, func(value string) error {
		return d.Config.call(ctx, doing, method, d.URL+path, http.Header{"X-Acs-Dingtalk-Access-Token": {value}}, body, into, dingFailed)
	}, func(code string) bool { return code == "InvalidAuthentication" })
}

// dingFailed decodes the answer to a failed call: {"code": "…", "message": "…"}
// (https://open.dingtalk.com/document/orgapp/error-code). Status 403 also reports too many calls.
func dingFailed(said []byte, fail *Error) {
	var answer struct{ Code, Message string }
	if json.Unmarshal(said, &answer) != nil {
		return
	}
	fail.Code = answer.Code
	fail.Err = fmt.Errorf("%w: %s: %s", fail.Err, quote(answer.Code), quote(answer.Message))
	if strings.Contains(answer.Code, "QpsLimit") {
		fail.Refused = false
	}
}

// login returns a token (https://open.dingtalk.com/document/orgapp/obtain-the-access_token-of-an-internal-app).
func (d *dingtalk) login(ctx context.Context) (string, time.Duration, error) {
	secret, err := d.Secret()
	if err != nil {
		return "", 0, err
	}
	var answer struct {
		AccessToken string
		ExpireIn    int64
	}
	err = d.Config.call(ctx, "log in to DingTalk", http.MethodPost, d.URL+"/v1.0/oauth2/accessToken", nil,
		map[string]string{"appKey": d.App, "appSecret": secret}, &answer, dingFailed)
	if err == nil && answer.AccessToken == "" {
		err = &Error{Doing: "log in to DingTalk", Err: errors.New("the answer has no token")}
	}
	return answer.AccessToken, time.Duration(answer.ExpireIn) * time.Second, err
}

type dingCard struct {
	Params map[string]string `json:"cardParamMap"`
}

func dingCardOf(c Card) dingCard {
	has := func(b Button) string { return strconv.FormatBool(slices.Contains(c.Buttons, b)) }
	return dingCard{map[string]string{
		"title": c.Title, "text": c.Text, "said": strings.Join(c.Said, "\n\n"), "value": c.Value, "over": strconv.FormatBool(c.Over),
		string(Approve): has(Approve), string(Reject): has(Reject), string(Mute): has(Mute),
		"approveLabel": c.Labels[Approve], "rejectLabel": c.Labels[Reject], "muteLabel": c.Labels[Mute],
	}}
}

// Send delivers a new card to the group. Each try has a new ID: it is undocumented whether one may be used twice, and a duplicate is better than none.
func (d *dingtalk) Send(ctx context.Context, key string, c Card) (string, error) {
	const doing = "send a card to DingTalk"
	id := key + "-" + strconv.FormatInt(d.Now().UnixMilli(), 36)
	var answer struct {
		Success bool
		Result  struct {
			DeliverResults []struct {
				Success  bool
				ErrorMsg string
			}
		}
	}
	err := d.call(ctx, doing, http.MethodPost, "/v1.0/card/instances/createAndDeliver", map[string]any{
		"cardTemplateId": d.Card, "outTrackId": id, "callbackType": "STREAM", "cardData": dingCardOf(c), "userIdType": 1,
		"openSpaceId": "dtv1.card//IM_GROUP." + d.Group,
		"imGroupOpenSpaceModel": map[string]any{
			"supportForward": false, "lastMessageI18n": map[string]string{"ZH_CN": c.Title, "EN_US": c.Title},
		},
		"imGroupOpenDeliverModel": map[string]string{"robotCode": d.App},
	}, &answer)
	if err != nil {
		return "", err
	}
	for _, r := range answer.Result.DeliverResults {
		if !r.Success {
			return "", &Error{Doing: doing, Refused: true, Err: fmt.Errorf("it was created but not delivered: %s", quote(r.ErrorMsg))}
		}
	}
	if !answer.Success || len(answer.Result.DeliverResults) == 0 {
		return "", &Error{Doing: doing, Err: errors.New("the answer does not say that it was delivered")}
	}
	return id, nil
}

// Change sets the variables of a card (https://open.dingtalk.com/document/orgapp/interactive-card-update-interface).
func (d *dingtalk) Change(ctx context.Context, id string, c Card) error {
	const doing = "change a card of DingTalk"
	var answer struct{ Success bool }
	err := d.call(ctx, doing, http.MethodPut, "/v1.0/card/instances", map[string]any{
		"outTrackId": id, "cardData": dingCardOf(c), "cardUpdateOptions": map[string]bool{"updateCardDataByKey": true}, "userIdType": 1,
	}, &answer)
	if err == nil && !answer.Success {
		err = &Error{Doing: doing, Err: errors.New("the answer does not say that it was changed")}
	}
	return err
}

// A dingFrame is a frame from DingTalk; Data is JSON in a string
// (https://github.com/open-dingtalk/dingtalk-stream-sdk-go/blob/v0.9.1/payload/data_frame.go).
type dingFrame struct {
	Type    string            `json:"type"` // SYSTEM, EVENT or CALLBACK
	Headers map[string]string `json:"headers"`
	Data    string            `json:"data"`
}

type dingAnswer struct {
	Code    int               `json:"code"`
	Headers map[string]string `json:"headers"`
	Message string            `json:"message"`
	Data    string            `json:"data"`
}

func (d *dingtalk) Hear(ctx context.Context, take func(context.Context, Click) Reply) {
	d.keep(ctx, func(ctx context.Context) error {
		l, err := d.connect(ctx)
		if err != nil {
			return err
		}
		d.Log.Info("listening for clicks in DingTalk")
		ping := func() error { return l.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeIn)) }
		return l.serve(ctx, pinged, ping, func(kind int, data []byte) error {
			var f dingFrame
			if kind != websocket.TextMessage || json.Unmarshal(data, &f) != nil {
				return nil // needs no answer
			}
			a := dingAnswer{Code: http.StatusOK, Message: "OK", Headers: map[string]string{"contentType": "application/json", "messageId": f.Headers["messageId"]}}
			topic, moves := f.Headers["topic"], false
			switch {
			case f.Type == "SYSTEM" && topic == "ping":
				a.Data = f.Data
			case f.Type == "SYSTEM" && topic == "disconnect":
				moves = true
			case f.Type == "CALLBACK" && topic == dingClicks:
				answer, err := d.clicked(ctx, f, take)
				if a.Data = answer; err != nil {
					a.Code, a.Message = http.StatusBadRequest, err.Error()
				}
			default:
				a.Code, a.Message = http.StatusNotFound, "nothing here listens to that"
			}
			text, err := json.Marshal(a)
			if err != nil {
				return err
			}
			err = l.send(websocket.TextMessage, text)
			if moves {
				return errMove
			}
			return err
		})
	})
}

func (d *dingtalk) connect(ctx context.Context) (*link, error) {
	secret, err := d.Secret()
	if err != nil {
		return nil, err
	}
	var at struct{ Endpoint, Ticket string }
	err = d.Config.call(ctx, "open a connection to DingTalk", http.MethodPost, d.URL+"/v1.0/gateway/connections/open", nil, map[string]any{
		"clientId": d.App, "clientSecret": secret, "ua": "lbremedy",
		"subscriptions": []map[string]string{{"type": "CALLBACK", "topic": dingClicks}},
	}, &at, dingFailed)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at.Endpoint)
	if err != nil || u.Host == "" || at.Ticket == "" {
		return nil, errors.New("open a connection to DingTalk: the answer names no address")
	}
	q := u.Query()
	q.Set("ticket", at.Ticket)
	u.RawQuery = q.Encode()
	return dial(ctx, u)
}

// clicked handles a click and returns the answer: the present card.
func (d *dingtalk) clicked(ctx context.Context, f dingFrame, take func(context.Context, Click) Reply) (string, error) {
	var said struct {
		OutTrackID, UserID, Content string
		UserIDType                  int
	}
	var content struct {
		CardPrivateData struct {
			Params map[string]any
		}
	}
	if json.Unmarshal([]byte(f.Data), &said) != nil || json.Unmarshal([]byte(said.Content), &content) != nil {
		return "", errors.New("this is not a click on a card")
	}
	text := func(name string) string {
		s, _ := content.CardPrivateData.Params[name].(string)
		return s
	}
	c := Click{ID: f.Headers["messageId"], User: said.UserID, Card: said.OutTrackID, Button: Button(text("button")), Value: text("value")}
	if said.UserIDType > 1 { // not a user ID of the organization
		c.User = ""
	}
	reply := take(ctx, c)
	response := map[string]any{}
	if reply.Card != nil {
		response["cardUpdateOptions"], response["cardData"] = map[string]bool{"updateCardDataByKey": true}, dingCardOf(*reply.Card)
	}
	data, err := json.Marshal(map[string]any{"response": response})
	return string(data), err
}
