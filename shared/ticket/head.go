package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Head is what one sink has been notified of an incident.
type Head struct {
	ID       string    `json:"id,omitempty"` // that the sink gave the ticket
	Status   Status    `json:"status"`       // as the sink knows it
	Revision uint64    `json:"revision"`     // of the bucket: the sink was notified of all members up to it
	ClosedAt uint64    `json:"closedAt"`     // the revision when it was last closed
	Print    string    `json:"print"`        // fingerprint of what was sent last
	Number   int       `json:"number"`       // notifications that got through
	Updates  int       `json:"updates"`      // of these, updates since it was opened
	Opened   time.Time `json:"opened,omitzero"`
	Notified time.Time `json:"told,omitzero"` // last time

	Tried     bool      `json:"tried,omitempty"`    // an Open was begun
	Lease     time.Time `json:"lease,omitzero"`     // until then somebody notifies
	Failures  int       `json:"failures,omitempty"` // tries in a row that failed
	Next      time.Time `json:"next,omitzero"`      // no try before
	Error     string    `json:"error,omitempty"`    // of the last try, if it failed
	Missed    string    `json:"missed,omitempty"`   // whom the last notification did not reach, and why
	Refused   bool      `json:"refused,omitempty"`  // the sink did not take it, and is asked again each hour
	RefusedAt time.Time `json:"refusedAt,omitzero"` //

	// Of a sink at which people answer.
	Shown      Shown      `json:"shown,omitzero"`
	MutedUntil time.Time  `json:"mutedUntil,omitzero"`
	Said       []say.Text `json:"said,omitempty"`    // what became of answers
	Refusal    say.Text   `json:"refusal,omitempty"` // why the last click did nothing
	Clicks     []string   `json:"clicks,omitempty"`  // that were done

	entry stream.Entry
}

// answered notes a line on a click: on what became of it, or why it did nothing.
func (h *Head) answered(line say.Text, refused bool) {
	h.Refusal = nil
	if refused {
		h.Refusal = line
		return
	}
	words := func(line say.Text) string { return line.String()[len(clock):] }
	if !slices.ContainsFunc(h.Said, func(said say.Text) bool { return words(said) == words(line) }) {
		h.Said = append(slices.Clone(h.Said), line)
		h.Said = h.Said[max(0, len(h.Said)-mostSaid):]
	}
}

// lines returns what the card says of clicks in a language.
func (h Head) lines(l *say.Language) []string {
	var all []string
	for _, line := range append(slices.Clone(h.Said), h.Refusal) {
		if len(line) > 0 {
			all = append(all, line.In(l))
		}
	}
	return all
}

// lease is how long one notification may take. Who is killed while he notifies stands in the
// way for as long.
const lease = time.Minute

// headKey returns the key of what a sink knows; uid only for a sink that has a ticket for each
// Service on its own.
func headKey(sink string, i incident, uid string) string {
	key := headRoot + sink + "." + i.String()
	if uid != "" {
		key += "." + uid
	}
	return key
}

// parseHead returns what a head's key is about.
func parseHead(key string) (sink string, i incident, uid string, ok bool) {
	p := strings.Split(key, ".")
	if len(p) != 5 && len(p) != 6 || p[0]+"." != headRoot {
		return "", incident{}, "", false
	}
	if len(p) == 6 {
		uid = p[5]
	}
	return p[1], incident{p[2], p[3], p[4]}, uid, true
}

// errUnreadable says that a head is none.
var errUnreadable = errors.New("it is no head of a ticket")

// readHead returns what a sink knows; the zero Head if nothing. With errUnreadable its
// entry is good to be written over.
func readHead(ctx context.Context, s *stream.Stream, key string) (Head, error) {
	e, err := s.Entry(ctx, key)
	if errors.Is(err, stream.ErrNotFound) {
		return Head{entry: e}, nil
	}
	if err != nil {
		return Head{}, fmt.Errorf("read what a sink was sent: %w", err)
	}
	var h Head
	if err := json.Unmarshal(e.Value, &h); err != nil {
		return Head{entry: e}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	h.entry = e
	return h, nil
}

// write stores the head if nobody has since it was read.
func (h *Head) write(ctx context.Context, s *stream.Stream) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode what a sink was sent: %w", err)
	}
	ttl := time.Duration(0)
	if h.Status != Open && h.Lease.IsZero() {
		ttl = remembered
	}
	revision, err := s.Swap(ctx, h.entry.Key, data, h.entry.Revision, ttl)
	if err != nil {
		return fmt.Errorf("note what a sink was sent: %w", err)
	}
	h.entry.Revision = revision
	return nil
}

// remembered is how long what is over is known: a failure that comes back within it
// opens its ticket again, and makes a new one afterwards.
const remembered = 7 * 24 * time.Hour
