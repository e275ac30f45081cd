// Package chat simulates the platforms of chats at the wire, for tests: their calls and connections as they
// are published, with what real ones do besides. They ask for a new connection, cut one, ask whether it lives,
// deliver a click twice, and pass on whatever a client of theirs sends. A call that is not as published is
// refused as they refuse it.
//
// Sources: for DingTalk https://open.dingtalk.com/document/orgapp/stream,
// https://open.dingtalk.com/document/orgapp/create-and-deliver-cards,
// https://open.dingtalk.com/document/orgapp/interactive-card-update-interface and, for the frames,
// https://github.com/open-dingtalk/dingtalk-stream-sdk-go v0.9.1 with its card callback. For Feishu
// https://open.feishu.cn/document/server-docs/im-v1/message/create,
// https://open.feishu.cn/document/server-docs/im-v1/message-card/patch,
// https://open.feishu.cn/document/feishu-cards/card-callback-communication and, for the frames,
// https://github.com/larksuite/oapi-sdk-go (ws).
package chat

import (
	"fmt"
	"strings"
	"sync"
)

// A Group is a group of a chat with an app in it, whichever platform it is at.
type Group interface {
	// Connected waits until the app has opened another connection.
	Connected()
	// Disconnect has the platform end the connection, and waits for another one.
	Disconnect()
	// Cut breaks all connections.
	Cut()
	// On returns the click of a user on a button of a message as it is now, counted from 0.
	On(message int, user, button string) Click
	// Click delivers a click, and shows what the app answers.
	Click(Click)
	// Count returns how many messages the group has.
	Count() int
	// Said returns what a message says of clicks.
	Said(message int) string
	// Say puts a line into the transcript.
	Say(format string, args ...any)
	// Transcript returns what the group saw and did until now.
	Transcript() string
}

// A Click is what a client sends of a click. Another client than the platform's own may send anything.
type Click struct {
	ID     string // of the delivery; empty: a new one
	User   string
	Card   string
	Button string
	Value  string
}

// A transcript is what a group saw and did.
type transcript struct {
	text sync.Mutex
	log  strings.Builder
}

// Say puts a line into the transcript.
func (t *transcript) Say(format string, args ...any) {
	t.text.Lock()
	defer t.text.Unlock()
	fmt.Fprintf(&t.log, format+"\n", args...)
}

// Transcript returns what the group saw and did until now.
func (t *transcript) Transcript() string {
	t.text.Lock()
	defer t.text.Unlock()
	return t.log.String()
}

// shown puts a message into the transcript.
func (t *transcript) shown(n int, doing, title, text string, said, buttons []string) {
	t.Say("\n--- message %d %s ---\n%s\n\n%s", n+1, doing, title, text)
	if len(said) > 0 {
		t.Say("\n> %s", strings.Join(said, "\n> "))
	}
	if len(buttons) > 0 {
		t.Say("\n[%s]", strings.Join(buttons, "] ["))
	}
}
