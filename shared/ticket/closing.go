package ticket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func (o *outlet) close(ctx context.Context) error {
	marks, err := o.c.Stream.Entries(ctx, closeRoot+">")
	if err != nil {
		return err
	}
	for _, mark := range marks {
		i, ok := parseIncident(strings.TrimPrefix(mark.Key, closeRoot))
		if !ok {
			continue
		}
		var list []Member
		if err := o.each(ctx, i.all(), func(_ incident, m Member) { list = append(list, m) }); err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(m Member) bool { return m.Cluster != o.c.Cluster }) {
			continue // that cluster's sinks are notified
		}
		switch {
		case o.alone:
		case len(list) == 0: // no member is left: the ticket is ended anyway
			list = []Member{{Over: true, revision: math.MaxUint64}}
		default:
			list = []Member{slices.MaxFunc(list, func(a, b Member) int { return cmp.Compare(a.revision, b.revision) })}
		}
		for _, m := range list {
			if _, err := o.notify(ctx, i, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// An Incident is the subject of one ticket.
type Incident struct {
	ID      string     `json:"id"` // scope, class and hash of the cause, separated by dots
	Scope   string     `json:"scope"`
	Class   string     `json:"class"`
	Cause   string     `json:"cause,omitempty"`
	Open    bool       `json:"open"`
	Since   time.Time  `json:"since"`
	Failing int        `json:"failing"`
	Members []Member   `json:"members"` // failing ones first, by name
	Tickets []Notified `json:"tickets"` // by sink
	Finding say.Text   `json:"finding,omitempty"`
	at      time.Time  // of the newest record
}

// In returns the incident with its sentences in a language.
func (i Incident) In(l *say.Language) Incident {
	i.Finding, i.Members = say.Literal(i.Finding.In(l)), slices.Clone(i.Members)
	for k, m := range i.Members {
		i.Members[k] = m.In(l)
	}
	return i
}

// Notified is what one sink was notified of an incident.
type Notified struct {
	Incident string    `json:"incident"`
	Sink     string    `json:"sink"`
	Key      string    `json:"key"`
	Service  string    `json:"service,omitempty"` // for a sink with one ticket for each
	ID       string    `json:"id,omitempty"`      // assigned by the sink
	Status   Status    `json:"status"`
	Number   int       `json:"number"` // successful notifications
	At       time.Time `json:"at,omitzero"`
	Error    string    `json:"error,omitempty"`
	Missed   string    `json:"missed,omitempty"`  // recipients that the last notification did not reach, and why
	Refused  bool      `json:"refused,omitempty"` // the sink refused it, and is retried each hour
	uid      string    // of the Service, for a sink with one ticket for each
}

// List returns open incidents and those that ended in the last week, the most recently changed first, along with an error for each unreadable key.
func List(ctx context.Context, s *stream.Stream) ([]Incident, error) {
	return list(ctx, s, memberRoot+">", headRoot+">")
}

func list(ctx context.Context, s *stream.Stream, ofMembers, ofHeads string) ([]Incident, error) {
	members, err := s.Entries(ctx, ofMembers)
	if err != nil {
		return nil, fmt.Errorf("list the incidents: %w", err)
	}
	heads, err := s.Entries(ctx, ofHeads)
	if err != nil {
		return nil, fmt.Errorf("list the tickets: %w", err)
	}
	var bad []error
	all, tickets, names := map[incident]view{}, map[incident][]Notified{}, map[string]string{}
	for _, e := range members {
		i, m, err := readMember(e.Key, e.Value, e.Revision)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		names[m.uid] = m.Service.String()
		v := all[i]
		if m.Over {
			v.over = append(v.over, m)
		} else {
			v.open = append(v.open, m)
		}
		all[i] = v
	}
	for _, e := range heads {
		h, err := decodeHead(e)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		i := h.incident
		if _, known := all[i]; !known {
			all[i] = view{} // no member is known
		}
		tickets[i] = append(tickets[i], Notified{
			Incident: i.String(), Sink: h.sink, Key: ticketKey(h.sink, i, h.uid), Service: names[h.uid], ID: h.ID, uid: h.uid,
			Status: h.Status, Number: h.Number, At: h.Notified, Error: h.Error, Missed: h.Missed, Refused: !h.RefusedAt.IsZero(),
		})
	}
	found := make([]Incident, 0, len(all))
	for i, v := range all {
		v.sort()
		f := v.facts("", i, "", Head{}, None)
		one := Incident{
			ID: f.Incident, Scope: i.scope, Class: i.class, Cause: f.Cause, Open: f.Failing > 0, Since: f.Since, Failing: f.Failing,
			Members: append([]Member{}, slices.Concat(v.open, v.over)...), Tickets: append([]Notified{}, tickets[i]...), Finding: f.Lead.Finding,
		}
		for _, m := range one.Members {
			one.at = later(one.at, m.At)
		}
		slices.SortFunc(one.Tickets, func(a, b Notified) int { return strings.Compare(a.Sink+" "+a.Service, b.Sink+" "+b.Service) })
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Incident) int { return b.at.Compare(a.at) })
	return found, errors.Join(bad...)
}

// OpenFailures returns the failures of a cluster that people were notified of: class, Service, result, since when, and when that was found.
func OpenFailures(ctx context.Context, s *stream.Stream, cluster string) ([]event.Record, error) {
	var all []event.Record
	err := s.EachEntry(ctx, memberRoot+">", func(e stream.Entry) {
		if i, m, err := readMember(e.Key, e.Value, e.Revision); err == nil && !m.Over && m.Cluster == cluster {
			all = append(all, event.Record{
				Origin: event.Origin{Cluster: cluster, Class: i.class, Service: m.Service}, Run: event.Run{Result: m.Result, First: m.Since, At: m.At},
			})
		}
	})
	return all, err
}

// Of returns the tickets of a Service and class, by sink; an unreadable one is an error.
func Of(ctx context.Context, s *stream.Stream, class, serviceUID string) ([]Notified, error) {
	incidents, err := list(ctx, s, memberRoot+"*."+class+".*."+serviceUID, headRoot+"*.*."+class+".>")
	if err != nil {
		return nil, err
	}
	var found []Notified
	for _, i := range incidents {
		for _, t := range i.Tickets {
			if len(i.Members) > 0 && (t.uid == "" || t.uid == serviceUID) {
				found = append(found, t)
			}
		}
	}
	slices.SortFunc(found, func(a, b Notified) int { return strings.Compare(a.Sink+a.Incident, b.Sink+b.Incident) })
	return found, nil
}

// Close ends an incident by hand: its Services count as over until the next record, even an unchanged one, and followers notify the
// sinks. It returns how many were closed; ErrNotFound of package stream if the incident is unknown.
func Close(ctx context.Context, s *stream.Stream, id, by string, now time.Time) (closed int, err error) {
	i, ok := parseIncident(id)
	if !ok {
		err = fmt.Errorf("it has not three parts with dots between: %w", stream.ErrNotFound)
	}
	for conflict := true; err == nil && conflict; {
		conflict, err = i.close(ctx, s, by, now, &closed)
	}
	if err == nil { // The mark wakes the followers. It outlives a sink that is down for a day.
		err = s.PutFor(ctx, closeRoot+i.String(), []byte(by), 24*time.Hour)
	}
	if err != nil {
		err = fmt.Errorf("close incident %s: %w", id, err)
	}
	return closed, err
}

// close reports a conflict if a record came in between.
func (i incident) close(ctx context.Context, s *stream.Stream, by string, now time.Time, closed *int) (conflict bool, err error) {
	entries, err := s.Entries(ctx, i.all())
	if err != nil {
		return false, err
	}
	heads, err := s.Entries(ctx, headRoot+"*."+i.scope+"."+i.class+".>")
	if err != nil {
		return false, err
	}
	known := func(e stream.Entry) bool { h, ok := parseHead(e.Key); return ok && h.incident == i }
	if len(entries) == 0 && !slices.ContainsFunc(heads, known) {
		return false, stream.ErrNotFound
	}
	for _, e := range entries {
		_, m, err := readMember(e.Key, e.Value, e.Revision)
		if err != nil {
			return false, err
		}
		if m.Over {
			continue
		}
		m.Over, m.Result, m.At, m.By = true, ByHand, now, say.Literal(by)
		_, err = m.write(ctx, s, e.Key, e.Revision)
		if errors.Is(err, stream.ErrConflict) {
			conflict = true
			continue
		}
		if err != nil {
			return false, err
		}
		*closed++
		// A run that only counts leaves no record: restart its count.
		if err := (document.Store{Stream: s, Cluster: m.Cluster}).Recount(ctx, m.Service.UID, i.class); err != nil {
			return false, err
		}
	}
	return conflict, nil
}
