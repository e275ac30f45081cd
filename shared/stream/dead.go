package stream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// DeadSubjects is the filter for all of DEAD.
const DeadSubjects = deadPrefix + ">"

// Headers that a message in DEAD has beside its own.
const (
	HeaderReason = "Lbremedy-Reason" // why it can't be handled, without secrets
	HeaderOrigin = "Lbremedy-Origin" // where it comes from: its subject, or the name of the finder
	HeaderCut    = "Lbremedy-Cut"    // size of the data in bytes before it was cut; absent: complete
)

const (
	maxReason     = 1 << 10
	maxDeadData   = 512 << 10 // half of the server's default limit
	maxDeadHeader = 16 << 10

	maxDeadHeaders = mostHeaders - 10 // minus those written here and by the server
)

// Dead stores a message that can't be handled in DEAD with the reason and its origin: the message's subject, or the name of the
// finder. It always fits: long reasons and data are cut, and too many headers are dropped.
//
// Acknowledge the source only after Dead returns nil: then the message is on disk. The same message again makes no second dead letter
// while the first one is the newest of its origin.
func (s *Stream) Dead(ctx context.Context, reason, origin string, header map[string][]string, data []byte) error {
	m := outgoing(deadSubject(origin), header, data)
	length, count := 0, 0
	for _, k := range slices.Sorted(maps.Keys(m.Header)) {
		length += len(k) + len(strings.Join(m.Header[k], ""))
		count += len(m.Header[k])
		if length > maxDeadHeader || count > maxDeadHeaders {
			delete(m.Header, k)
		}
	}
	id := deadID(origin, header, data)
	m.Header.Set(jetstream.MsgIDHeader, id)
	m.Header.Set(HeaderReason, event.Clip(event.Redact(reason), maxReason))
	m.Header.Set(HeaderOrigin, event.Clip(origin, maxReason))
	if len(data) > maxDeadData {
		m.Header.Set(HeaderCut, strconv.Itoa(len(data)))
		m.Data = data[:maxDeadData]
	}
	// The server forgets IDs after two minutes. If DEAD can't be read, the message is stored: better twice than never.
	if last, err := s.Last(ctx, Dead, m.Subject); err == nil && last.ID() == id {
		return nil
	}
	_, err := s.once(ctx, Dead, m, nil)
	return err
}

// deadID is equal only for deliveries of one message. A publisher may give its own ID to many, and the server would drop the second.
func deadID(origin string, header map[string][]string, data []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", origin, data) // quoting makes the text unique
	for _, k := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(h, " %q %q", k, header[k])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// untaken is what a token of a subject can't contain.
var untaken = regex.New(`[^0-9A-Za-z_-]`)

func deadSubject(origin string) string {
	tokens := strings.Split(strings.TrimPrefix(origin[:min(len(origin), 200)], "lbremedy."), ".")
	for i, t := range tokens {
		tokens[i] = cmp.Or(untaken().ReplaceAllString(t, "_"), "_")
	}
	return deadPrefix + strings.Join(tokens, ".")
}

// Origin returns where a message of DEAD comes from, why it is there, and its own headers.
func (m Message) Origin() (origin, reason string, header map[string][]string) {
	h := nats.Header(m.Header)
	header = maps.Clone(m.Header)
	for _, k := range []string{HeaderOrigin, HeaderReason, HeaderCut, jetstream.MsgIDHeader} {
		delete(header, k)
	}
	return h.Get(HeaderOrigin), h.Get(HeaderReason), header
}

// Remove removes a message from a stream and reports whether it was there.
func (s *Stream) Remove(ctx context.Context, stream string, seq uint64) (bool, error) {
	doing := fmt.Sprintf("remove message %d of %s", seq, stream)
	err := s.call(ctx, doing, "", func(in context.Context) error {
		handle, err := s.js.Stream(in, stream)
		if err != nil {
			return err
		}
		return handle.DeleteMsg(in, seq)
	})
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) || errors.Is(err, ErrNotFound) {
		// The server answers so for a missing message and for a disk error.
		switch _, err := s.one(ctx, stream, doing, query{Seq: seq}); {
		case errors.Is(err, ErrNotFound):
			return false, nil
		case err != nil:
			return false, err
		}
		return false, fmt.Errorf("%s: the server refuses", doing)
	}
	return err == nil, err
}
