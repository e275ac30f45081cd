package stream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The server returns a stored message with its writer's headers, followed by its own, which say where the message is stored. A writer
// can store headers of the same names, a status that ends an answer, and an empty line, after which the client reads no more headers.
// So the last value of a name is the server's; an answer with a sequence is a message, whatever else it says; and nothing is read from
// a message whose headers the client has seen only in part.

// The server adds these to one message, and to each of several.
var (
	addedToOne  = []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer}
	addedToEach = append(slices.Clone(addedToOne), "Nats-Num-Pending", "Nats-Last-Sequence")
)

// orders only say how a message was to be stored.
var orders = []string{jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader}

// settled returns a message's own headers: without orders and the last value of each in added.
func settled(h nats.Header, added ...string) map[string][]string {
	own := maps.Clone(h)
	for _, k := range orders {
		delete(own, k)
	}
	for _, k := range added {
		if n := len(own[k]); n > 1 {
			own[k] = own[k][:n-1]
		} else {
			delete(own, k)
		}
	}
	return own
}

func lastOf(h nats.Header, name string) string {
	if vs := h[name]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return ""
}

func numberIn(reply *nats.Msg, name string) uint64 {
	n, _ := strconv.ParseUint(lastOf(reply.Header, name), 10, 64) // 0 if absent
	return n
}

// read converts an answer to a Message. end means that it was the last one and brings no message.
func read(reply *nats.Msg, ask query) (m Message, end bool, err error) {
	h := reply.Header
	if says := saidBy(reply); says != "" {
		return Message{}, true, serverSays(says, lastOf(h, "Description"), len(ask.Lasts) > 0)
	}
	m.Subject = ask.subject()
	if !whole(reply) || len(h[jetstream.SequenceHeader]) == 0 {
		return m, false, nil
	}
	m.Subject = lastOf(h, jetstream.SubjectHeader)
	if m.Sequence, err = strconv.ParseUint(lastOf(h, jetstream.SequenceHeader), 10, 64); err != nil {
		return Message{}, false, fmt.Errorf("read the sequence of a stored message: %w", err)
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, lastOf(h, jetstream.TimeStampHeaer)); err != nil {
		return Message{}, false, fmt.Errorf("read the time of a stored message: %w", err)
	}
	added := addedToOne
	if ask.Batch > 0 || len(ask.Lasts) > 0 {
		added = addedToEach
	}
	m.Header, m.Data = settled(h, added...), reply.Data
	return m, false, nil
}

// serverSays returns the error of a server's status; nil means that no more messages follow.
func serverSays(status, description string, several bool) error {
	switch status {
	case "204", "404":
		if description == "Message Not Found" && several {
			return errors.New("the server can't read all that it holds") // otherwise the missing message would seem absent
		}
		return nil
	case "503":
		return nats.ErrNoResponders
	}
	return fmt.Errorf("the server answers %s %s", status, description)
}

// subject returns the only subject of a query; empty if there may be several.
func (q query) subject() string {
	only := q.Last + q.Next
	if len(q.Lasts) == 1 {
		only = q.Lasts[0]
	}
	if strings.ContainsAny(only, "*>") {
		return ""
	}
	return only
}

// The server adds more than 100 bytes to a message: four header names, a subject, a number and a time. The client keeps each header's
// name and value and drops at most two optional bytes, a space and a carriage return; a status in the first line is 23 bytes shorter
// there than as headers. So for at most this many headers, the kept length shows whether they are complete.
const mostHeaders = 38

func whole(reply *nats.Msg) bool {
	count, bytes := 0, len("NATS/1.0\r\n\r\n") // as the server and its clients write them
	for k, vs := range reply.Header {
		for _, v := range vs {
			count++
			bytes += len(k) + len(": ") + len(v) + len("\r\n")
		}
	}
	came := reply.Size() - len(reply.Subject) - len(reply.Reply) - len(reply.Data)
	return count <= mostHeaders && came <= bytes
}

// saidBy returns the status of an answer that the server makes itself; empty if the answer brings a message.
func saidBy(reply *nats.Msg) string {
	h := reply.Header
	if len(h[jetstream.SequenceHeader]) > 0 || len(reply.Data) > 0 || !whole(reply) {
		return ""
	}
	return lastOf(h, "Status")
}

// requestAll returns up to most answers unchanged: the client takes some stored messages for the server's own status.
func (s *Stream) requestAll(subject string, body []byte, most int) (answers <-chan *nats.Msg, done func(), err error) {
	inbox, to := s.nc.NewInbox(), make(chan *nats.Msg, most)
	sub, err := s.nc.ChanSubscribe(inbox, to)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = sub.Unsubscribe() } // fails only without a connection, and then nothing is left to end
	if err := s.nc.PublishRequest(subject, inbox, body); err != nil {
		done()
		return nil, nil, err
	}
	return to, done, nil
}
