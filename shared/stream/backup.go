package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Backups is the order in which the streams are copied. FAILED comes before the
// journal: what the copy of FAILED has as acknowledged must stand in that of CASES,
// or a failure would never be answered.
var Backups = []string{Failed, Cases, Dead, bucketStream}

const (
	chunkBytes = 128 << 10        // of a copy, in one message
	chunkWait  = 30 * time.Second // for the next one: the server first checks all it has
)

// A Head is what belongs to the copy of a stream beside its data: settings and
// state, as the server says them and wants them back.
type Head struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// Stream returns the name of the stream that was copied; empty if the head is broken.
func (h Head) Stream() string {
	var c struct{ Name string }
	if json.Unmarshal(h.Config, &c) != nil {
		return ""
	}
	return c.Name
}

// Messages returns how many messages the copy holds; 0 if the head is broken.
func (h Head) Messages() uint64 {
	var state struct{ Messages uint64 }
	if json.Unmarshal(h.State, &state) != nil {
		return 0
	}
	return state.Messages
}

// An answer is what the server says to a request about a copy.
type answer struct {
	Head
	DeliverSubject string              `json:"deliver_subject"`
	Error          *jetstream.APIError `json:"error"`
}

// Backup writes a copy of a stream to w, with its consumers, as the server makes it:
// whole, of one moment, its checksums checked before. The format is that of the
// program nats (nats stream backup), which names the head backup.json and the data
// stream.tar.s2.
func (s *Stream) Backup(ctx context.Context, stream string, w io.Writer) (Head, error) {
	doing := "copy stream " + stream
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return Head{}, s.fault(ctx, ctx, doing, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only without a connection, and then there is nothing to end
	body, err := json.Marshal(map[string]any{"deliver_subject": inbox, "chunk_size": chunkBytes, "jsck": true})
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", doing, err)
	}
	said, err := s.ask(ctx, "$JS.API.STREAM.SNAPSHOT."+stream, body)
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", doing, err)
	}
	for {
		m, err := s.next(ctx, sub)
		if err != nil {
			return Head{}, fmt.Errorf("%s: %w", doing, err)
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return Head{}, fmt.Errorf("%s: the server gives up: %s %s", doing, status, m.Header.Get("Description"))
			}
			return said.Head, nil
		}
		if _, err := w.Write(m.Data); err != nil {
			return Head{}, fmt.Errorf("%s: %w", doing, err)
		}
		if m.Reply != "" {
			if err := m.Respond(nil); err != nil {
				return Head{}, s.fault(ctx, ctx, doing, err)
			}
		}
	}
}

// next waits for the next part of a copy.
func (s *Stream) next(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	in, cancel := context.WithTimeout(ctx, chunkWait)
	defer cancel()
	s.touch()
	m, err := sub.NextMsgWithContext(in)
	if err != nil {
		return nil, s.fault(ctx, in, "wait for the next part", err)
	}
	return m, nil
}

// Restore makes a stream of a copy. ErrConflict: there is a stream of that name,
// which stays as it is. With any other error there is none afterwards.
func (s *Stream) Restore(ctx context.Context, h Head, r io.Reader) error {
	doing := "restore stream " + h.Stream()
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	said, err := s.ask(ctx, "$JS.API.STREAM.RESTORE."+h.Stream(), body)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	chunk := make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(r, chunk)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if n > 0 {
			if _, err := s.ask(ctx, said.DeliverSubject, chunk[:n]); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
		}
		if n < len(chunk) {
			break
		}
	}
	if _, err := s.ask(ctx, said.DeliverSubject, nil); err != nil { // nothing more comes
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// ask sends a request about a copy, and returns the answer if it is no error. An
// empty answer is one to a part.
func (s *Stream) ask(ctx context.Context, subject string, body []byte) (answer, error) {
	in, cancel := context.WithTimeout(ctx, chunkWait)
	defer cancel()
	s.touch()
	m, err := s.nc.RequestWithContext(in, subject, body)
	if err != nil {
		return answer{}, s.fault(ctx, in, "ask the server", err)
	}
	var said answer
	if len(m.Data) == 0 {
		return said, nil
	}
	if err := json.Unmarshal(m.Data, &said); err != nil {
		return answer{}, fmt.Errorf("read the server's answer: %w", err)
	}
	switch {
	case said.Error == nil:
		return said, nil
	case said.Error.ErrorCode == jetstream.JSErrCodeStreamNameInUse:
		return answer{}, fmt.Errorf("%w: the server has a stream of this name", ErrConflict)
	case said.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return answer{}, fmt.Errorf("%w: %s", ErrNotFound, said.Error.Description)
	}
	return answer{}, fmt.Errorf("the server refuses: %w", said.Error)
}

// Held returns how many messages a stream holds; ErrNotFound if there is no such stream.
func (s *Stream) Held(ctx context.Context, stream string) (uint64, error) {
	info, err := s.info(ctx, stream)
	if err != nil {
		return 0, err
	}
	return info.State.Msgs, nil
}

// Discard removes a stream and all that it holds; it is no error if there is none.
func (s *Stream) Discard(ctx context.Context, stream string) error {
	doing := "remove stream " + stream
	in, cancel, err := s.within(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	if err := s.js.DeleteStream(in, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.fault(ctx, in, doing, err)
	}
	return nil
}
