// Package kube reads and writes a Kubernetes cluster; only it imports client-go. Begin with New, Cluster and Writer.
//
// It speaks JSON over one REST client and decodes into the types of k8s.io/api; the typed clientset would cost each function program
// 13 MB and 8 ms at start. Lists are read page by page and item by item, with only the needed fields and with long texts clipped
// (clip.go), so memory grows neither with the cluster nor with objects. A list beyond its bounds is ErrIncomplete, and never looks
// empty.
//
// Nothing is retried, except a request rejected because a leased kubeconfig had ended (see [Leased]): the stream delivers the event
// again. Client-side throttling is off: lbremedy's budgets limit writes, and a hundred Services may fail in one second.
package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // images have no root certificates: every program contains those that Mozilla trusts
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/event"
)

// patience limits one answer, and a list's silence. Watches have their own limit.
const patience = 30 * time.Second

const page = "250"

// Manager is the name under which the API server records lbremedy's writes.
const Manager = "lbremedy"

// A Cluster reads from one cluster. Its methods are safe for several goroutines.
type Cluster struct {
	client   func(ctx context.Context, refused *rest.RESTClient) (*rest.RESTClient, error) // a client, other than refused if there is one
	services shared
}

// New returns the cluster of the configuration, without connecting. It sets rate limits, content types and the user agent itself. A
// connection is pinged after 30 s of silence and dropped 15 s later.
func New(config *rest.Config) (*Cluster, error) {
	if config == nil {
		return nil, errors.New("no configuration of a cluster was given")
	}
	client, err := connect(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: func(context.Context, *rest.RESTClient) (*rest.RESTClient, error) { return client, nil }}, nil
}

func connect(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	c.Timeout = 0 // it would end watches
	c.UserAgent = Manager
	c.WarningHandler, c.WarningHandlerWithContext = rest.NoWarnings{}, nil
	c.ContentConfig = rest.ContentConfig{
		GroupVersion:         &schema.GroupVersion{Version: "v1"},
		NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
		ContentType:          runtime.ContentTypeJSON,
		AcceptContentTypes:   runtime.ContentTypeJSON,
	}
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", hide(err))
	}
	return client, nil
}

const servicePath = "/api/v1/namespaces/*/services/*"

// Service returns a Service as it is now.
func (c *Cluster) Service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	return get[corev1.Service](ctx, c, "Service", servicePath, nil, namespace, name)
}

// ServiceUID returns the UID of a Service. The expected UID may come from the API server's old cache: a UID is given once, and its
// Service keeps its name. Any other UID is the present one.
func (c *Cluster) ServiceUID(ctx context.Context, namespace, name, expected string) (string, error) {
	cached := map[string]string{"resourceVersion": "0"}
	if uid, err := c.serviceUID(ctx, namespace, name, cached); err == nil && uid == expected || err != nil && !errors.Is(err, ErrNotFound) {
		return uid, err
	}
	return c.serviceUID(ctx, namespace, name, nil)
}

func (c *Cluster) serviceUID(ctx context.Context, namespace, name string, query map[string]string) (string, error) {
	svc, err := get[metav1.PartialObjectMetadata](ctx, c, "Service", servicePath, query, namespace, name)
	if err != nil {
		return "", err
	}
	return string(svc.UID), nil
}

// ServicesNamed returns the Services of all namespaces with this name. It needs grant.ListServices.
func (c *Cluster) ServicesNamed(ctx context.Context, name string) ([]corev1.Service, error) {
	if !ValidName(name) {
		return nil, noName("list Services", "name", name)
	}
	return all[corev1.Service](ctx, c, "list the Services called "+name, "/api/v1/services", map[string]string{"fieldSelector": "metadata.name=" + name})
}

// Namespace returns a namespace. The read is not recorded as evidence. It needs grant.GetNamespaces.
func (c *Cluster) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return get[corev1.Namespace](unrecorded(ctx), c, "namespace", "/api/v1/namespaces/*", nil, name)
}

func unrecorded(ctx context.Context) context.Context {
	return event.WithReads(ctx, func(event.Read) {})
}

// Services returns the Services of all namespaces and types, at most two seconds old. Callers share the result and must not change it.
func (c *Cluster) Services(ctx context.Context) ([]corev1.Service, error) {
	return c.services.read(ctx, func(ctx context.Context) ([]corev1.Service, error) {
		return all[corev1.Service](ctx, c, "list Services", "/api/v1/services", nil)
	})
}

// EachService calls see with each Service of all namespaces and types, in no order, and returns see's error as it is. It needs grant.ListServices.
func (c *Cluster) EachService(ctx context.Context, see func(*corev1.Service) error) error {
	const doing = "list Services"
	n, began := 0, time.Now()
	_, err := list(ctx, c, doing, "/api/v1/services", nil, func(svc *corev1.Service) error {
		n++
		return see(svc)
	})
	event.TellRead(ctx, doing, began, fmt.Appendf(nil, "%d found", n), err)
	return err
}

// EachLoadBalancer calls see with each LoadBalancer Service, in no order. It needs grant.ListServices.
func (c *Cluster) EachLoadBalancer(ctx context.Context, see func(Object)) error {
	_, err := list(ctx, c, "list the LoadBalancer Services", "/api/v1/services", map[string]string{"fieldSelector": "spec.type=LoadBalancer"},
		func(m *metav1.PartialObjectMetadata) error {
			see(Object{Kind: "Service", Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)})
			return nil
		})
	return err
}

// Nodes returns the nodes.
func (c *Cluster) Nodes(ctx context.Context) ([]corev1.Node, error) {
	return all[corev1.Node](ctx, c, "list nodes", "/api/v1/nodes", nil)
}

// Node returns a node as it is now. It needs grant.GetNodes.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return get[corev1.Node](ctx, c, "node", "/api/v1/nodes/*", nil, name)
}

// A DaemonSet contains the fields of one that are read. Package apps would make each function program a third of a megabyte larger.
type DaemonSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	Status struct {
		Ready int `json:"numberReady"`
	} `json:"status"`
}

// DaemonSets returns the DaemonSets of a namespace.
func (c *Cluster) DaemonSets(ctx context.Context, namespace string) ([]DaemonSet, error) {
	path, err := place("list DaemonSets", "/apis/apps/v1/namespaces/*/daemonsets", namespace)
	if err != nil {
		return nil, err
	}
	return all[DaemonSet](ctx, c, "list DaemonSets of "+namespace, path, nil)
}

// A Deployment contains the fields of one that are read.
type Deployment struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Ready int `json:"readyReplicas"`
	} `json:"status"`
}

// Deployment returns a Deployment. It needs the right to get this one by name.
func (c *Cluster) Deployment(ctx context.Context, namespace, name string) (*Deployment, error) {
	return get[Deployment](ctx, c, "Deployment", "/apis/apps/v1/namespaces/*/deployments/*", nil, namespace, name)
}

// ServiceAccount returns a ServiceAccount. It needs grant.GetServiceAccounts.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return get[corev1.ServiceAccount](ctx, c, "ServiceAccount", "/api/v1/namespaces/*/serviceaccounts/*", nil, namespace, name)
}

// ConfigMap returns a ConfigMap as it is now, by the right to get this one by name. The read is not recorded as evidence.
func (c *Cluster) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return get[corev1.ConfigMap](unrecorded(ctx), c, "ConfigMap", "/api/v1/namespaces/*/configmaps/*", nil, namespace, name)
}

func found(object any, err error) []byte {
	o, ok := object.(metav1.Object)
	if !ok || err != nil {
		return nil
	}
	return []byte("resourceVersion " + o.GetResourceVersion())
}

// place returns the path of an object or a list, with the names in place of each "*". An impossible name, which came from an Event, is
// not found: the API server might read it as a path.
func place(doing, path string, names ...string) (string, error) {
	for _, name := range names {
		before, after, _ := strings.Cut(path, "*")
		if !ValidName(name) {
			what := "name"
			if strings.HasSuffix(before, "/namespaces/") && after != "" {
				what = "namespace"
			}
			return "", noName(doing, what, name)
		}
		path = before + name + after
	}
	return path, nil
}

// get reads one object.
func get[T any](ctx context.Context, c *Cluster, kind, path string, query map[string]string, names ...string) (*T, error) {
	doing := "get " + kind
	path, err := place(doing, path, names...)
	if err != nil {
		return nil, err
	}
	doing += " " + strings.Join(names, "/")
	object, began := new(T), time.Now()
	err = c.call(ctx, doing, request{verb: "GET", path: path, query: query}, object)
	if err == nil {
		err = same(doing, object, names...)
	}
	event.TellRead(ctx, doing, began, found(object, err), err)
	if err != nil {
		return nil, err
	}
	return object, nil
}

// same returns an error unless the object, with metadata or of a kind that has none here, has these names: a proxy in front of the API server
// may answer for it.
func same(doing string, object any, names ...string) error {
	o, ok := object.(metav1.Object)
	if !ok || o.GetUID() != "" && strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/") == strings.Join(names, "/") {
		return nil
	}
	return &Error{Doing: doing, Kind: ErrUnavailable, Message: "the answer is not the object asked for"}
}

// Bounds of one list, more than a cluster with 5,000 Services needs; beyond them it is ErrIncomplete.
const (
	mostBytes = 512 << 20 // from the wire
	mostKept  = 32 << 20  // memory, in bytes, of a list that is returned as a whole: it fits a function's (functions.resources of the chart)
	mostItems = 100_000
	mostTime  = 2 * time.Minute
)

var (
	errLong   = errors.New("longer than what is read")
	errNoList = errors.New("the answer is not a list")
)

// largest is the most bytes read of one object: etcd accepts 1.5 MB (--max-request-bytes), and JSON may take six bytes for each.
const largest = 10 << 20

// A bounded reader limits the bytes of all and of one object, and restarts the timer for silence.
type bounded struct {
	from      io.Reader
	remaining *int64      // nil: any number
	object    int64       // bytes left for the present object
	idle      *time.Timer // may be nil
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.idle != nil {
		b.idle.Reset(patience)
	}
	if b.object -= int64(n); b.object < 0 {
		return 0, errLong
	}
	if b.remaining != nil {
		if *b.remaining -= int64(n); *b.remaining < 0 {
			return 0, errLong
		}
	}
	return n, err
}

func all[T any](ctx context.Context, c *Cluster, doing, path string, query map[string]string) ([]T, error) {
	var items []T
	began, kept := time.Now(), 0
	_, err := list(ctx, c, doing, path, query, func(item *T) error {
		if kept += weight(reflect.ValueOf(item).Elem()); kept > mostKept {
			return incomplete(doing, "what is needed of the objects takes more than %d bytes", mostKept)
		}
		items = append(items, *item)
		return nil
	})
	event.TellRead(ctx, doing, began, fmt.Appendf(nil, "%d found", len(items)), err)
	if err != nil {
		return nil, err
	}
	return items, nil
}

func incomplete(doing, more string, args ...any) error {
	return &Error{Doing: doing, Kind: ErrIncomplete, Message: fmt.Sprintf(more, args...)}
}

// list reads a list item by item, only the fields of T, and within the bounds. It calls see with each item, of which its callers keep
// little, and returns the list's resource version, also beside an ErrIncomplete. An error of see ends it and is returned as it is.
func list[T any](ctx context.Context, c *Cluster, doing, path string, query map[string]string, see func(*T) error) (string, error) {
	return c.read(ctx, doing, path, query, func() any { return new(T) }, func(item any) error { return see(item.(*T)) })
}

// read is list without a type parameter, which keeps programs small.
func (c *Cluster) read(ctx context.Context, doing, path string, query map[string]string, fresh func() any, see func(any) error) (string, error) {
	q := map[string]string{"limit": page}
	maps.Copy(q, query)
	left, n, ends := int64(mostBytes), 0, time.Now().Add(mostTime)
	version := ""
	for {
		var meta metav1.ListMeta
		var mine error
		// A page may take long while data keeps coming.
		alive, silent := context.WithCancel(ctx)
		idle := time.AfterFunc(patience, silent)
		err := c.stream(alive, doing, time.Until(ends), request{verb: "GET", path: path, query: q}, func(r io.Reader) error {
			return items(&bounded{from: r, remaining: &left, object: largest, idle: idle}, &meta, fresh, func(item any) error {
				if n++; n > mostItems {
					return incomplete(doing, "there are more than %d objects", mostItems)
				}
				mine = see(item)
				return mine
			})
		})
		idle.Stop()
		if alive.Err() != nil && ctx.Err() == nil {
			err = &Error{Doing: doing, Kind: ErrUnavailable, Message: "no answer in time"}
		}
		silent()
		version = cmp.Or(version, meta.ResourceVersion)
		switch {
		case mine != nil:
			return "", mine
		case left < 0:
			return version, incomplete(doing, "it has more than %d bytes", mostBytes)
		case errors.Is(err, errLong):
			return version, incomplete(doing, "an object has more than %d bytes", largest)
		case err != nil && ctx.Err() == nil && !time.Now().Before(ends):
			return version, incomplete(doing, "it takes longer than %v", mostTime)
		case errors.Is(err, ErrIncomplete):
			return version, err
		case err != nil:
			return "", err
		}
		if meta.Continue == "" || q["limit"] == "1" {
			return version, nil
		}
		q["continue"] = meta.Continue
	}
}

func items(from *bounded, meta *metav1.ListMeta, fresh func() any, see func(any) error) error {
	dec := json.NewDecoder(from)
	if t, err := dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return errNoList
	}
	found := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		from.object = largest
		switch key {
		case "metadata":
			err = dec.Decode(meta)
		case "items":
			found = true
			err = array(dec, from, fresh, see)
		default:
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil || found {
		return err
	}
	return errNoList
}

func array(dec *json.Decoder, from *bounded, fresh func() any, see func(any) error) error {
	switch t, err := dec.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil
	case t != json.Delim('['):
		return errNoList
	}
	for dec.More() {
		from.object = largest
		item := fresh()
		if err := lenient(dec.Decode(item)); err != nil {
			return err
		}
		if err := see(item); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// lenient ignores a field of a wrong type: one odd object must not hide those behind it.
func lenient(err error) error {
	if errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil
	}
	return err
}

type request struct {
	verb, path string
	query      map[string]string
	body       any // of a PATCH, a JSON merge patch; of a POST, an object; nil: none
}

func (c *Cluster) call(ctx context.Context, doing string, r request, into any) error {
	return c.stream(ctx, doing, patience, r, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(into)
	})
}

func (c *Cluster) stream(ctx context.Context, doing string, limit time.Duration, r request, read func(io.Reader) error) error {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var text []byte
	if r.body != nil {
		var err error
		if text, err = json.Marshal(r.body); err != nil {
			return &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
		}
	}
	client, err := c.client(inner, nil)
	if err != nil {
		return explain(ctx, doing, err)
	}
	body, err := r.send(inner, client, text)
	if apierrors.IsUnauthorized(err) {
		if other, none := c.client(inner, client); none == nil && other != client {
			body, err = r.send(inner, other, text)
		}
	}
	if err == nil {
		defer body.Close()
		err = read(body)
	}
	if err != nil {
		return r.explain(ctx, doing, err)
	}
	return nil
}

// explain returns why a request failed. An answer that is not a Status comes from a proxy in front of the API server, and says nothing of an object;
// but the API server itself answers so for a kind of another API group that it lacks.
func (r request) explain(ctx context.Context, doing string, err error) error {
	foreign := apierrors.IsUnexpectedServerError(err) && strings.HasPrefix(r.path, "/api/")
	err = explain(ctx, doing, err)
	if own, ok := errors.AsType[*Error](err); ok && foreign && (own.Kind == ErrNotFound || own.Kind == ErrConflict || own.Kind == ErrGone) {
		own.Kind, own.Status = ErrUnavailable, 0 // a write may have been made
	}
	return err
}

func (r request) send(ctx context.Context, client *rest.RESTClient, body []byte) (io.ReadCloser, error) {
	q := client.Verb(r.verb).AbsPath(r.path).MaxRetries(0)
	for k, v := range r.query {
		q = q.Param(k, v)
	}
	if body != nil {
		kind := "application/merge-patch+json"
		if r.verb != http.MethodPatch {
			kind = runtime.ContentTypeJSON
		}
		q = q.Body(body).SetHeader("Content-Type", kind)
	}
	return q.Stream(ctx)
}

// ValidName reports whether s can name an object or a namespace: lower-case letters, digits, hyphens, and dots but not only those. It does
// not begin with a hyphen, as an option does. Other texts never become part of a path.
func ValidName(s string) bool {
	if s == "" || len(s) > 253 || s[0] == '-' || strings.Trim(s, ".") == "" {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' {
			return false
		}
	}
	return true
}
