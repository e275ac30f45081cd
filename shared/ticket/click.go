package ticket

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	clickIn    = 2500 * time.Millisecond // a platform waits for three seconds
	mostSaid   = 5                       // lines about answers on a card
	mostClicks = 20                      // remembered to recognize repeated ones
	longClick  = 100                     // bytes of a click's ID
	clock      = "15:04 "                // begins each line, in UTC
)

// clicked handles a click and returns the resulting card. It trusts nothing: the card must be a ticket's, the person one of the
// policy, and the question the one that the case asks now.
func (o *outlet) clicked(ctx context.Context, c chat.Click) chat.Reply {
	ctx, cancel := context.WithTimeout(ctx, clickIn)
	defer cancel()
	c.ID = event.Clip(c.ID, longClick)
	log := o.c.Log.With("sink", o.Name, "user", event.Clip(c.User, 100), "button", event.Clip(string(c.Button), 20))
	h, err := o.headOf(ctx, c.Card)
	i := h.incident
	if errors.Is(err, stream.ErrNotFound) {
		log.Info("a click on a message without a ticket is ignored") // an older or another cluster's message
		return chat.Reply{Text: o.tell(say.F("This message can't be answered any more, or not here."))}
	}
	if err != nil {
		log.Warn("a click can't be answered now", "error", event.Redact(err.Error()))
		return chat.Reply{Text: o.tell(say.F("It could not be answered now: click again."))}
	}
	if slices.Contains(h.Clicks, c.ID) { // repeated
		return o.reply(ctx, i, h, nil)
	}
	said, err := o.do(ctx, i, h, c)
	if err != nil {
		said = say.Of(err)
	}
	said = said.Map(func(text string) string { return chat.Plain(event.Clip(event.Redact(text), shortText)) })
	if err != nil {
		log.Warn("a click does not count", "incident", i.String(), "error", said.String())
	} else {
		log.Info("a click counts", "incident", i.String(), "outcome", said.String())
	}
	at := say.Literal(strings.TrimSpace(o.c.Now().UTC().Format(clock)))
	line, before := at.Then(said), h
	h, noted := o.noteClick(ctx, h.entry.Key, func(h *Head) {
		h.Clicks = append(h.Clicks, c.ID)
		h.Clicks = h.Clicks[max(0, len(h.Clicks)-mostClicks):]
		h.answered(line, err != nil)
		if err == nil && c.Button == chat.Mute {
			h.MutedUntil = o.c.Now().Add(mutedFor)
			if v, err := o.view(ctx, i, i.all(), Head{}, o.since); err == nil {
				f := v.facts("", i, "", Head{}, Open)
				h.Shown.Failing, h.Shown.Impact = f.Failing, f.Impact
			}
		}
	})
	if noted != nil {
		log.Warn("what became of a click can't be noted", "incident", i.String(), "error", event.Redact(noted.Error()))
		if c.Button == chat.Mute && err == nil {
			line = at.And("it could not be muted now: click again")
		}
		h = before
		h.answered(line, true)
	}
	return o.reply(ctx, i, h, line)
}

func (o *outlet) tell(t say.Text) string { return t.In(o.texts.language) }

func (o *outlet) headOf(ctx context.Context, card string) (Head, error) {
	entries, err := o.c.Stream.Entries(ctx, headRoot+o.Name+".>")
	if err != nil {
		return Head{}, err
	}
	for _, e := range entries {
		if h, err := decodeHead(e); err == nil && h.ID == card && card != "" {
			return h, nil
		}
	}
	return Head{}, stream.ErrNotFound
}

func (o *outlet) noteClick(ctx context.Context, key string, change func(*Head)) (Head, error) {
	for {
		h, err := readHead(ctx, o.c.Stream, key)
		if err != nil {
			return h, err
		}
		if !o.c.Now().Before(h.Lease) {
			change(&h)
			if err = h.write(ctx, o.c.Stream); !errors.Is(err, stream.ErrConflict) {
				return h, err
			}
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return h, context.Cause(ctx)
		}
	}
}

func (o *outlet) do(ctx context.Context, i incident, h Head, c chat.Click) (say.Text, error) {
	who, ok := policy.PersonOf(o.c.People, o.Kind, c.User)
	switch {
	case !ok:
		return nil, say.Errorf("the user %.100q of the chat is not among the people of the policy", c.User)
	case h.Status != Open:
		return nil, say.Errorf("this ticket is closed")
	case c.Button == chat.Mute && o.c.Now().Before(h.MutedUntil):
		return nil, say.Errorf("it is muted already")
	case c.Button == chat.Mute:
		return say.F("%s has muted this for a day.", who.User), nil
	}
	verdict, ok := map[chat.Button]kube.Verdict{chat.Approve: kube.Approve, chat.Reject: kube.Reject}[c.Button]
	if !ok {
		return nil, say.Errorf("there is no button %.20q", string(c.Button))
	}
	rec, err := o.asked(ctx, i, c.Value, verdict, who.User)
	if err != nil {
		return nil, err
	}
	return approval.Relay(ctx, o.c.Answers, rec, verdict, approval.Chatter{
		User: kube.User{Name: who.User, Groups: who.Groups}, Chat: kube.Chat{Sink: o.Name, Kind: o.Kind, User: c.User, Click: c.ID},
	})
}

// asked returns the record whose plan a click answers. It fails unless the record still asks what the person saw.
func (o *outlet) asked(ctx context.Context, i incident, value string, verdict kube.Verdict, user string) (event.Record, error) {
	plan, ok := approval.ParseQuestion(value)
	if !ok {
		return event.Record{}, say.Errorf("this message asks for no answer")
	}
	here := false
	if err := o.each(ctx, i.all(), func(_ incident, m Member) {
		here = here || m.uid == plan.UID && m.Cluster == plan.Cluster && i.class == plan.Class
	}); err != nil {
		return event.Record{}, err
	}
	if !here {
		return event.Record{}, say.Errorf("this is about another Service than the message")
	}
	rec, err := plan.Now(ctx, o.c.Stream)
	if err != nil {
		return event.Record{}, err
	}
	if err := plan.Takes(rec, verdict, user); err != nil {
		return event.Record{}, err
	}
	if rec.Cluster != o.c.Cluster {
		return event.Record{}, say.Errorf("this is answered in a terminal")
	}
	return *rec, nil
}

func (o *outlet) reply(ctx context.Context, i incident, h Head, line say.Text) chat.Reply {
	of, since := h, o.since
	if h.Status == Closed { // a closed card keeps its text about the end
		of, since = Head{}, h.Opened
	}
	v, err := o.view(ctx, i, i.all(), of, since)
	if err != nil || len(v.open)+len(v.over) == 0 {
		return chat.Reply{Text: o.tell(line)}
	}
	t := o.render(i, "", h, v, h.Status)
	card := cardOf(t, o.texts.language)
	return chat.Reply{Card: &card, Text: o.tell(line)}
}
