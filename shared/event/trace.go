package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
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

func validTrace(s string) bool {
	parts := strings.Split(s, "-")
	if len(parts) != 4 {
		return false
	}
	for i, size := range []int{2, 32, 16, 2} {
		bad := func(r rune) bool { return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f') }
		if len(parts[i]) != size || strings.ContainsFunc(parts[i], bad) {
			return false
		}
	}
	return parts[0] != "ff" && strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

func recorded(e event.Event) time.Time {
	at, err := time.Parse(time.RFC3339Nano, extension(e, ExtRecorded))
	if err != nil {
		return time.Time{}
	}
	return at
}
