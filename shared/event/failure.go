// Package event defines what lbremedy puts on the wire: payloads, CloudEvents types and subjects, the classifier of messages, the
// redaction of secrets, and the binding to NATS headers. Begin with [Failure], [Record] and [Document].
//
// It contains no class: the classifier takes its table as a value. It imports no NATS client, and of lbremedy only packages machine, regex and say.
package event

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

const (
	TypeFailed  = "io.lbremedy.service.failed.v1"  // a sync of a Service, or of another object, failed; data is a Failure
	TypeIntent  = "io.lbremedy.service.intent.v1"  // a run is about to write, or has written a step; data is a Record
	TypeSettled = "io.lbremedy.service.settled.v1" // a run has ended; data is a Record
)

const (
	ExtClass      = "class"        // ID of the error class
	ExtReason     = "reason"       // reason of the Kubernetes Event
	ExtCluster    = "cluster"      // ID of the cluster
	ExtServiceUID = "serviceuid"   // UID of the Service
	ExtPartition  = "partitionkey" // the Service's UID: events of one Service stay in order
	ExtTrace      = "traceparent"  // W3C trace context, CloudEvents' extension for distributed tracing
	ExtRecorded   = "recordedtime" // when the exporter made the event, CloudEvents' extension of that name
)

// Classes without a remedy folder's texts.
const (
	Unclassified = "unclassified" // a failed load-balancer sync that no class covers
	Ignored      = "ignored"      // anything else, including other clouds' failures
)

// A Failure is the data of a TypeFailed event: one occurrence of a Kubernetes Event about a failed load-balancer sync. It is a hint,
// not a fact: lbremedy never writes a value from it.
type Failure struct {
	Cluster   string    `json:"cluster"`
	Class     string    `json:"class"`
	Reason    string    `json:"reason"`    // of the Event: SyncLoadBalancerFailed, …
	Type      string    `json:"type"`      // of the Event: Warning or Normal
	Component string    `json:"component"` // of the controller, such as service-controller; empty for a Precheck
	Message   string    `json:"message"`   // redacted, at most MaxMessage bytes
	Service   Service   `json:"service"`
	Event     Reference `json:"event"`
	Count     int       `json:"count"` // occurrences so far, at least 1
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`

	// Attributes of the CloudEvent that the data leaves out.
	Trace    string    `json:"-"` // W3C trace context; empty or malformed: TraceOf names one
	Recorded time.Time `json:"-"` // when the exporter made the event; zero: unknown
}

// A Service names the object of an event, usually a Service. For another object Kind is set, Namespace is empty, Name is its name or
// ID, and UID is a Node's own, or else a stable digest, see Thing.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Kind      string `json:"kind,omitempty"` // "load balancer", "cluster" and others; empty: a Service
}

// Thing returns the name of an object of a cluster that has no UID.
func Thing(cluster, kind, name string) Service {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(cluster+"|"+kind+"|"+name)))
	return Service{Kind: kind, Name: name, UID: strings.Join([]string{sum[:8], sum[8:12], sum[12:16], sum[16:20], sum[20:32]}, "-")}
}

// String returns "namespace/name", or for other objects its kind and name, such as "load balancer lb-1".
func (s Service) String() string {
	if s.Kind != "" {
		return s.Kind + " " + s.Name
	}
	return s.Namespace + "/" + s.Name
}

func (s Service) subject() string {
	if s.Kind != "" {
		return strings.ReplaceAll(s.Kind, " ", "-") + "s/" + s.Name
	}
	return "namespaces/" + s.Namespace + "/services/" + s.Name
}

// A Reference names the Kubernetes Event from which a failure was read.
type Reference struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// Skew is how far the clock that dated a failure may be ahead of the local one.
const Skew = time.Minute

// Dated returns the failure with a plausible time. The author of an Event chooses its time, and one of 2100 would be newer than all
// later ones: a future time becomes when the exporter met it, or now if that is unknown.
func (f Failure) Dated(now time.Time) Failure {
	if f.Last.After(now.Add(Skew)) {
		f.Last = now
		if !f.Recorded.IsZero() && f.Recorded.Before(now) {
			f.Last = f.Recorded
		}
	}
	return f
}
