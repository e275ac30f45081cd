package exporter

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
)

type occurrence struct {
	kube.Event
	class string
	kind  string        // of the object, as in event.Warnings
	about event.Service // a Node's has no UID until that is proven
}

func (e *Exporter) classify(ev kube.Event) (occurrence, bool) {
	e.stats.Events.Add(1)
	e.last.Store(time.Now().UnixNano())
	in := event.Input{Reason: ev.Reason, Type: ev.Type, Component: ev.Component, Message: ev.Message}
	if class := event.Probed(in, ev.Object.Name); ev.Object.Kind == "Service" && e.c.Classifier.Knows(class) {
		return e.occurrence(ev, class, ""), true
	}
	if ev.Name == event.Precheck && ev.Namespace == metav1.NamespaceSystem { // a passed check ends the case of a failed one
		ev.Reason, in.Reason, in.Component = event.Precheck, event.Precheck, ""
	}
	kind, fails := event.FailureOf(in.Reason)
	if _, ok := e.objectOf(ev, kind); !ok || !fails {
		e.stats.Ignored.Add(1)
		return occurrence{}, false
	}
	if event.DryRun(ev.Message) {
		if !event.Controller(ev.Component) {
			e.stats.Ignored.Add(1)
			return occurrence{}, false
		}
		e.stats.Reported.Add(1)
		// A tenant can write any number of these.
		if e.queues.mayReport(ev.Namespace) {
			e.report(ev, "the controller's check before an upgrade foresees a failure; of one namespace ten are logged, and then one an hour")
		}
		return occurrence{}, false
	}
	m := e.c.Classifier.Classify(in)
	if m.Class == event.Ignored {
		e.stats.Ignored.Add(1)
		return occurrence{}, false
	}
	return e.occurrence(ev, m.Class, kind), true
}

func (e *Exporter) occurrence(ev kube.Event, class, kind string) occurrence {
	ev.Writers, ev.Host = nil, "" // nobody reads them, and many Events may wait at once
	// The API server accepts messages of a megabyte, and many may wait at once.
	if len(ev.Message) > event.MaxMessage {
		ev.Message = event.Abridge(ev.Message)
	}
	now := e.c.Now()
	ev.First, ev.Last = datable(ev.First, ev.Created, now), datable(ev.Last, ev.Created, now)
	about, _ := e.objectOf(ev, kind)
	return occurrence{Event: ev, class: class, kind: kind, about: about}
}

// backdated is how far the clock of an Event's writer may be behind the API server's.
const backdated = 10 * time.Minute

// datable limits at to between shortly before the API server accepted the Event and now: one dated 2100 would stay the newest forever.
func datable(at, created, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	if at.Before(created.Add(-backdated)) {
		return created
	}
	return at
}

// key identifies occurrences that replace each other. It includes the name: until proven, the UID may be another Service's.
func (o occurrence) key() string {
	if o.invalid() != nil {
		return "event " + o.UID
	}
	return o.class + " " + o.Object.UID + " " + o.Object.Name
}

func inOrder(a, b occurrence) int {
	switch {
	case kube.Later(a.ResourceVersion, b.ResourceVersion):
		return 1
	case kube.Later(b.ResourceVersion, a.ResourceVersion):
		return -1
	}
	return 0
}

// invalid returns why the Event can't be about an existing object, or nil. The API server doesn't check that.
func (o occurrence) invalid() error {
	if o.kind != "" {
		return o.invalidOther()
	}
	if err := event.ValidUID(o.Object.UID); err != nil {
		return err
	}
	if !kube.ValidName(o.Object.Namespace) || !kube.ValidName(o.Object.Name) {
		return fmt.Errorf("%.100q is not a valid Service name", o.Object.Namespace+"/"+o.Object.Name)
	}
	if o.Object.Namespace != o.Namespace {
		return fmt.Errorf("the Event lies in namespace %.100q and is about a Service of %s", o.Namespace, o.Object.Namespace)
	}
	return nil
}

type message struct {
	subject, id string
	header      map[string][]string
	data        []byte
}

// message returns an error if the occurrence can't be a message of FAILED.
func (o occurrence) message(cluster string) (message, error) {
	if err := o.invalid(); err != nil {
		return message{}, err
	}
	e, err := event.NewFailed(event.Failure{
		Cluster:   cluster,
		Class:     o.class,
		Reason:    o.Reason,
		Type:      o.Type,
		Component: o.Component,
		Message:   o.Message,
		Service:   o.about,
		Event:     event.Reference{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
		Count:     o.Count,
		First:     o.First,
		Last:      o.Last,
		Recorded:  time.Now(),
	})
	if err != nil {
		return message{}, err
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		return message{}, err
	}
	return message{event.FailedSubject(cluster, o.class, o.about.UID), event.MessageID(e), header, data}, nil
}

// remains returns what DEAD keeps: again a Kubernetes Event, with all texts cut and the message redacted.
func (o occurrence) remains() (header map[string][]string, data []byte) {
	type object map[string]any
	at := func(t time.Time) any {
		if y := t.Year(); t.IsZero() || y < 0 || y > 9999 {
			return nil
		}
		return t.UTC().Format(time.RFC3339)
	}
	data, err := json.Marshal(object{
		"apiVersion": "v1",
		"kind":       "Event",
		"metadata": object{
			"namespace": clip(o.Namespace), "name": clip(o.Name), "uid": clip(o.UID), "resourceVersion": clip(o.ResourceVersion),
		},
		"involvedObject": object{
			"kind": clip(o.Object.Kind), "namespace": clip(o.Object.Namespace), "name": clip(o.Object.Name), "uid": clip(o.Object.UID),
		},
		"reason":         clip(o.Reason),
		"type":           clip(o.Type),
		"message":        event.Abridge(o.Message),
		"source":         object{"component": clip(o.Component)},
		"count":          o.Count,
		"firstTimestamp": at(o.First),
		"lastTimestamp":  at(o.Last),
	})
	if err != nil {
		data = []byte("{}") // texts, numbers and nulls always encode
	}
	return map[string][]string{
		"Content-Type": {"application/json"},
		"Nats-Msg-Id":  {clip(o.UID) + "." + clip(o.ResourceVersion)},
	}, data
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 512)], "?") }

// versionOf returns "" for a message without a version; any occurrence replaces that.
func versionOf(m stream.Message) string {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return ""
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return ""
	}
	return f.Event.ResourceVersion
}
