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

// A stored message comes back with the headers that its writer chose, and behind those with the server's own, which say
// where it stands. A writer can store headers of the same names, a status with which the server ends an answer, and an
// empty line behind which the client reads no more headers. So the last value of a name is the server's; an answer with
// a sequence is a message, whatever else it says; and one of which the client has seen only a part says nothing.

// Headers that the server puts behind those of a message, and of one of several.
var (
	addedToOne  = []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer}
	addedToEach = append(slices.Clone(addedToOne), "Nats-Num-Pending", "Nats-Last-Sequence")
)

// Headers of a stored message that say how it was to be stored, and nothing about it.
var orders = []string{jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader}

// settled returns the headers that belong to a message: without its orders, and without the last value of those that
// the server has added.
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

// lastOf returns the last value of a header; empty if it has none.
func lastOf(h nats.Header, name string) string {
	if vs := h[name]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return ""
}

// numberIn returns a number that the server says in an answer; 0 if it says none.
func numberIn(reply *nats.Msg, name string) uint64 {
	n, _ := strconv.ParseUint(lastOf(reply.Header, name), 10, 64) // absent: none
	return n
}

// read makes a Message of an answer to a query. End: it was the last, and is none itself.
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

// serverSays returns the error of what the server says; nil: there are no more messages.
func serverSays(status, description string, several bool) error {
	switch status {
	case "204", "404":
		if description == "Message Not Found" && several {
			return errors.New("the server can't read all that it holds") // or what is missing would seem not to be there
		}
		return nil
	case "503":
		return nats.ErrNoResponders
	}
	return fmt.Errorf("the server answers %s %s", status, description)
}

// subject returns the one subject that a query asks for; empty if there may be several.
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

// The server adds more than 100 bytes to a message: the names of four headers, a subject, a number and a
// time. The client keeps of a header its name and its value, and lets go two bytes at the most that it need not have,
// a space and a carriage return; and a status in the first line is 23 bytes shorter there than as headers. So of a message
// with no more headers than these, what the client has kept is long enough to be all of it, or is not.
const mostHeaders = 38

// whole reports whether the client has seen all headers of an answer that brings a message.
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

// requestAll sends a request and returns where up to so many answers to it come, as they are: the client takes some
// stored messages for the server's word.
func (s *Stream) requestAll(subject string, body []byte, most int) (answers <-chan *nats.Msg, done func(), err error) {
	inbox, to := s.nc.NewInbox(), make(chan *nats.Msg, most)
	sub, err := s.nc.ChanSubscribe(inbox, to)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = sub.Unsubscribe() } // fails only without a connection, and then there is nothing to end
	if err := s.nc.PublishRequest(subject, inbox, body); err != nil {
		done()
		return nil, nil, err
	}
	return to, done, nil
}
