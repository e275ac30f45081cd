package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An item is a failure to answer, and the class that answers it.
type item struct {
	event  engine.Event
	remedy *remedy.Remedy
	was    *verdictThen // replay: what was said of it
}

// items returns the failures that arguments mean: Services of the cluster, files and
// standard input. Files are read first, so that a broken one costs no connection.
func (p *program) items(ctx context.Context, args []string, connect func() (*engine.Env, error)) ([]item, *engine.Env, error) {
	if err := p.host().Validate(); err != nil {
		return nil, nil, command.Mistake{Err: err}
	}
	var list []item
	var services []event.Service
	for _, arg := range args {
		ref, ok, err := serviceArg(arg)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			services = append(services, ref)
			continue
		}
		found, err := p.readFile(arg)
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
		it, err := p.newest(ctx, env, ref)
		if err != nil {
			return nil, env, err
		}
		if it == nil {
			p.note("%s: no failed sync is known, neither from the Events that the cluster keeps for an hour nor from the stream; there is nothing to do.", ref)
			continue
		}
		list = append(list, *it)
	}
	return list, env, nil
}

// serviceArg reports whether an argument names a Service. A file of that name goes before.
func serviceArg(arg string) (event.Service, bool, error) {
	if info, err := os.Stat(arg); arg == "-" || err == nil && !info.IsDir() {
		return event.Service{}, false, nil
	}
	ns, name, ok := strings.Cut(arg, "/")
	if ok && kube.ValidName(ns) && kube.ValidName(name) && !looksLikeFile(arg) {
		return event.Service{Namespace: ns, Name: name}, true, nil
	}
	return event.Service{}, false, command.Wrong("%q is no file, and no Service: one is named NAMESPACE/NAME", arg)
}

// service reads a Service that a person names.
func service(ctx context.Context, env *engine.Env, ref event.Service) (*corev1.Service, error) {
	svc, err := env.Kube.Service(ctx, ref.Namespace, ref.Name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, command.Wrong("there is no Service %s in the cluster: correct the name, or --context and --kubeconfig", ref)
	}
	return svc, err
}

// newest returns the newest failure of a Service: from its Events, else from the
// stream, which keeps them longer; nil if there is none.
func (p *program) newest(ctx context.Context, env *engine.Env, ref event.Service) (*item, error) {
	svc, err := service(ctx, env, ref)
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
	var newest *item
	_, err = env.Kube.ListEvents(ctx, kube.Selection{Namespace: ref.Namespace, Fields: "involvedObject.kind=Service,involvedObject.uid=" + ref.UID}, func(e kube.Event) error {
		it, passed, err := p.item(by, e)
		if err != nil || passed != "" {
			return err
		}
		if newest == nil || later(it.event.Failure, newest.event.Failure) {
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
	it, err := kept(m)
	return &it, err
}

// later reports whether failure a is newer than b.
func later(a, b event.Failure) bool {
	if !a.Last.Equal(b.Last) {
		return a.Last.After(b.Last)
	}
	return kube.Later(a.Event.ResourceVersion, b.Event.ResourceVersion)
}

// kept returns the failure in a message of the stream, with the class that it has there.
func kept(m stream.Message) (item, error) {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return item{}, err
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return item{}, err
	}
	it := item{event: engine.Event{ID: e.ID(), Failure: f}}
	it.remedy, err = classOf(f.Class)
	return it, err
}

// item returns the failure that an Event tells of, or in passed why it tells of none.
func (p *program) item(by *event.Classifier, e kube.Event) (it item, passed string, err error) {
	name := e.Namespace + "/" + e.Name
	switch {
	case e.Object.Kind != "Service":
		return item{}, fmt.Sprintf("%s is about a %s and not about a Service", name, cmp.Or(e.Object.Kind, "thing without a kind")), nil
	case !event.Watched(e.Reason):
		return item{}, fmt.Sprintf("the reason %q of %s is not one of a failed sync", e.Reason, name), nil
	case event.DryRun(e.Message):
		return item{}, name + " is of the controller's check before an upgrade", nil
	}
	m := by.Classify(event.Input{Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message})
	if m.Class == event.Ignored {
		return item{}, name + " is not about a load balancer of Alibaba Cloud: " + lowerFirst(m.Why), nil
	}
	ce, err := event.NewFailed(event.Failure{
		Cluster: p.cluster, Class: m.Class, Reason: e.Reason, Type: e.Type, Component: e.Component, Message: e.Message,
		Service: event.Service{Namespace: e.Object.Namespace, Name: e.Object.Name, UID: e.Object.UID},
		Event:   event.Reference{Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion},
		Count:   e.Count, First: e.First, Last: e.Last,
	})
	if err != nil {
		return item{}, "", command.Wrong("the Event %s: %w", name, err)
	}
	f, err := event.ReadFailed(ce)
	if err != nil {
		return item{}, "", command.Wrong("the Event %s: %w", name, err)
	}
	r, err := classOf(m.Class)
	return item{event: engine.Event{ID: ce.ID(), Failure: f}, remedy: r}, "", err
}

// lowerFirst makes a sentence the end of another one.
func lowerFirst(s string) string {
	s = strings.TrimSuffix(s, ".")
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// most is how many bytes are read of a file: no list of Events or Services has more.
const most = 512 << 20

// atMost reads all that there is, and no more than so many bytes.
func atMost(n int64, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, n+1))
	if err == nil && int64(len(data)) > n {
		return nil, fmt.Errorf("it has more than %d MB: give it in parts", n>>20)
	}
	return data, err
}

// readText returns the text of a file, or of standard input for "-", and what to call it
// in sentences.
func (p *program) readText(path string) (name string, data []byte, err error) {
	if name = path; path == "-" {
		name = "standard input"
		data, err = atMost(most, p.in)
	} else {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			data, err = atMost(most, f)
		}
	}
	if err != nil {
		return name, nil, command.Wrong("read %s: %w", name, err)
	}
	return name, data, nil
}

// readFile returns the failures in a file, the newest of each Service and class: a
// CloudEvent, a Kubernetes Event, a list of Events, or several of them.
func (p *program) readFile(path string) ([]item, error) {
	name, data, err := p.readText(path)
	if err != nil {
		return nil, err
	}
	docs, err := documents(data)
	if err != nil {
		return nil, command.Wrong("%s is neither JSON nor YAML: %w", name, oneLine(err))
	}
	r := &reading{program: p, by: event.NewClassifier(table.Table()), at: map[[2]string]int{}}
	for _, doc := range docs {
		if err := r.document(doc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	switch {
	case len(r.list) > 0:
		if r.passed > 0 {
			p.note("%s: %d Events tell of no failed load-balancer sync and are passed over.", name, r.passed)
		}
		return r.list, nil
	case r.passed == 1:
		return nil, command.Wrong("%s: %s", name, r.why)
	case r.passed > 1:
		return nil, command.Wrong("%s: none of its %d Events tells of a failed load-balancer sync; the first: %s", name, r.passed, r.why)
	}
	return nil, command.Wrong("%s holds no event", name)
}

var separator = regexp.MustCompile(`(?m)^---[ \t]*\r?$`)

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
	for _, part := range separator.Split(string(data), -1) {
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
	*program
	by     *event.Classifier
	list   []item
	at     map[[2]string]int // index in list by Service UID and class
	passed int
	why    string // the first one was passed over
}

func (r *reading) document(doc json.RawMessage) error {
	if doc[0] == '[' {
		var docs []json.RawMessage
		if err := json.Unmarshal(doc, &docs); err != nil {
			return command.Mistake{Err: jsonError(err)}
		}
		return r.all(docs)
	}
	var head struct {
		SpecVersion, Kind string
		Items             []json.RawMessage
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return command.Wrong("it holds no CloudEvent and no Kubernetes Event: %w", jsonError(err))
	}
	switch {
	case head.SpecVersion != "":
		return r.cloudEvent(doc)
	case strings.HasSuffix(head.Kind, "List"):
		return r.all(head.Items)
	case head.Kind == "Event":
		return r.kubeEvent(doc)
	case head.Kind == "":
		return command.Wrong("it holds something without specversion and kind: give a CloudEvent in JSON, a Kubernetes Event, or what kubectl get events -o json prints")
	}
	return command.Wrong("it holds a %s: give a CloudEvent in JSON, a Kubernetes Event, or what kubectl get events -o json prints", head.Kind)
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
	if f.Cluster != r.cluster {
		return command.Wrong("the CloudEvent %s is of the cluster %q, and this is %q: name the other with --cluster, --region and --context", e.ID(), f.Cluster, r.cluster)
	}
	class, err := classOf(f.Class)
	if err != nil {
		return command.Wrong("the CloudEvent %s: %w", e.ID(), err)
	}
	r.add(item{event: engine.Event{ID: e.ID(), Failure: f}, remedy: class})
	return nil
}

func (r *reading) kubeEvent(doc json.RawMessage) error {
	var e wireEvent
	if err := json.Unmarshal(doc, &e); err != nil {
		return command.Wrong("a Kubernetes Event in it can't be read: %w", oneLine(jsonError(err)))
	}
	it, passed, err := r.item(r.by, e.event())
	switch {
	case err != nil:
		return err
	case passed != "":
		r.passed++
		r.why = cmp.Or(r.why, passed)
		return nil
	}
	r.add(it)
	return nil
}

// add adds a failure, or puts it in the place of an older one.
func (r *reading) add(it item) {
	key := [2]string{it.event.Failure.Service.UID, it.event.Failure.Class}
	i, ok := r.at[key]
	switch {
	case !ok:
		r.at[key] = len(r.list)
		r.list = append(r.list, it)
	case later(it.event.Failure, r.list[i].event.Failure):
		r.list[i] = it
	}
}

// wireEvent is a Kubernetes Event as v1 and as events.k8s.io/v1 write it.
type wireEvent struct {
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

func (w *wireEvent) event() kube.Event {
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
