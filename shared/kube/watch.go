package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/lbremedy/lbremedy/shared/retry"
)

// spell is how long a watch of one Service lasts before it is reopened.
const spell = 5 * time.Minute

// grace is how late the server may end a watch; later, its connection is dead without a failed ping.
const grace = 15 * time.Second

// WatchService calls see with each state of a Service after the resource version, until see returns true. An empty version begins with
// the present state, and so does a reopened watch that missed versions. It returns ErrNotFound when the Service is deleted, ErrDenied
// when it may not be watched, and the context's error when that ends first.
func (c *Cluster) WatchService(ctx context.Context, namespace, name, version string, see func(*corev1.Service) (done bool)) error {
	path, err := place("watch Service", "/api/v1/namespaces/*/services", namespace)
	if err != nil || !ValidName(name) {
		return cmp.Or(err, noName("watch Service", "name", name))
	}
	doing := "watch Service " + namespace + "/" + name
	query := map[string]string{"fieldSelector": fields.OneTermEqualSelector("metadata.name", name).String()}
	backoff := retry.Backoff(firstWait, lastWait)
	for {
		if version == "" {
			s, err := c.Service(ctx, namespace, name)
			switch {
			case err == nil:
				if see(s) {
					return nil
				}
				version = s.ResourceVersion
			case !errors.Is(err, ErrUnavailable):
				return err
			}
		}
		if version != "" {
			err := watch(ctx, c, doing, path, query, version, spell, func(kind string, s *corev1.Service) error {
				if err := same(doing, s, namespace, name); kind != Bookmark && err != nil {
					return err
				}
				version = s.ResourceVersion
				switch {
				case kind == Deleted:
					return &Error{Doing: doing, Kind: ErrNotFound, Message: "the Service was deleted"}
				case kind != Bookmark && see(s):
					return errEnough
				}
				backoff = retry.Backoff(firstWait, lastWait)
				return nil
			})
			switch {
			case errors.Is(err, errEnough):
				return nil
			case errors.Is(err, ErrGone):
				version = ""
			case err != nil && !errors.Is(err, ErrUnavailable):
				return err
			}
		}
		if !retry.Sleep(ctx, backoff.Step()) {
			return explain(ctx, doing, ctx.Err())
		}
	}
}

// The pauses spare a server that ends a watch at once, and a run that waits for the outcome.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = 2 * time.Second
)

var errEnough = errors.New("enough")

// watch calls see with each change after the version. It returns nil when the server ends the watch, and see's error as it is.
func watch[T any](ctx context.Context, c *Cluster, doing, path string, query map[string]string, version string, limit time.Duration,
	see func(kind string, object *T) error) error {
	q := map[string]string{
		"watch":               "true",
		"resourceVersion":     version,
		"allowWatchBookmarks": "true",
		"timeoutSeconds":      strconv.Itoa(max(1, int(limit.Seconds()))),
	}
	maps.Copy(q, query)
	var mine error
	err := c.stream(ctx, doing, limit+grace, request{verb: "GET", path: path, query: q}, func(r io.Reader) error {
		return frames(r, doing, func(kind string, object *T) error {
			mine = see(kind, object)
			return mine
		})
	})
	if mine != nil {
		return mine
	}
	return err
}

func frames[T any](r io.Reader, doing string, see func(kind string, object *T) error) error {
	from := &bounded{from: r, object: largest}
	dec := json.NewDecoder(from)
	for {
		var frame struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := dec.Decode(&frame); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		from.object = largest
		if frame.Type == "ERROR" {
			var s metav1.Status
			if err := json.Unmarshal(frame.Object, &s); err != nil {
				return err
			}
			return explainStatus(doing, s)
		}
		var object T
		if err := lenient(json.Unmarshal(frame.Object, &object)); err != nil {
			return err
		}
		if err := see(frame.Type, &object); err != nil {
			return err
		}
	}
}
