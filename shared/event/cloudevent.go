package event

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Limits, in bytes.
const (
	// MaxMessage is the longest message of a failure. Escaped in JSON, at most six times as long, it fits into MaxPayload.
	MaxMessage = 8 << 10
	// MaxPayload is the longest data of a failure: what CloudEvents asks every intermediary to forward.
	MaxPayload = 64 << 10
	// MaxRecord is the longest data of a record: the default limit of a NATS message, less its headers.
	MaxRecord = 960 << 10
)

const gap = " […] "

// headPart favors the beginning, which has the error; lists of pods put the decisive words at the end.
const headPart = MaxMessage / 4 * 3

// Cut removes the middle of a text longer than MaxMessage and makes it valid UTF-8; cutting again changes nothing. Redact first, as
// Abridge does: a secret that is cut in two is not recognised.
func Cut(s string) string {
	if len(s) > MaxMessage {
		head, tail := cutPoints(s)
		s = s[:head] + gap + s[tail:]
	}
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "?")
}

func cutPoints(s string) (head, tail int) {
	head, tail = headPart, len(s)-(MaxMessage-headPart-len(gap))
	for head > headPart-utf8.UTFMax && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return head, tail
}

// NewFailed returns the CloudEvent of a failure, with its message redacted and cut. It is an ErrInvalid if the failure lacks its
// identity or a part of a subject, and an ErrTooLarge if the data is longer than MaxPayload.
func NewFailed(f Failure) (event.Event, error) {
	f.Message = Abridge(f.Message)
	f.Count = max(f.Count, 1)
	if err := f.valid(); err != nil {
		return event.Event{}, err
	}
	e, err := newEvent(TypeFailed, f.ID(), f.Cluster, f.Service, f.Last, f, MaxPayload)
	if err != nil {
		return event.Event{}, err
	}
	e.SetExtension(ExtClass, f.Class)
	if reason := visible(f.Reason); reason != "" {
		e.SetExtension(ExtReason, reason)
	}
	if !f.Recorded.IsZero() {
		e.SetExtension(ExtRecorded, f.Recorded.UTC().Format(time.RFC3339Nano))
	}
	setTrace(&e, f.Trace, TraceOf(f.Cluster, f.ID()))
	return e, check(e)
}

// ID returns the ID of the failure's CloudEvent.
func (f Failure) ID() string {
	return f.Event.UID + "." + strconv.Itoa(f.Count) + "." + f.Event.ResourceVersion
}

func (f Failure) valid() error {
	if f.Event.UID == "" || f.Event.ResourceVersion == "" {
		return invalid("the Event %q has no UID or no resourceVersion", clip(f.Event.Name))
	}
	if !slices.Contains(kinds, f.Service.Kind) {
		return invalid("the failure is one of a %s, which is not watched", clip(f.Service.Kind))
	}
	return valid(f.Cluster, f.Class, f.Service)
}

func valid(cluster, class string, s Service) error {
	if err := cmp.Or(ValidCluster(cluster), ValidClass(class), ValidUID(s.UID)); err != nil {
		return err
	}
	if s.Namespace == "" && s.Kind == "" || s.Name == "" {
		return invalid("the Service with UID %s has no namespace or no name", s.UID)
	}
	return nil
}

// Forms of texts that people paste into commands: a shell takes each as a single word.
var (
	caseForm   = regex.New(`^[0-9A-Fa-f]{8}-[0-9]{8}T[0-9]{6}$`)
	digestForm = regex.New(`^[0-9a-f]{32}$`)
	labelForm  = regex.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) // Kubernetes names of namespaces and Services
	kindForm   = regex.New(`^[a-z]([a-z -]{0,30}[a-z])?$`)
	idForm     = regex.New(`^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,251}[A-Za-z0-9])?$`) // objects of the doctor's findings
)

func (s Service) formed() error {
	switch {
	case s.Kind == "" && !labelForm().MatchString(s.Namespace):
		return invalid("Kubernetes takes no namespace %q", clip(s.Namespace))
	case s.Kind == "" && !labelForm().MatchString(s.Name):
		return invalid("Kubernetes takes no Service of the name %q", clip(s.Name))
	case s.Kind != "" && (!kindForm().MatchString(s.Kind) || !idForm().MatchString(s.Name) || s.Namespace != ""):
		return invalid("the doctor looks at nothing like %q", clip(s.String()))
	}
	return nil
}

func (r Record) formed() error {
	switch {
	case !caseForm().MatchString(r.Case):
		return invalid("case %q is not 8 digits of a UID, a hyphen and a time", clip(r.Case))
	case r.Digest != "" && !digestForm().MatchString(r.Digest):
		return invalid("digest %q is not 32 hex digits", clip(r.Digest))
	}
	return r.Service.formed()
}

// ReadFailed returns the failure in a CloudEvent. Unknown fields are accepted; fields that repeat attributes may be missing. It is an
// ErrInvalid if the event isn't a failure, lacks its identity or contradicts itself.
func ReadFailed(e event.Event) (Failure, error) {
	var f Failure
	if err := read(e, &f, MaxPayload, TypeFailed); err != nil {
		return Failure{}, err
	}
	fill := func(field *string, name string) {
		*field = cmp.Or(*field, extension(e, name))
	}
	fill(&f.Cluster, ExtCluster)
	fill(&f.Class, ExtClass)
	fill(&f.Reason, ExtReason)
	fill(&f.Service.UID, ExtServiceUID)
	if f.Last.IsZero() {
		f.Last = e.Time()
	}
	f.Count = max(f.Count, 1)
	if err := cmp.Or(f.valid(), f.Service.formed()); err != nil {
		return Failure{}, err
	}
	if err := agree(e, f.Cluster, f.Class, f.Service.UID); err != nil {
		return Failure{}, err
	}
	f.Trace, f.Recorded = cmp.Or(TraceParent(e), TraceOf(f.Cluster, e.ID())), recorded(e)
	return f, nil
}

func clean(text string) string { return strings.ToValidUTF8(Redact(text), "?") }

// Clean returns the record with all texts redacted. Steps are unchanged: an undo needs them.
func (r Record) Clean() Record {
	r.Message = Abridge(r.Message)
	r.Cause, r.Error = clean(r.Cause), clean(r.Error)
	r.sentences(func(t *say.Text) { *t = t.Map(clean) })
	for i := range r.Changes {
		r.Changes[i].What = clean(r.Changes[i].What)
	}
	r.redactCalls()
	r.redactReads()
	return r
}

// NewRecord cleans a record and returns its CloudEvent, whose type says whether the run has ended. It is an ErrInvalid if the record
// lacks its identity, and an ErrTooLarge if its data is longer than MaxRecord.
func NewRecord(r Record) (event.Event, error) {
	r = r.Clean()
	if r.Attempts == nil {
		r.Attempts = []time.Time{}
	}
	if err := r.valid(); err != nil {
		return event.Event{}, err
	}
	kind := TypeIntent
	if r.Phase == Settled {
		kind = TypeSettled
	}
	e, err := newEvent(kind, r.id(), r.Cluster, r.Service, r.At, r, MaxRecord)
	if err != nil {
		return event.Event{}, err
	}
	e.SetExtension(ExtClass, r.Class)
	setTrace(&e, r.Trace, TraceOf(r.Cluster, r.Event))
	return e, check(e)
}

func (r Record) id() string {
	return strings.Join([]string{
		r.Case, r.Class, string(r.Phase), strconv.Itoa(r.Attempt), strconv.Itoa(r.Next),
		strconv.FormatInt(r.At.UnixNano(), 10),
	}, ".")
}

func (r Record) valid() error {
	if r.Case == "" || r.Phase == "" || r.At.IsZero() {
		return invalid("the record of %s has no case, no phase or no time", clip(r.Service.String()))
	}
	return valid(r.Cluster, r.Class, r.Service)
}

// ReadRecord returns the record in a CloudEvent, with the tolerance and errors of ReadFailed.
func ReadRecord(e event.Event) (Record, error) {
	var r Record
	if err := read(e, &r, MaxRecord, TypeSettled, TypeIntent); err != nil {
		return Record{}, err
	}
	if len(r.Attempts) == 0 {
		r.Attempts = nil
	}
	if err := cmp.Or(r.valid(), r.formed()); err != nil {
		return Record{}, err
	}
	if err := agree(e, r.Cluster, r.Class, r.Service.UID); err != nil {
		return Record{}, err
	}
	return r, nil
}

// MessageID returns an event's JetStream message ID; for a failure "<event uid>.<resourceVersion>": a version is published once, whatever its count.
func MessageID(e event.Event) string {
	id := e.ID()
	if e.Type() != TypeFailed {
		return id
	}
	first, last := strings.IndexByte(id, '.'), strings.LastIndexByte(id, '.')
	if first == last {
		return id
	}
	return id[:first] + id[last:]
}

var schemas = map[string]string{
	TypeFailed: "urn:lbremedy:schema:failed.v1.json", TypeIntent: "urn:lbremedy:schema:record.v1.json", TypeSettled: "urn:lbremedy:schema:record.v1.json",
}

func newEvent(kind, id, cluster string, s Service, at time.Time, data any, limit int) (event.Event, error) {
	payload, err := json.Marshal(data)
	if err != nil {
		return event.Event{}, invalid("encode the data of %s: %v", kind, err)
	}
	if len(payload) > limit {
		return event.Event{}, tooLarge(len(payload), limit)
	}
	e := event.New()
	e.SetID(id)
	e.SetType(kind)
	e.SetSource("/clusters/" + cluster)
	e.SetSubject(s.subject())
	if !at.IsZero() {
		e.SetTime(at)
	}
	e.SetDataContentType(event.ApplicationJSON)
	e.SetDataSchema(schemas[kind])
	e.DataEncoded = payload
	e.SetExtension(ExtCluster, cluster)
	e.SetExtension(ExtServiceUID, s.UID)
	e.SetExtension(ExtPartition, s.UID)
	return e, nil
}

func read(e event.Event, data any, limit int, types ...string) error {
	if err := check(e); err != nil {
		return err
	}
	if !slices.Contains(types, e.Type()) {
		return invalid("event %q has the type %q, not %s", clip(e.ID()), clip(e.Type()), strings.Join(types, " or "))
	}
	if len(e.Data()) > limit {
		return tooLarge(len(e.Data()), limit)
	}
	if media := e.DataMediaType(); media != event.ApplicationJSON && media != "" {
		return invalid("event %q has data of type %q, not %s", clip(e.ID()), clip(media), event.ApplicationJSON)
	}
	if err := json.Unmarshal(e.Data(), data); err != nil {
		return invalid("read the data of event %q: %v", clip(e.ID()), err)
	}
	return nil
}

// agree reports, as an ErrInvalid, contradictions: routing uses the attributes, remedies use the data.
func agree(e event.Event, cluster, class, uid string) error {
	for _, pair := range []struct{ name, want string }{
		{ExtCluster, cluster}, {ExtClass, class}, {ExtServiceUID, uid},
	} {
		if got := extension(e, pair.name); got != "" && got != pair.want {
			return invalid("event %q says %s %q in its attributes and %q in its data", clip(e.ID()), pair.name, clip(got), clip(pair.want))
		}
	}
	return nil
}

func check(e event.Event) error {
	err := e.Validate()
	if err == nil {
		return nil
	}
	var fields event.ValidationError
	if !errors.As(err, &fields) {
		return invalid("%v", err)
	}
	var faults []string
	for name, fault := range fields {
		faults = append(faults, name+": "+clip(fault.Error()))
	}
	slices.Sort(faults)
	return invalid("not a CloudEvent: %s", strings.Join(faults, "; "))
}

func extension(e event.Event, name string) string {
	if e.Context == nil {
		return ""
	}
	return attribute(e.Extensions()[name])
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: %w: its data has %d bytes, the limit is %d", ErrInvalid, ErrTooLarge, size, limit)
}

// visible removes control characters, which attributes can't hold.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
}
