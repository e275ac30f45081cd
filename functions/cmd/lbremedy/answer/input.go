package answer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An Item is a failure to answer, and the class that answers it.
type Item struct {
	Event  engine.Event
	Remedy *remedy.Remedy
	was    *verdictThen // replay: what was said of it
}

// readItems returns the failures that arguments mean: Services of the cluster, files and
// standard input. Files are read first, so that a broken one costs no connection.
func readItems(ctx context.Context, p *cli.Program, args []string, connect func() (*host.Connection, error)) ([]Item, *host.Connection, error) {
	if err := p.Host().Validate(); err != nil {
		return nil, nil, command.Mistake{Err: err}
	}
	var list []Item
	var services []event.Service
	for _, arg := range args {
		ref, ok, err := cli.ServiceArg(arg)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			services = append(services, ref)
			continue
		}
		found, err := ReadFile(p, arg)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, found...)
	}
	env, err := connect()
	if err != nil {
		return nil, nil, err
	}
	for _, ref := range services {
		it, err := newest(ctx, p, env, ref)
		if err != nil {
			return nil, env, err
		}
		if it == nil {
			p.Note("%s: no failed sync is known from the cluster's Events of the last hour or from the stream; there is nothing to do.", ref)
			continue
		}
		list = append(list, *it)
	}
	return list, env, nil
}

// newest returns the newest failure of a Service: from its Events, else from the
// stream, which keeps them longer; nil if there is none.
func newest(ctx context.Context, p *cli.Program, env *host.Connection, ref event.Service) (*Item, error) {
	svc, err := cli.Service(ctx, env, ref)
	switch {
	case err != nil:
		return nil, err
	case svc.Spec.Type != "LoadBalancer" && !slices.Contains(svc.Finalizers, ccm.CLBFinalizer) && !slices.Contains(svc.Finalizers, ccm.NLBFinalizer):
		return nil, command.Wrong("the Service %s is of type %s: only one of type LoadBalancer has a load balancer that can fail", ref, svc.Spec.Type)
	}
	ref.UID = string(svc.UID)
	if err := event.ValidUID(ref.UID); err != nil {
		return nil, err
	}
	by := event.NewClassifier(table.Table())
	var newest *Item
	of := kube.Selection{Namespace: ref.Namespace, Fields: "involvedObject.kind=Service,involvedObject.uid=" + ref.UID}
	err = env.Kube.Evidence(ctx, of, func(e kube.Event) error {
		it, passed, err := FromEvent(p, by, e)
		if err != nil || passed != nil {
			return err
		}
		if newest == nil || later(it.Event.Failure, newest.Event.Failure) {
			newest = &it
		}
		return nil
	})
	if err != nil || newest != nil || env.Stream == nil {
		return newest, err
	}
	m, err := env.Stream.Last(ctx, stream.Failed, "lbremedy.failed."+env.Cluster+".*."+ref.UID)
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	it, err := Kept(m)
	return &it, err
}

// later reports whether failure a is newer than b.
func later(a, b event.Failure) bool {
	if !a.Last.Equal(b.Last) {
		return a.Last.After(b.Last)
	}
	return kube.Later(a.Event.ResourceVersion, b.Event.ResourceVersion)
}

// Kept returns the failure in a message of the stream, with the class that it has there.
func Kept(m stream.Message) (Item, error) {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return Item{}, err
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return Item{}, err
	}
	it := Item{Event: engine.Event{ID: e.ID(), Failure: f}}
	it.Remedy, err = cli.ClassOf(f.Class)
	return it, err
}

// FromEvent returns the failure that an Event tells of, or in passed why it tells of none.
func FromEvent(p *cli.Program, by *event.Classifier, e kube.Event) (it Item, passed say.Text, err error) {
	name := e.Namespace + "/" + e.Name
	switch {
	case e.Object.Kind != "Service":
		return Item{}, say.F("%s is about a %s and not about a Service", name, say.Or(e.Object.Kind, "thing without a kind")), nil
	case !event.Watched(e.Reason):
		return Item{}, say.F("the reason %q of %s is not one of a failed sync", e.Reason, name), nil
	case event.DryRun(e.Message):
		return Item{}, say.F("%s is of the controller's check before an upgrade", name), nil
	}
	m := by.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message})
	if m.Class == event.Ignored {
		return Item{}, say.F("%s is not about a load balancer of Alibaba Cloud: %s", name, lowerFirst(m.Why)), nil
	}
	ce, err := event.NewFailed(event.Failure{
		Cluster: p.Cluster, Class: m.Class, Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message,
		Service: event.Service{Namespace: e.Object.Namespace, Name: e.Object.Name, UID: e.Object.UID},
		Event:   event.Reference{Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion},
		Count:   e.Count, First: e.First, Last: e.Last,
	})
	if err != nil {
		return Item{}, nil, command.Wrong("the Event %s: %w", name, err)
	}
	f, err := event.ReadFailed(ce)
	if err != nil {
		return Item{}, nil, command.Wrong("the Event %s: %w", name, err)
	}
	r, err := cli.ClassOf(m.Class)
	return Item{Event: engine.Event{ID: ce.ID(), Failure: f}, Remedy: r}, nil, err
}

// lowerFirst makes a sentence the end of another one.
func lowerFirst(s string) string {
	s = strings.TrimSuffix(s, ".")
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// ReadFile returns the failures in a file, the newest of each Service and class: a
// CloudEvent, a Kubernetes Event, a list of Events, or several of them.
func ReadFile(p *cli.Program, path string) ([]Item, error) {
	name, data, err := p.ReadText(path)
	if err != nil {
		return nil, err
	}
	docs, err := documents(data)
	if err != nil {
		return nil, command.Wrong("%s is neither JSON nor YAML: %w", name, cli.OneLine(err))
	}
	r := &reading{Program: p, by: event.NewClassifier(table.Table()), at: map[[2]string]int{}}
	for _, doc := range docs {
		if err := r.document(doc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	switch {
	case len(r.list) > 0:
		if r.passed > 0 {
			p.Note("%s: %d Events are not about a failed load-balancer sync and are ignored.", name, r.passed)
		}
		return r.list, nil
	case r.passed == 1:
		return nil, command.Wrong("%s: %s", name, r.why)
	case r.passed > 1:
		return nil, command.Wrong("%s: none of its %d Events is about a failed load-balancer sync; the first: %s", name, r.passed, r.why)
	}
	return nil, command.Wrong("%s holds no event", name)
}

var separator = regex.New(`(?m)^---[ \t]*\r?$`)

// documents takes JSON values one behind the other, or YAML documents, apart. They
// come back as JSON.
func documents(data []byte) ([]json.RawMessage, error) {
	var docs []json.RawMessage
	if start := bytes.TrimSpace(data); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		dec := json.NewDecoder(bytes.NewReader(start))
		for {
			var doc json.RawMessage
			err := dec.Decode(&doc)
			if errors.Is(err, io.EOF) {
				return docs, nil
			}
			if err != nil {
				return nil, err
			}
			docs = append(docs, doc)
		}
	}
	for _, part := range separator().Split(string(data), -1) {
		if strings.TrimSpace(part) == "" {
			continue
		}
		doc, err := yaml.YAMLToJSON([]byte(part))
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// A reading is one file being read.
type reading struct {
	*cli.Program
	by     *event.Classifier
	list   []Item
	at     map[[2]string]int // index in list by Service UID and class
	passed int
	why    say.Text // the first one was passed over
}

func (r *reading) document(doc json.RawMessage) error {
	if doc[0] == '[' {
		var docs []json.RawMessage
		if err := json.Unmarshal(doc, &docs); err != nil {
			return command.Mistake{Err: cli.JSONError(err)}
		}
		return r.all(docs)
	}
	want := say.F("give a CloudEvent in JSON, a Kubernetes Event, or what kubectl get events -o json prints")
	var head struct {
		SpecVersion, Kind string
		Items             []json.RawMessage
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return command.Wrong("it holds no CloudEvent and no Kubernetes Event: %w", cli.JSONError(err))
	}
	switch {
	case head.SpecVersion != "":
		return r.cloudEvent(doc)
	case strings.HasSuffix(head.Kind, "List"):
		return r.all(head.Items)
	case head.Kind == "Event":
		return r.kubeEvent(doc)
	case head.Kind == "":
		return command.Wrong("it holds something without specversion and kind: %s", want)
	}
	return command.Wrong("it holds a %s: %s", head.Kind, want)
}

func (r *reading) all(docs []json.RawMessage) error {
	for _, doc := range docs {
		if err := r.document(doc); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) cloudEvent(doc json.RawMessage) error {
	e, err := event.DecodeJSON(doc)
	if err != nil {
		return command.Mistake{Err: err}
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return command.Wrong("the CloudEvent %s: %w", e.ID(), err)
	}
	if f.Cluster != r.Cluster {
		return command.Wrong("the CloudEvent %s is of the cluster %q, and this is %q: name the other with --cluster, --region and --context",
			e.ID(), f.Cluster, r.Cluster)
	}
	class, err := cli.ClassOf(f.Class)
	if err != nil {
		return command.Wrong("the CloudEvent %s: %w", e.ID(), err)
	}
	r.add(Item{Event: engine.Event{ID: e.ID(), Failure: f}, Remedy: class})
	return nil
}

func (r *reading) kubeEvent(doc json.RawMessage) error {
	var e WireEvent
	if err := json.Unmarshal(doc, &e); err != nil {
		return command.Wrong("a Kubernetes Event in it can't be read: %w", cli.OneLine(cli.JSONError(err)))
	}
	it, passed, err := FromEvent(r.Program, r.by, e.Event())
	switch {
	case err != nil:
		return err
	case passed != nil:
		r.passed++
		if r.why == nil {
			r.why = passed
		}
		return nil
	}
	r.add(it)
	return nil
}

// add adds a failure, or puts it in the place of an older one.
func (r *reading) add(it Item) {
	key := [2]string{it.Event.Failure.Service.UID, it.Event.Failure.Class}
	i, ok := r.at[key]
	switch {
	case !ok:
		r.at[key] = len(r.list)
		r.list = append(r.list, it)
	case later(it.Event.Failure, r.list[i].Event.Failure):
		r.list[i] = it
	}
}

// WireEvent is a Kubernetes Event as v1 and as events.k8s.io/v1 write it.
type WireEvent struct {
	Metadata struct {
		Namespace, Name, UID, ResourceVersion string
		CreationTimestamp                     time.Time
	}
	InvolvedObject, Regarding     kube.Object
	Reason, Type, Message, Note   string
	Source, DeprecatedSource      struct{ Component string }
	ReportingComponent            string
	ReportingController           string
	Count, DeprecatedCount        int
	FirstTimestamp, LastTimestamp time.Time
	DeprecatedFirstTimestamp      time.Time
	DeprecatedLastTimestamp       time.Time
	EventTime                     time.Time
	Series                        struct {
		Count            int
		LastObservedTime time.Time
	}
}

// Event returns the Event as package kube has it.
func (w *WireEvent) Event() kube.Event {
	first := func(times ...time.Time) time.Time {
		for _, t := range times {
			if !t.IsZero() {
				return t
			}
		}
		return time.Time{}
	}
	m := w.Metadata
	return kube.Event{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Reason: w.Reason, Type: w.Type, Message: cmp.Or(w.Message, w.Note),
		Component: cmp.Or(w.Source.Component, w.DeprecatedSource.Component, w.ReportingComponent, w.ReportingController),
		Object:    cmp.Or(w.InvolvedObject, w.Regarding),
		Count:     max(1, w.Count, w.DeprecatedCount, w.Series.Count),
		First:     first(w.FirstTimestamp, w.DeprecatedFirstTimestamp, w.EventTime, m.CreationTimestamp),
		Last:      first(w.Series.LastObservedTime, w.LastTimestamp, w.DeprecatedLastTimestamp, w.EventTime, m.CreationTimestamp),
	}
}
