package ticket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/forge"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Config says whom to notify of what, and how. Stream is required; the rest as the sinks need it.
type Config struct {
	Stream      *stream.Stream
	Sinks       []policy.Sink
	Remedies    []*remedy.Remedy // scope and title of the classes
	Cluster     string           // ID of the cluster whose failures these are, and that Kube and Answers connect to
	Kube        *kube.Writer
	Answers     *kube.Cluster   // receives the answers clicked in an app
	People      []policy.Person // whose clicks count
	Secrets     []string        // directories for templates
	Cloud       *cloud.Reader
	CloudWriter *cloud.Writer
	Language    func(tag string) *say.Language // by the policy's word; nil: English only
	Log         *slog.Logger                   // nil: nothing is logged
	Now         func() time.Time               // nil: time.Now

	// Count counts notifications at a sink, by name, of a kind such as Opened; it may be called concurrently; nil: nothing is counted.
	Count func(sink, kind string, n float64)

	wire http.RoundTripper // transport to the platforms; nil: the network. Only tests set it: no setting redirects it
}

// Kinds of notifications, for Config.Count.
const (
	Opened   = "opened" // these four are successful
	Updated  = "updated"
	Closing  = "closed"
	Reopened = "reopened"
	Retried  = "retried" // it failed, and is sent again
	Refused  = "refused" // the sink refused it, and gets it again each hour, or accepted it only for some recipients
)

// A Follower notifies the sinks of outcomes in the journal: it reads the stream CASES with a durable consumer for each sink. Any number of
// workers share the consumers.
//
// A message of the journal is acknowledged when the head's revision has passed that of the member which the message changed, or a later
// message has changed the member. Until then it is redelivered: after ten seconds if the sink has just been notified, which bundles a
// thousand Services of one cause; after a growing pause if the sink doesn't answer; and after an hour if it refuses, for instance
// because of a wrong token. An unchanged failure leaves no further record.
//
// A notification is repeated if its answer or its note in the head was lost. Alibaba Cloud's support is first searched for the ticket,
// an Event replaces itself, a webhook gets the same webhook-id, and Alertmanager and PagerDuty identify an alert by its key; a chat
// shows the message twice. Alertmanager forgets alerts: open tickets are sent again.
//
// At a sink that is an app, people answer with buttons, see [Config.People]. A click only creates an Approval, which package approval
// processes like any other. A card carries its question, and the head the results of the clicks: any follower can answer them. Muting
// an incident there stops new messages for a day, while the present one stays up to date. Another failing Service or a worse impact is
// sent anyway, and the incident's end ends the mute.
type Follower struct {
	c       Config
	classes map[string]*remedy.Remedy
	outlets []*outlet
	gap     time.Duration // least time between two notifications of one ticket
}

type outlet struct {
	*Follower
	policy.Sink
	kind
	to    Sink
	texts *texts
	since time.Time // of the consumer; what ended before is not sent

	busy   sync.Map // tickets that a worker is notifying
	mu     sync.Mutex
	failed int       // consecutive failures, of any ticket
	closed time.Time // no try before
}

type kind struct {
	alone bool // each Service has a ticket of its own
	named bool // the sink assigns IDs; a ticket without one is opened
	quiet bool // unchanged tickets are not repeated, and open ones are updated rarely
	keeps bool // each notification opens a ticket: the ID that the sink returns may change
	card  bool // messages can be changed without notifying people; see cards
	title int  // limit of a title in bytes
	text  int  // limit of a text in bytes

	again time.Duration // interval for repeating open tickets to a place that forgets them; zero: it doesn't
}

const workers = 8

// New returns a follower without connecting. It checks templates and where secrets are.
func New(c Config) (*Follower, error) {
	if err := event.ValidCluster(c.Cluster); err != nil {
		return nil, fmt.Errorf("make a follower of the journal: %w", err)
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Language == nil {
		c.Language = func(string) *say.Language { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Count == nil {
		c.Count = func(string, string, float64) {}
	}
	f := &Follower{c: c, classes: map[string]*remedy.Remedy{}, gap: 10 * time.Second}
	for _, r := range c.Remedies {
		f.classes[r.Class] = r
	}
	var errs []error
	for _, s := range c.Sinks {
		o := &outlet{Follower: f, Sink: s}
		var err error
		if o.to, o.kind, err = c.sink(s); err == nil {
			o.texts, err = loadTexts(s, c.Secrets, c.Language(s.Language))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tell.%s: %w", s.Name, err))
		}
		f.outlets = append(f.outlets, o)
	}
	return f, errors.Join(errs...)
}

func (c Config) sink(s policy.Sink) (Sink, kind, error) {
	switch s.Kind {
	case policy.Alibaba:
		if c.Cloud == nil || c.CloudWriter == nil {
			return nil, kind{}, errors.New("tickets of Alibaba Cloud's support need access to the account")
		}
		to := &alibaba{reads: c.Cloud.Tickets, writes: c.CloudWriter.Tickets, category: s.Category, urgent: s.Urgent, language: c.Language(s.Language)}
		return to, kind{named: true, quiet: true, title: 100, text: 8000}, nil
	case policy.Event:
		if c.Kube == nil {
			return nil, kind{}, errors.New("a sink of kind event needs access to the cluster")
		}
		return &eventSink{to: c.Kube, cluster: c.Cluster}, kind{alone: true, title: 100, text: 1024}, nil
	case policy.DingTalk, policy.WeCom, policy.Slack:
		r := chat.Robots[s.Kind]
		return &robot{newEndpoint(s, c), r}, kind{quiet: true, title: r.Title, text: r.Text}, nil
	case policy.DingTalkApp, policy.FeishuApp:
		if s.URL != "" {
			if err := s.CheckURL(s.URL); err != nil {
				return nil, kind{}, fmt.Errorf("%w: %w", ErrRefused, err)
			}
		}
		app, to := chat.DingTalk, &cards{language: c.Language(s.Language)}
		if s.Kind == policy.FeishuApp {
			app = chat.Feishu
		}
		to.app = app(chat.Config{
			URL: s.URL, App: s.App, Secret: s.SecretFrom.Read, Group: s.Chat, Card: s.Card, Now: c.Now, Log: c.Log.With("sink", s.Name), Wire: c.wire,
		})
		return to, kind{named: true, quiet: true, card: true, title: 100, text: 8000}, nil
	case policy.Mail:
		return &email{sink: s}, kind{quiet: true, title: 150, text: 16000}, nil
	case policy.Webhook:
		return &webhook{newEndpoint(s, c)}, kind{title: 200, text: 16000}, nil
	case policy.Alertmanager:
		return &alertmanager{newEndpoint(s, c)}, kind{title: 200, text: 8000, again: resendAlert}, nil
	case policy.GitHub, policy.GitLab, policy.Codeup:
		api := forge.APIs[s.Kind]
		s.URL = cmp.Or(s.URL, api.URL)
		api.URL = s.URL
		to := forge.Repository{API: api, Name: s.Repository, Target: s.Branch, Now: c.Now, Wire: c.wire}
		return &mergeRequest{newEndpoint(s, c), to}, kind{alone: true, keeps: true, quiet: true, title: 200, text: 8000}, nil
	case policy.PagerDuty:
		s.URL = cmp.Or(s.URL, "https://events.pagerduty.com")
		return &pagerDuty{newEndpoint(s, c)}, kind{title: 1000, text: 8000}, nil
	}
	return nil, kind{}, fmt.Errorf("the kind of sink %q is unknown", s.Kind)
}

// consumer includes the cluster: another's policy may use the name for a different sink.
func (o *outlet) consumer() string { return "tell-" + o.Name + "_" + o.c.Cluster }

// Run notifies until ctx ends; without a sink it returns at once. Any number of followers may run on one stream.
func (f *Follower) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, o := range f.outlets {
		all.Go(func() { o.run(ctx) })
	}
	all.Wait()
}

// run retries after errors such as a leader election of NATS; other sinks continue meanwhile.
func (o *outlet) run(ctx context.Context) {
	for said := ""; ctx.Err() == nil; retry.Sleep(ctx, sweep) {
		err := o.consume(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		o.c.Count(o.Name, Retried, 1)
		if err.Error() != said {
			said = err.Error()
			o.c.Log.Error("a sink can't be notified; trying again", "sink", o.Name, "error", event.Redact(said))
		}
	}
}

func (o *outlet) consume(ctx context.Context) (err error) {
	if o.since, err = o.c.Stream.SetupFollower(ctx, o.consumer(), o.c.Cluster); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.c.Stream.ConsumeCases(ctx, o.consumer(), workers, o.handle) })
	g.Go(func() error { return o.every(ctx, sweep, "tickets that a person closed are ended later", o.close) })
	if c, ok := o.to.(*cards); ok {
		g.Go(func() error { c.app.Hear(ctx, o.clicked); return nil })
	}
	if o.again > 0 {
		g.Go(func() error { return o.every(ctx, o.again/4, "open tickets are sent again later", o.repeat) })
	}
	return g.Wait()
}

// every calls do again and again until ctx ends, whatever fails.
func (o *outlet) every(ctx context.Context, pause time.Duration, later string, do func(context.Context) error) error {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			o.c.Log.Warn(later, "sink", o.Name, "error", event.Redact(err.Error()))
		}
		retry.Sleep(ctx, pause)
	}
	return nil
}

// repeat sends open tickets again. It leaves a ticket whose failures are over to the record that says so.
func (o *outlet) repeat(ctx context.Context) error {
	heads, err := o.c.Stream.Entries(ctx, headRoot+o.Name+".>")
	if err != nil {
		return err
	}
	for _, e := range heads {
		h, err := decodeHead(e)
		now := o.c.Now()
		if err != nil || h.Status != Open || now.Before(h.Notified.Add(o.again)) || now.Before(h.RefusedAt.Add(refusals)) ||
			o.early(h, false) > 0 {
			continue
		}
		v, err := o.view(ctx, h.incident, h.incident.all(), h, o.since)
		if err != nil {
			return err
		}
		if len(v.open) == 0 || v.open[0].Cluster != o.c.Cluster {
			continue
		}
		if _, err := o.deliver(ctx, h.incident, h.uid, h, v, Open); err != nil {
			return err
		}
	}
	return nil
}

const (
	firstWait = time.Second
	lastWait  = 5 * time.Minute
	busyWait  = 2 * time.Second  // while another worker notifies
	refusals  = time.Hour        // between retries of what was refused
	unread    = time.Minute      // until an unreadable record is retried, after the others
	unreads   = 3                // tries of such a record
	sweep     = 5 * time.Second  // between two checks for tickets that a person closed
	answerFor = 45 * time.Second // timeout of a sink; less than the lease
)

func (o *outlet) handle(ctx context.Context, m stream.Message) stream.Reply {
	r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		if m.Deliveries < unreads {
			return stream.Reply{Retry: unread}
		}
		o.c.Log.Error("a record of the journal can't be read, and nobody is notified of it", "sink", o.Name, "subject", m.Subject, "sequence", m.Sequence, "error",
			event.Redact(err.Error()))
		return stream.Reply{}
	}
	wait, err := o.take(ctx, r, m.Sequence)
	if err != nil {
		if ctx.Err() == nil {
			o.c.Log.Warn("a record of the journal is answered later", "sink", o.Name, "case", r.Case, "class", r.Class, "error", event.Redact(err.Error()))
		}
		wait = max(wait, busyWait)
	}
	return stream.Reply{Retry: wait}
}

// take updates a record's members and notifies the sink of their incidents. It returns when to come back; zero: all is sent.
func (o *outlet) take(ctx context.Context, r event.Record, sequence uint64) (time.Duration, error) {
	var scope remedy.Scope
	if c := o.classes[r.Class]; c != nil {
		scope = c.Scope
	}
	members, err := o.update(ctx, incidentOf(scope, r), r, sequence)
	if err != nil {
		return 0, err
	}
	var wait time.Duration
	for i, m := range members {
		later, err := o.notify(ctx, i, m)
		if err != nil {
			return later, err
		}
		if m.Sequence > sequence {
			continue // the later record that changed it waits for the sink
		}
		if wait == 0 || later > 0 && later < wait { // each incident is notified, even next to one that waits long
			wait = later
		}
	}
	return wait, nil
}

// update writes the members that a record changes and returns all of its Service and class. It begins again if another follower was first.
func (o *outlet) update(ctx context.Context, own incident, r event.Record, sequence uint64) (map[incident]Member, error) {
	for {
		have, err := o.write(ctx, own, r, sequence)
		if !errors.Is(err, stream.ErrConflict) || ctx.Err() != nil {
			return have, err
		}
	}
}

func (o *outlet) write(ctx context.Context, own incident, r event.Record, sequence uint64) (map[incident]Member, error) {
	have := map[incident]Member{}
	err := o.each(ctx, memberRoot+"*."+r.Class+".*."+r.Service.UID, func(i incident, m Member) { have[i] = m })
	if err != nil {
		return nil, err
	}
	for _, c := range changes(own, r, sequence, have) {
		key, revision := c.incident.member(r.Service.UID), have[c.incident].revision
		if revision == 0 { // the marker of an expired key may remain
			e, err := o.c.Stream.Entry(ctx, key)
			if err != nil && !errors.Is(err, stream.ErrNotFound) {
				return nil, err
			}
			if _, _, unreadable := readMember(e.Key, e.Value, e.Revision); err == nil && unreadable == nil {
				return nil, stream.ErrConflict
			}
			revision = e.Revision // of an unreadable one too: this record has the present state
		}
		if c.member.revision, err = c.member.write(ctx, o.c.Stream, key, revision); err != nil {
			return nil, err
		}
		c.member.uid = r.Service.UID
		have[c.incident] = c.member
	}
	return have, nil
}

// each skips and logs unreadable members: they must not hold back the others' ticket.
func (f *Follower) each(ctx context.Context, filter string, see func(incident, Member)) error {
	err := f.c.Stream.EachEntry(ctx, filter, func(e stream.Entry) {
		i, m, err := readMember(e.Key, e.Value, e.Revision)
		if err != nil {
			f.c.Log.Error("a member of an incident can't be read and is left out", "key", e.Key, "error", event.Redact(err.Error()))
			return
		}
		see(i, m)
	})
	if err != nil {
		return fmt.Errorf("read the members of an incident: %w", err)
	}
	return nil
}

// notify updates the sink about an incident, at least up to this member. It returns when to come back; zero: done.
func (o *outlet) notify(ctx context.Context, i incident, m Member) (time.Duration, error) {
	one, members := "", i.all()
	if o.alone {
		one, members = m.uid, i.member(m.uid)
	}
	key := headKey(o.Name, i, one)
	h, err := readHead(ctx, o.c.Stream, key)
	if errors.Is(err, errUnreadable) {
		o.c.Log.Error("what a sink was sent can't be read; it is sent again", "sink", o.Name, "key", key, "error", event.Redact(err.Error()))
		h, err = Head{Tried: true, entry: h.entry}, nil
	}
	if err != nil {
		return 0, err
	}
	if h.Revision >= m.revision {
		return 0, nil
	}
	if wait := h.RefusedAt.Add(refusals).Sub(o.c.Now()); wait > 0 {
		return wait, nil // the log and the list of tickets say so
	}
	if wait := o.early(h, m.Over); wait > 0 {
		return wait, nil
	}
	// Otherwise each worker would read all members, possibly thousands, and only one would notify.
	if _, busy := o.busy.LoadOrStore(key, true); busy {
		return busyWait, nil
	}
	defer o.busy.Delete(key)
	v, err := o.view(ctx, i, members, h, o.since)
	if err != nil {
		return 0, err
	}
	status := v.status(h.Status)
	same := o.quiet && status == h.Status && v.print() == h.Print && !(o.card && h.anew(v.facts("", i, "", h, status), o.c.Now()))
	switch {
	case status == None:
		return 0, nil // the sink doesn't want these
	case same, h.Status == Closed && status == Closed && len(v.over) == 0:
		h.Revision = v.revision
		if h.Status == Closed {
			h.ClosedAt = v.revision
		}
		return o.note(ctx, &h, 0)
	}
	if o.quiet && !o.card && h.Status == Open && status == Open {
		if wait := o.due(h).Sub(o.c.Now()); wait > 0 {
			h.Checked = o.c.Now()
			return o.note(ctx, &h, wait)
		}
	}
	return o.deliver(ctx, i, one, h, v, status)
}

// early returns how long a ticket must wait. over says that a failure has ended, which is not delayed for long.
func (o *outlet) early(h Head, over bool) time.Duration {
	o.mu.Lock()
	next := later(o.closed, later(h.Lease, h.Next))
	o.mu.Unlock()
	if !h.Notified.IsZero() {
		next = later(next, h.Notified.Add(o.gap))
	}
	if h.Checked.After(h.Notified) {
		// Reading all members again for each record would cost more than it gains.
		due := o.due(h)
		if end := h.Checked.Add(o.gap); over && end.Before(due) {
			due = end
		}
		next = later(next, due)
	}
	return max(0, next.Sub(o.c.Now()))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// due returns until when an open ticket stays unchanged, where each update is a message that people read.
func (o *outlet) due(h Head) time.Time {
	return h.Notified.Add([]time.Duration{o.gap, time.Minute, 10 * time.Minute, time.Hour}[min(h.Updates, 3)])
}

// note writes a head. It returns when to come back: after the wait, or soon if another worker has written it.
func (o *outlet) note(ctx context.Context, h *Head, wait time.Duration) (time.Duration, error) {
	err := h.write(ctx, o.c.Stream)
	if errors.Is(err, stream.ErrConflict) {
		return busyWait, nil
	}
	return wait, err
}

func (o *outlet) deliver(ctx context.Context, i incident, uid string, h Head, v view, status Status) (time.Duration, error) {
	now := o.c.Now()
	h.Refusal = nil // it was about the previous state
	h.Lease = now.Add(lease)
	t := o.render(i, uid, h, v, status)
	anew := o.card && h.anew(t.Facts, now)
	// A card that can't be changed, such as an old one, is replaced, even for the end.
	t.Opens = h.Status == None || o.keeps || o.named && h.ID == "" && status == Open || anew || o.card && (h.ID == "" || !h.RefusedAt.IsZero())
	h.Tried = h.Tried || t.Opens
	if wait, err := o.note(ctx, &h, 0); wait > 0 || err != nil {
		return wait, err
	}
	sending, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	id, err := o.to.Send(sending, t)
	if t.Opens && (id != "" || err == nil) {
		h.ID = id // a failure keeps the existing card
	}
	if ctx.Err() != nil {
		return 0, ctx.Err() // the lease expires; what was sent is sent again
	}
	h.Lease = time.Time{}
	if err == nil && o.card {
		h.shows(t)
	}
	wait := o.outcome(&h, t, v, err)
	if err := h.write(ctx, o.c.Stream); err != nil {
		return 0, err
	}
	return wait, nil
}

func (h *Head) shows(t Ticket) {
	if t.Opens {
		h.Shown = Shown{t.Question, t.Facts.Failing, t.Facts.Impact}
	}
	if t.Status == Closed || t.Reopened {
		h.MutedUntil = time.Time{}
	}
	if t.Reopened {
		h.Said = nil
	}
}

func (o *outlet) outcome(h *Head, t Ticket, v view, err error) time.Duration {
	now := o.c.Now()
	h.Missed = ""
	if partly, ok := errors.AsType[partlyError](err); ok {
		err, h.Missed = nil, event.Clip(partly.Error(), stepText)
	}
	log := o.c.Log.With("sink", o.Name, "class", t.Facts.Class, "incident", t.Incident, "ticket", t.Key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.failed, o.closed = 0, time.Time{}
		h.Notified, h.trouble = now, trouble{}
		if h.Status == t.Status && h.Revision == v.revision {
			return 0
		}
		o.c.Count(o.Name, t.kind(), 1)
		if h.Status != Open && t.Status == Open {
			h.Opened, h.Updates = now, 0
		} else {
			h.Updates++
		}
		if t.Status == Closed {
			h.ClosedAt, h.Updates = v.revision, 0
		}
		h.Status, h.Revision, h.Print, h.Tried = t.Status, v.revision, v.print(), false
		h.Number++
		if h.Missed != "" {
			o.c.Count(o.Name, Refused, 1)
			log.Warn("not all were notified", "error", h.Missed)
		}
		log.Info("people were notified", "status", string(t.Status), "id", h.ID, "failing", t.Facts.Failing, "over", t.Facts.Over)
		return 0
	}
	h.Failures++
	h.Error = event.Clip(err.Error(), stepText)
	if errors.Is(err, ErrRefused) {
		o.c.Count(o.Name, Refused, 1)
		h.RefusedAt = now
		log.Error("a sink refuses what it is sent; it is tried again in an hour", "error", h.Error)
		return refusals
	}
	o.c.Count(o.Name, Retried, 1)
	growing := func(failures int) time.Duration { return retry.Pause(firstWait, lastWait, uint64(failures)) }
	wait := growing(h.Failures)
	// A sink that is down is not tried for each ticket.
	o.failed++
	o.closed = later(o.closed, now.Add(growing(o.failed)))
	if platform, ok := errors.AsType[*chat.Error](err); ok && platform.After > 0 { // it asks for a delay
		wait = max(wait, platform.After)
		o.closed = later(o.closed, now.Add(wait))
	}
	h.Next = now.Add(wait)
	log.Warn("a sink can't be notified now", "error", h.Error, "again", wait.String())
	return wait
}

func (t Ticket) kind() string {
	switch {
	case t.Was == None:
		return Opened
	case t.Reopened:
		return Reopened
	case t.Status == Closed:
		return Closing
	}
	return Updated
}

func (o *outlet) render(i incident, uid string, h Head, v view, status Status) Ticket {
	title := i.class
	if c := o.classes[i.class]; c != nil {
		title = c.Title()
	}
	t := Ticket{
		Notice: Notice{Facts: v.facts(ticketKey(o.Name, i, uid), i, title, h, status).in(o.texts.language)},
		ID:     h.ID, Tried: h.Tried, Was: h.Status, Number: h.Number, At: o.c.Now(),
	}
	t.Message = t.Key + "." + strconv.FormatUint(v.revision, 10)
	if o.card {
		t.Question, t.Muted = questionOf(t.Facts.Lead, i.class), o.c.Now().Before(h.MutedUntil)
		if !t.Reopened {
			t.Said = h.lines(o.texts.language)
		}
	}
	if t.Facts.All() == 0 { // it was closed by hand after its members were forgotten
		t.Title, t.Text = t.Facts.Title, o.texts.language.Phrase("This ticket is closed. lbremedy knows nothing of its failures any more.")
		return t
	}
	var err error
	if t.Title, t.Text, err = o.texts.write(t.Facts, o.kind); err != nil {
		o.c.Log.Error("a template fails; the text that lbremedy has is sent instead", "sink", o.Name, "error", event.Redact(err.Error()))
	}
	return t
}
