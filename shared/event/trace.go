package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// TraceParent returns the W3C trace context of an event; empty if absent or malformed.
func TraceParent(e event.Event) string {
	if parent := extension(e, ExtTrace); validTrace(parent) {
		return parent
	}
	return ""
}

// TraceOf returns the W3C trace context of a failure by its cluster and the ID of its CloudEvent. All occurrences of one Kubernetes
// Event belong to one trace, each with its own span: the controller increments the count of the same Event.
func TraceOf(cluster, id string) string {
	uid, _, _ := strings.Cut(id, ".")
	source := "/clusters/" + cluster + " "
	trace, span := sha256.Sum256([]byte(source+uid)), sha256.Sum256([]byte(source+id))
	return "00-" + hex.EncodeToString(trace[:16]) + "-" + hex.EncodeToString(span[:8]) + "-01"
}

// TraceID returns the trace in a W3C trace context, as 32 hex digits; empty if malformed.
func TraceID(parent string) string {
	if !validTrace(parent) {
		return ""
	}
	return parent[3:35]
}

func setTrace(e *event.Event, parent, otherwise string) {
	if !validTrace(parent) {
		parent = otherwise
	}
	e.SetExtension(ExtTrace, parent)
}

var traceForm = regex.New(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

func validTrace(s string) bool {
	m := traceForm().FindStringSubmatch(s)
	return m != nil && m[1] != "ff" && strings.Trim(m[2], "0") != "" && strings.Trim(m[3], "0") != ""
}

func recorded(e event.Event) time.Time {
	at, err := time.Parse(time.RFC3339Nano, extension(e, ExtRecorded))
	if err != nil {
		return time.Time{}
	}
	return at
}
