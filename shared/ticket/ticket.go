// Package ticket notifies people: it makes one ticket of all Services that fail for one
// cause, in each place that the policy file names, and ends it when the failures are over.
//
// Functions only journal. Tickets are a projection of the journal: a [Follower] reads
// the stream CASES with a durable consumer for each sink, so that a sink that is down
// lags alone, loses nothing and holds nobody up. The design has it that whoever creates
// the head key of an incident owns its ticket; here nobody owns one. Any number of
// workers share the consumers, and what keeps two of them from opening two tickets is
// the head itself, which is written by compare-and-set before and after each notification:
// with a lease while somebody notifies, and with how far the sink has been notified.
//
// # Keys
//
// Two kinds of keys hold all that is known; they survive a kill at any point.
//
//   - incident.<scope>.<class>.<hash of the cause>.<uid> is a [Member]: how one Service
//     stands, by the newest record of its class. It knows the record's sequence, so that
//     duplicates and older records change nothing. All sinks share the members.
//   - ticket.<sink>.<scope>.<class>.<hash of the cause> is a [Head]: what one sink has
//     been notified of the incident, and up to which revision of the bucket. For a sink that
//     has a ticket for each Service, such as Events, the UID follows.
//
// A message of the journal is acknowledged when the head's revision has passed that of
// the member which the message changed, or a later message has changed the member. Until
// then it comes again: after ten seconds where the sink has just been notified, so that a
// thousand Services of one cause make few notifications, after a growing pause where the
// sink doesn't answer, and after an hour where it refuses, such as with a wrong token. No
// other record may ever come, since a failure that stays as it is leaves none.
//
// # Scope
//
// An incident is a class and a cause within a scope. The scope is the class's: the
// account or the cluster. Each cluster that shares a NATS has incidents and tickets of
// its own, for an account too: it has sinks of its own, and its account may be another.
// What a check of the doctor finds is one incident for the
// cluster, whatever it is about: Services, load balancers, the cluster itself. A class of scope Service covers the Services of a cluster that
// share a cause, such as one full vSwitch, and without a cause the one Service.
//
// # What a sink may see twice
//
// A notification that reached the sink, but whose answer or whose note in the head was lost,
// is made again. Alibaba Cloud's support is searched for the ticket first, an Event is
// written in place of itself, and a webhook gets the same webhook-id. A chat shows the
// message twice. An Alertmanager and PagerDuty know an alert by its key.
//
// An Alertmanager forgets what is not sent again: open tickets are repeated there (repeat.go).
//
// # Answers
//
// At a sink that is an app people answer by buttons, see [Config.People]. An Approval is all that comes of
// it: the bringer of package approval brings it to the journal as it brings any other. A card carries the
// question as it shows it, and the head what became of the clicks, so that any follower can answer them.
//
// Who mutes an incident at a sink gets no new message about it there for a day, and the message that is
// there stays up to date. What is worse than when it was muted, which is another Service that fails or a
// worse impact, is sent all the same; the end of the incident ends it.
package ticket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Sink is one place where people are notified. Its methods are called for one ticket at
// a time. An error for which errors.Is(err, ErrRefused) is not worth another try soon.
type Sink interface {
	// Open opens a new ticket, which may be over already, and returns the ID that
	// it has there; empty: it has none. If an earlier Open may have got through, the
	// ticket says Tried, and a sink that can find what it made finds it.
	Open(context.Context, Ticket) (id string, err error)
	// Update says how an open ticket stands now, how it ended, or that one that was closed is open again.
	Update(context.Context, Ticket) error
}

// A sender is a sink whose messages can't be changed: it sends one each time.
type sender struct {
	by interface {
		send(context.Context, Ticket) error
	}
}

// Open sends a message.
func (s sender) Open(ctx context.Context, t Ticket) (string, error) { return "", s.by.send(ctx, t) }

// Update sends a message.
func (s sender) Update(ctx context.Context, t Ticket) error { return s.by.send(ctx, t) }

// ErrRefused says that a sink does not take this before a person has changed something:
// the request is wrong, or we may not make it.
var ErrRefused = errors.New("refused")

// A partlyError is what a sink says that has taken what it was sent, but not for all. It counts as notified.
type partlyError struct{ error }

// A Status says how a ticket stands.
type Status string

// The statuses.
const (
	None   Status = ""       // the sink knows nothing of it
	Open   Status = "open"   // a failure stands
	Closed Status = "closed" // all failures are over
)

// A Ticket is what a sink is sent. All its texts are redacted and cut.
type Ticket struct {
	Key      string // names the ticket at the sink, whatever else changes: "lbr-" and 16 hex digits
	Message  string // names what it says: the same for a try that is made again
	ID       string // that the sink gave it
	Tried    bool   // an earlier Open may have got through
	Was      Status // how it stands as the sink knows it
	Status   Status // how it stands
	Number   int    // notifications before this one
	Incident string // scope, class and hash of the cause, with dots between
	Title    string // one line
	Text     string // as the template has it
	Facts    Facts
	At       time.Time // when this was made
	Question string    // that can be answered there, as buttons carry it; empty: none
	Said     []string  // what became of answers there
	Muted    bool      // somebody has muted it there
}

// Reopened reports whether the ticket was closed before.
func (t Ticket) Reopened() bool { return t.Was == Closed && t.Status == Open }

// Facts are what templates and webhooks are given.
type Facts struct {
	Key      string               `json:"key"`
	Incident string               `json:"incident"`
	Status   Status               `json:"status"`
	Reopened bool                 `json:"reopened,omitempty"`
	Class    string               `json:"class"`
	Title    string               `json:"title"` // of the class
	Kind     string               `json:"kind"`  // what it is about: "Service", "load balancer", …; "thing": of several kinds
	Cause    string               `json:"cause,omitempty"`
	Clusters []string             `json:"clusters"`
	Since    time.Time            `json:"since"` // when the first of the Services failed
	Impact   event.Impact         `json:"impact,omitempty"`
	Lead     Member               `json:"lead"`     // the Service that the texts are about
	Services []Member             `json:"services"` // the first of them, those that still fail before the others
	Failing  int                  `json:"failing"`  // how many of all still fail
	Over     int                  `json:"over"`     // and how many don't any more
	More     int                  `json:"more,omitempty"`
	Outcomes map[event.Result]int `json:"outcomes,omitempty"` // of those that don't fail any more, by result
	LogQuery string               `json:"logQuery"`           // shows the error code
}

// All returns how many Services the ticket is about.
func (f Facts) All() int { return f.Failing + f.Over }

// ByDoctor reports whether the doctor found it: no controller has said a word then.
func (f Facts) ByDoctor() bool { return strings.HasPrefix(f.Class, event.DoctorPrefix) }

// Approve reports whether the plan of the lead waits for a person's consent.
func (f Facts) Approve() bool {
	return f.Lead.Status() == event.NeedsApproval
}

// An incident names what one ticket is about: scope, class and hash of the cause.
type incident struct{ scope, class, cause string }

// String returns the parts with dots between.
func (i incident) String() string { return i.scope + "." + i.class + "." + i.cause }

// member returns the key of a Service in the incident.
func (i incident) member(uid string) string { return memberRoot + i.String() + "." + uid }

// all returns the filter of the keys of its Services.
func (i incident) all() string { return i.member("*") }

const (
	memberRoot = "incident."
	headRoot   = "ticket."
	closeRoot  = "closed."
)

// parseIncident is the way back from an incident's String.
func parseIncident(s string) (incident, bool) {
	p := strings.Split(s, ".")
	if len(p) != 3 || p[0] == "" || p[1] == "" || p[2] == "" || strings.ContainsAny(s, "*>") {
		return incident{}, false
	}
	return incident{p[0], p[1], p[2]}, true
}

// hash returns the name of a cause in keys.
func hash(cause string) string {
	sum := sha256.Sum256([]byte(cause))
	return hex.EncodeToString(sum[:8])
}

// incidentOf returns the incident that a record is about. A class of scope Service
// covers the Services of the cluster that share the cause.
func incidentOf(scope remedy.Scope, r event.Record) incident {
	i := incident{class: r.Class, cause: hash(r.Cause)}
	switch {
	case scope == remedy.Account:
		i.scope = "account-" + r.Cluster // as this cluster is notified of it, whoever else has the account
	case scope == remedy.Cluster || r.Cause != "":
		i.scope = "cluster-" + r.Cluster
	default:
		i.scope = "service-" + r.Service.UID
	}
	return i
}

// IncidentOf names the incident that a record is about, as the commands on tickets do.
func IncidentOf(scope remedy.Scope, r event.Record) string { return incidentOf(scope, r).String() }

// ticketKey returns what names the ticket of an incident at a sink.
func ticketKey(sink string, i incident, uid string) string {
	return "lbr-" + hash(sink+" "+i.String()+" "+uid)
}
