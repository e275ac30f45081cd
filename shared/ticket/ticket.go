// Package ticket notifies people: it makes one ticket for all Services that fail for one cause, in each place that the policy file
// names, and ends it when the failures are over. Begin with [New] and [Follower.Run].
//
// Tickets are a projection of the journal. All state is in the keys of a [Member] and a [Head], which survive a crash at any point. A sink
// that is down delays only itself, and loses nothing.
//
// An incident is a class and a cause within the class's scope. Clusters that share a NATS have separate incidents and tickets, even
// for an account: each has its own sinks, and its account may be another. A doctor's check makes one incident for the cluster. Scope
// Service covers the Services of a cluster that share a cause, such as one full vSwitch; without a cause, one Service.
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

// A Sink is one place where people are notified. An ErrRefused is not worth a prompt retry.
type Sink interface {
	// Send sends a ticket's state, its end, or that it is open again, and is called for one ticket at a time. A ticket that Opens gets the
	// ID that the sink returns, if any. If it says Tried, an earlier one may exist, and a sink that can find that ticket returns it.
	Send(context.Context, Ticket) (id string, err error)
}

// ErrRefused says that a request is invalid or not permitted: a person must change something.
var ErrRefused = errors.New("refused")

// A partlyError means that only some recipients were accepted. It counts as notified.
type partlyError struct{ error }

// A Status is the status of a ticket.
type Status string

const (
	None   Status = ""       // unknown to the sink
	Open   Status = "open"   // a failure is open
	Closed Status = "closed" // all failures are over
)

// A Ticket is what a sink is sent, redacted and cut.
type Ticket struct {
	Notice
	Message  string    // identifies the content: retries have the same
	ID       string    // assigned by the sink
	Opens    bool      // a new ticket, which may be over already, or one that takes the place of ID
	Tried    bool      // an earlier attempt to open it may have reached the sink
	Was      Status    // status last sent to the sink
	Number   int       // notifications before this one
	At       time.Time // when this was made
	Question string    // that can be answered there, as buttons carry it; empty: none
	Said     []string  // results of answers there
	Muted    bool      // somebody has muted it there
}

// A Notice is the data of a webhook's CloudEvent.
type Notice struct {
	Title string `json:"title"` // one line, by the template
	Text  string `json:"text"`  // by the template
	Facts
}

// Facts are the data for templates and webhooks.
type Facts struct {
	Key      string               `json:"key"`      // identifies the ticket at the sink and never changes: "lbr-" and 16 hex digits
	Incident string               `json:"incident"` // scope, class and hash of the cause, separated by dots
	Status   Status               `json:"status"`
	Reopened bool                 `json:"reopened,omitempty"` // it was closed before
	Class    string               `json:"class"`
	Title    string               `json:"title"` // of the class
	Kind     string               `json:"kind"`  // kind of its objects: "Service", "load balancer", …; "thing" if mixed
	Cause    string               `json:"cause,omitempty"`
	Clusters []string             `json:"clusters"`
	Since    time.Time            `json:"since"` // when the first of the Services failed
	Impact   event.Impact         `json:"impact,omitempty"`
	Lead     Member               `json:"lead"`     // the Service that the texts are about
	Services []Member             `json:"services"` // the first of them, failing ones first
	Failing  int                  `json:"failing"`  // number of failing ones in all
	Over     int                  `json:"over"`     // number of the others
	More     int                  `json:"more,omitempty"`
	Outcomes map[event.Result]int `json:"outcomes,omitempty"` // of the others, by result
	LogQuery string               `json:"logQuery"`           // finds the error code
}

// All returns how many Services the ticket is about.
func (f Facts) All() int { return f.Failing + f.Over }

// ByDoctor reports whether the doctor found it, without a controller's message.
func (f Facts) ByDoctor() bool { return strings.HasPrefix(f.Class, event.DoctorPrefix) }

// GoesOn reports whether the ticket ends although a failure goes on that the sink no longer wants.
func (f Facts) GoesOn() bool { return f.Status == Closed && f.All() > 0 && !f.Lead.Over }

// Approve reports whether the lead's plan waits for approval.
func (f Facts) Approve() bool { return f.Lead.Status() == event.NeedsApproval }

type incident struct{ scope, class, cause string }

func (i incident) String() string { return i.scope + "." + i.class + "." + i.cause }

func (i incident) member(uid string) string { return memberRoot + i.String() + "." + uid }

func (i incident) all() string { return i.member("*") }

const (
	memberRoot = "incident."
	headRoot   = "ticket."
	closeRoot  = "closed."
)

func parseIncident(s string) (incident, bool) {
	p := strings.Split(s, ".")
	if len(p) != 3 || p[0] == "" || p[1] == "" || p[2] == "" || strings.ContainsAny(s, "*>") {
		return incident{}, false
	}
	return incident{p[0], p[1], p[2]}, true
}

func hash(cause string) string {
	sum := sha256.Sum256([]byte(cause))
	return hex.EncodeToString(sum[:8])
}

// incidentOf joins the Services of the cluster that share a cause, for a class of scope Service.
func incidentOf(scope remedy.Scope, r event.Record) incident {
	i := incident{class: r.Class, cause: hash(r.Cause)}
	switch {
	case scope == remedy.Account:
		i.scope = "account-" + r.Cluster // for this cluster's sinks, even if others share the account
	case scope == remedy.Cluster || r.Cause != "":
		i.scope = "cluster-" + r.Cluster
	default:
		i.scope = "service-" + r.Service.UID
	}
	return i
}

// IncidentOf returns the name of a record's incident in commands on tickets.
func IncidentOf(scope remedy.Scope, r event.Record) string { return incidentOf(scope, r).String() }

func ticketKey(sink string, i incident, uid string) string {
	return "lbr-" + hash(sink+" "+i.String()+" "+uid)
}
