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

// A Head is what one sink has been notified of, and up to which revision of the bucket, under
// ticket.<sink>.<scope>.<class>.<hash of the cause>. For a sink with a ticket for each Service, such as Events, the UID follows. It is
// written by compare-and-set, with a lease, before each notification and after it, which prevents duplicate tickets.
type Head struct {
	ID       string    `json:"id,omitempty"` // assigned by the sink
	Status   Status    `json:"status"`       // that the sink was last sent
	Revision uint64    `json:"revision"`     // of the bucket: the sink was notified of all members up to it
	ClosedAt uint64    `json:"closedAt"`     // revision at the last closing
	Print    string    `json:"print"`        // fingerprint of the last notification
	Number   int       `json:"number"`       // successful notifications
	Updates  int       `json:"updates"`      // updates among these since it was opened
	Opened   time.Time `json:"opened,omitzero"`
	Notified time.Time `json:"told,omitzero"` // time of the last one

	Tried   bool      `json:"tried,omitempty"`  // the opening of a ticket was begun
	Lease   time.Time `json:"lease,omitzero"`   // until then another process notifies
	Checked time.Time `json:"checked,omitzero"` // when the failures were last found not to need a notification yet
	Missed  string    `json:"missed,omitempty"` // recipients that the last notification did not reach, and why
	trouble

	Shown      Shown      `json:"shown,omitzero"`
	MutedUntil time.Time  `json:"mutedUntil,omitzero"`
	Said       []say.Text `json:"said,omitempty"`    // results of answers
	Refusal    say.Text   `json:"refusal,omitempty"` // why the last click had no effect
	Clicks     []string   `json:"clicks,omitempty"`  // processed ones

	sink     string // these three come from its key
	incident incident
	uid      string
	entry    stream.Entry
}

// A trouble describes failed notifications. The next successful one clears it.
type trouble struct {
	Failures  int       `json:"failures,omitempty"` // consecutive failures
	Next      time.Time `json:"next,omitzero"`      // no try before
	Error     string    `json:"error,omitempty"`    // of the last try
	RefusedAt time.Time `json:"refusedAt,omitzero"` // when the sink refused it, which is retried each hour
}

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

func (h Head) lines(l *say.Language) []string {
	var all []string
	for _, line := range append(slices.Clone(h.Said), h.Refusal) {
		if len(line) > 0 {
			all = append(all, line.In(l))
		}
	}
	return all
}

// If the sender crashes, nobody retries until the lease expires.
const lease = time.Minute

// headKey takes uid only for a sink with a ticket for each Service.
func headKey(sink string, i incident, uid string) string {
	key := headRoot + sink + "." + i.String()
	if uid != "" {
		key += "." + uid
	}
	return key
}

func parseHead(key string) (h Head, ok bool) {
	p := append(strings.Split(key, "."), "")
	if len(p) != 6 && len(p) != 7 || p[0]+"." != headRoot {
		return Head{}, false
	}
	return Head{sink: p[1], incident: incident{p[2], p[3], p[4]}, uid: p[5]}, true
}

func decodeHead(e stream.Entry) (Head, error) {
	h, ok := parseHead(e.Key)
	if h.entry = e; !ok {
		return h, fmt.Errorf("read what a sink was sent in %s: the key has not five parts or six", e.Key)
	}
	if err := json.Unmarshal(e.Value, &h); err != nil {
		return h, fmt.Errorf("read what a sink was sent in %s: %w", e.Key, err)
	}
	return h, nil
}

var errUnreadable = errors.New("it is not the head of a ticket")

// readHead returns the zero Head if the sink has none. After errUnreadable the entry may be overwritten.
func readHead(ctx context.Context, s *stream.Stream, key string) (Head, error) {
	e, err := s.Entry(ctx, key)
	if errors.Is(err, stream.ErrNotFound) {
		return Head{entry: e}, nil
	}
	if err != nil {
		return Head{}, fmt.Errorf("read what a sink was sent: %w", err)
	}
	h, err := decodeHead(e)
	if err != nil {
		return Head{entry: e}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return h, nil
}

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

// remembered is how long a failure that comes back reopens its ticket.
const remembered = 7 * 24 * time.Hour
