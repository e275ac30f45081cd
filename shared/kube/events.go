package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/lbremedy/lbremedy/shared/event"
)

// An Event contains what lbremedy reads of a Kubernetes Event. Anyone who may create Events chooses the texts, and any may be empty. A
// message longer than any of the controller's is cut to its beginning and end, as event.Abridge and event.Cut do; other texts are cut
// to their beginning.
type Event struct {
	Namespace, Name, UID string
	ResourceVersion      string
	Reason               string
	Type                 string // Warning or Normal
	Message              string
	Component            string // of the source, or else the reporting component
	Object               Object // what the Event is about
	Count                int    // occurrences so far, at least 1
	First, Last          time.Time
	Created              time.Time // when the API server stored it
	// Writers are the names that its writers gave themselves; Host is their machine.
	Writers []string
	Host    string
}

// An Object names what an Event is about.
type Object struct {
	Kind, Namespace, Name, UID string
}

// A Change is one message of a watch of Events.
type Change struct {
	Kind  string // Added, Modified, Deleted or Bookmark
	Event Event  // a bookmark has only its ResourceVersion
}

// The kinds of a Change, as on the wire.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
)

// A Selection selects Events at the API server.
type Selection struct {
	Namespace string // empty: all
	Fields    string // field selector: "involvedObject.kind=Service"; empty: all
}

func (s Selection) path() (string, error) {
	if s.Namespace == "" {
		return "/api/v1/events", nil
	}
	return place("read Events", eventsPath, s.Namespace)
}

// EventsVersion returns the present resource version of the cluster's Events.
func (c *Cluster) EventsVersion(ctx context.Context) (string, error) {
	return list(ctx, c, "read the version of Events", "/api/v1/events", map[string]string{"limit": "1"},
		func(*struct{}) error { return nil })
}

// ListEvents calls see with each selected Event, page by page and in no order, and returns the resource version to watch from. An
// error of see ends it and is returned as it is. ErrGone means that the list took too long: the caller starts again. ErrIncomplete
// comes with a resource version. Anybody may have written an Event: Evidence reads those that prove something.
func (c *Cluster) ListEvents(ctx context.Context, which Selection, see func(Event) error) (string, error) {
	path, err := which.path()
	if err != nil {
		return "", err
	}
	return list(ctx, c, "list Events", path, which.query(), func(e *wireEvent) error { return see(e.event()) })
}

// Evidence calls see with each selected Event that names the controller of load balancers; others prove nothing. Only Evidence reads
// Events of Services as evidence of failures and successes. An admission policy on the same components (rbac.eventWriters of the
// chart) decides who may use that name. It needs grant.ListEvents.
func (c *Cluster) Evidence(ctx context.Context, which Selection, see func(Event) error) error {
	_, err := c.ListEvents(ctx, which, func(e Event) error {
		if !event.Controller(e.Component) {
			return nil
		}
		return see(e)
	})
	return err
}

// EvidenceOf is Evidence about a Node or the cluster, with their controllers' components and the result of the check before an upgrade, which names none.
func (c *Cluster) EvidenceOf(ctx context.Context, kind string, which Selection, see func(Event) error) error {
	_, err := c.ListEvents(ctx, which, func(e Event) error {
		precheck := kind == event.KindCluster && e.Namespace == "kube-system" && e.Name == event.Precheck
		if !precheck && !event.Writes(e.Component, kind) {
			return nil
		}
		return see(e)
	})
	return err
}

// Successes returns, in no order, when the controller's Events say that it synced a Service. It needs grant.ListEvents.
func (c *Cluster) Successes(ctx context.Context, namespace, serviceUID string) ([]time.Time, error) {
	if !ValidName(namespace) {
		return nil, noName("list Events", "namespace", namespace)
	}
	// The API server filters these: Events of failures cannot make the list long.
	which := Selection{Namespace: namespace, Fields: fields.AndSelectors(
		fields.OneTermEqualSelector("involvedObject.uid", serviceUID), fields.OneTermEqualSelector("reason", event.Ensured)).String()}
	began := time.Now()
	var at []time.Time
	err := c.Evidence(ctx, which, func(e Event) error {
		at = append(at, e.Last)
		return nil
	})
	event.TellRead(ctx, "list Events of "+namespace, began, fmt.Appendf(nil, "%d found", len(at)), err)
	if err != nil {
		return nil, err
	}
	return at, nil
}

// WatchEvents calls see with each change of the selected Events after the resource version, in order. It returns nil when the API
// server ends the watch, as after the given time, and an error by kind when the watch breaks. An error of see ends it and is returned
// as it is. The resource version must be of this server: for a future one it waits in silence.
func (c *Cluster) WatchEvents(ctx context.Context, which Selection, version string, limit time.Duration, see func(Change) error) error {
	path, err := which.path()
	if err != nil {
		return err
	}
	return watch(ctx, c, "watch Events", path, which.query(), version, limit, func(kind string, e *wireEvent) error {
		return see(Change{Kind: kind, Event: e.event()})
	})
}

func (s Selection) query() map[string]string {
	if s.Fields == "" {
		return nil
	}
	return map[string]string{"fieldSelector": s.Fields}
}

// wireEvent has only the fields in use, which keeps the exporter small.
type wireEvent struct {
	Metadata struct {
		Namespace         string `json:"namespace"`
		Name              string `json:"name"`
		UID               string `json:"uid"`
		ResourceVersion   string `json:"resourceVersion"`
		CreationTimestamp stamp  `json:"creationTimestamp"`
		ManagedFields     []struct {
			Manager string `json:"manager"`
		} `json:"managedFields"`
	} `json:"metadata"`
	InvolvedObject struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"involvedObject"`
	Reason  string `json:"reason"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Source  struct {
		Component string `json:"component"`
		Host      string `json:"host"`
	} `json:"source"`
	Reporting      string `json:"reportingComponent"`
	Instance       string `json:"reportingInstance"`
	Count          int    `json:"count"`
	FirstTimestamp stamp  `json:"firstTimestamp"`
	LastTimestamp  stamp  `json:"lastTimestamp"`
	EventTime      stamp  `json:"eventTime"`
	Series         struct {
		Count int   `json:"count"`
		Last  stamp `json:"lastObservedTime"`
	} `json:"series"`
}

// event returns the Event, with its texts clipped: whoever creates an object chooses their length, up to etcd's 1.5 MB. A clipped text
// is longer than any name or UID, so it stays invalid. Those written through events.k8s.io have a series and one time instead of
// count, source, first and last time.
func (w *wireEvent) event() Event {
	about := &w.InvolvedObject
	e := Event{
		Namespace:       w.Metadata.Namespace,
		Name:            w.Metadata.Name,
		UID:             w.Metadata.UID,
		ResourceVersion: w.Metadata.ResourceVersion,
		Reason:          clip(w.Reason),
		Type:            clip(w.Type),
		Message:         clipped(w.Message, 32<<10, true),
		Component:       clip(cmp.Or(w.Source.Component, w.Reporting)),
		Object:          Object{clip(about.Kind), clip(about.Namespace), clip(about.Name), clip(about.UID)},
		Count:           max(1, w.Count, w.Series.Count),
		First:           w.FirstTimestamp.Time,
		Last:            w.LastTimestamp.Time,
		Created:         w.Metadata.CreationTimestamp.Time,
		Host:            clip(cmp.Or(w.Source.Host, w.Instance)),
	}
	for _, f := range w.Metadata.ManagedFields {
		if name := clip(f.Manager); name != "" && !slices.Contains(e.Writers, name) {
			e.Writers = append(e.Writers, name)
		}
	}
	if w.Series.Last.After(e.Last) {
		e.Last = w.Series.Last.Time
	}
	for _, t := range []time.Time{w.EventTime.Time, w.Metadata.CreationTimestamp.Time} {
		if e.First.IsZero() {
			e.First = t
		}
		if e.Last.IsZero() {
			e.Last = t
		}
	}
	return e
}

type stamp struct{ time.Time }

func (s *stamp) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err == nil {
		s.Time = t
	}
	return nil
}

// Later reports whether resource version a is later than b, of one cluster; any other text is earlier. Kubernetes promises growing
// numbers since 1.35; etcd's always were. They are compared as text, without a limit on their size.
func Later(a, b string) bool {
	if !number(a) {
		return false
	}
	if !number(b) || len(a) > len(b) {
		return true
	}
	return len(a) == len(b) && a > b
}

func number(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}
