package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// largest is etcd's limit for one object (--max-request-bytes).
const largest = 1536 << 10

func fat(t testing.TB, count int, item []byte) *kube.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		if q.Get("watch") != "" {
			return
		}
		limit, _ := strconv.Atoi(q.Get("limit"))
		from, _ := strconv.Atoi(q.Get("continue"))
		to, next := count, ""
		if limit > 0 && from+limit < count {
			to = from + limit
			next = strconv.Itoa(to)
		}
		fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},"items":[`, next)
		for n := from; n < to; n++ {
			if n > from {
				_, _ = w.Write([]byte(","))
			}
			if _, err := w.Write(item); err != nil {
				return
			}
		}
		_, _ = w.Write([]byte("]}"))
	}))
	t.Cleanup(server.Close)
	c, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// thick returns an object of the largest size: a text in each place, or a label for each few bytes.
func thick(kind string) []byte {
	var out bytes.Buffer
	out.WriteString(`{"metadata":{"namespace":"shop","name":"web","uid":"u","resourceVersion":"6","finalizers":["service.k8s.alibaba/nlb"]`)
	end := `},"involvedObject":{"kind":"Service","namespace":"shop","name":"web","uid":"u"},"source":{"component":"service-controller"},` +
		`"reason":"EnsuredLoadBalancer","type":"Normal","lastTimestamp":"2026-01-02T15:04:05Z","spec":{"type":"LoadBalancer"}}`
	switch kind {
	case "message":
		fmt.Fprintf(&out, `,"annotations":{},"managedFields":[]},"message":"%s","spec":{"containers":[{"env":[{"name":"X","value":"%s"}]}]}`,
			strings.Repeat("x", largest/2), strings.Repeat(`\n`, largest/4))
		end = "," + strings.TrimSuffix(strings.TrimPrefix(end, "},"), `,"spec":{"type":"LoadBalancer"}}`) + "}"
	case "fields":
		out.WriteString(`,"managedFields":[{"manager":"m","fieldsV1":{`)
		for n := 0; out.Len() < largest; n++ {
			fmt.Fprintf(&out, `%q:{},`, fmt.Sprint("f:", n))
		}
		out.WriteString(`"f:x":{}}}]`)
	case "labels":
		out.WriteString(`,"labels":{`)
		for n := 0; out.Len() < largest; n++ {
			fmt.Fprintf(&out, `"l%d":"v",`, n)
		}
		out.WriteString(`"l":"v"}`)
	case "tolerations":
		out.WriteString(`},"spec":{"tolerations":[`)
		for out.Len() < largest {
			out.WriteString(`{"operator":"Exists"},`)
		}
		out.WriteString(`{"operator":"Exists"}],"taints":[]`)
		end = "}}"
	case "endpoints":
		out.WriteString(`},"addressType":"IPv4","endpoints":[`)
		for out.Len() < largest {
			out.WriteString(`{"addresses":["10.0.0.1"],"conditions":{"ready":true}},`)
		}
		out.WriteString(`{"addresses":["10.0.0.1"],"conditions":{}}]`)
		end = "}"
	}
	out.WriteString(end)
	return out.Bytes()
}

var lists = map[string]func(context.Context, *kube.Cluster) (any, error){
	"Services":      func(ctx context.Context, c *kube.Cluster) (any, error) { return c.Services(ctx) },
	"ServicesNamed": func(ctx context.Context, c *kube.Cluster) (any, error) { return c.ServicesNamed(ctx, "web") },
	"EachService": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return nil, c.EachService(ctx, func(*corev1.Service) error { return nil })
	},
	"EachLoadBalancer": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return nil, c.EachLoadBalancer(ctx, func(kube.Object) {})
	},
	"Nodes":      func(ctx context.Context, c *kube.Cluster) (any, error) { return c.Nodes(ctx) },
	"DaemonSets": func(ctx context.Context, c *kube.Cluster) (any, error) { return c.DaemonSets(ctx, "kube-system") },
	"EventsVersion": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return c.EventsVersion(ctx)
	},
	"ListEvents": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return c.ListEvents(ctx, kube.Selection{}, func(kube.Event) error { return nil })
	},
	"Evidence": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return nil, c.Evidence(ctx, kube.Selection{}, func(kube.Event) error { return nil })
	},
	"EvidenceOf": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return nil, c.EvidenceOf(ctx, event.KindNode, kube.Selection{}, func(kube.Event) error { return nil })
	},
	"Successes":      func(ctx context.Context, c *kube.Cluster) (any, error) { return c.Successes(ctx, "shop", "u") },
	"Pods":           func(ctx context.Context, c *kube.Cluster) (any, error) { return c.Pods(ctx, "shop", nil) },
	"EndpointSlices": func(ctx context.Context, c *kube.Cluster) (any, error) { return c.EndpointSlices(ctx, "shop", "web") },
	"EachEndpointSlice": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return nil, c.EachEndpointSlice(ctx, func(*discoveryv1.EndpointSlice) error { return nil })
	},
	"Approvals": func(ctx context.Context, c *kube.Cluster) (any, error) { return c.Approvals(ctx, "") },
	"EachApproval": func(ctx context.Context, c *kube.Cluster) (any, error) {
		return nil, c.EachApproval(ctx, func(kube.Approval) {})
	},
	"Webhooks": func(ctx context.Context, c *kube.Cluster) (any, error) { return c.Webhooks(ctx, "x") },
}

var others = []string{
	"Service", "ServiceUID", "ServiceAccount", "ConfigMap", "Deployment", "Namespace", "Pod", "Node", "BoundPolicy", "Guard", "Clock", "Me", "MayI", "Allowed",
	"CreateApproval", "PatchApprovalStatus", "WatchEvents", "WatchService", "Version",
}

func memoryOfAFunction(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("../../infra/cluster/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Knative struct {
			Resources struct {
				Limits struct {
					Memory resource.Quantity `json:"memory"`
				} `json:"limits"`
			} `json:"resources"`
		} `json:"knative"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return uint64(values.Knative.Resources.Limits.Memory.Value())
}

func peak(f func()) uint64 {
	live := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before, most := live(), uint64(0)
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, live())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	f()
	runtime.GC()
	close(done)
	<-watched
	return max(most, live(), before) - before
}

// Every list fits the memory of the smallest program that lists, whatever the objects contain and however many exist. A list that is
// not read to its end is an error.
func TestLists(t *testing.T) {
	typ := reflect.TypeFor[*kube.Cluster]()
	known := map[string]bool{}
	for _, name := range others {
		known[name] = true
	}
	for i := range typ.NumMethod() {
		if name := typ.Method(i).Name; lists[name] == nil && !known[name] {
			t.Errorf("does the method %s list? Name it here", name)
		}
	}
	limit := memoryOfAFunction(t)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(limit / 10 * 9)))
	const base = 24 << 20 // an idle function
	for kind, count := range map[string]int{"message": 300, "fields": 24, "labels": 8, "tolerations": 12, "endpoints": 12} {
		item := thick(kind)
		if len(item) < largest/10*9 {
			t.Fatalf("an object of %d bytes", len(item))
		}
		if testing.Short() {
			count = (count + 11) / 12 // the race detector takes minutes for all of them
		}
		c := fat(t, count, item)
		for name, list := range lists {
			if kind == "message" && name != "ListEvents" && name != "Pods" {
				continue // half a gigabyte
			}
			var got any
			var err error
			took := time.Now()
			most := peak(func() {
				got, err = list(t.Context(), c)
			})
			n := 0
			if v := reflect.ValueOf(got); v.IsValid() && v.Kind() == reflect.Slice {
				n = v.Len()
			}
			t.Logf("%s of %s: %d MiB live, %v, %d items, %v", name, kind, most>>20, time.Since(took).Round(time.Millisecond), n, err)
			if most+base > limit {
				t.Errorf("%s of %d objects with large %s takes %d MiB", name, count, kind, most>>20)
			}
			if err != nil && (!errors.Is(err, kube.ErrIncomplete) || n > 0) {
				t.Errorf("%s of %d objects with large %s: %d items, %v", name, count, kind, n, err)
			}
			if err != nil && kind == "message" {
				t.Errorf("%s of %d objects with large texts: %v", name, count, err)
			}
			runtime.KeepAlive(got)
		}
	}
}

func TestIncompleteList(t *testing.T) {
	item := []byte(`{"metadata":{"name":"a"},"involvedObject":{"uid":"u"},"message":"` + strings.Repeat("x", largest) + `"}`)
	for name, c := range map[string]*kube.Cluster{
		"bytes": fat(t, 512<<20/largest+1, item),
		"items": fat(t, 100_001, []byte(`{"metadata":{"name":"a"}}`)),
	} {
		seen := 0
		version, err := c.ListEvents(t.Context(), kube.Selection{}, func(kube.Event) error { seen++; return nil })
		if !errors.Is(err, kube.ErrIncomplete) || seen == 0 || version != "7" {
			t.Errorf("%s: %d seen, version %q, %v", name, seen, version, err)
		}
		if name == "bytes" {
			continue
		}
		if all, err := c.Services(limited(t)); err == nil || all != nil {
			t.Errorf("%s: %d Services, %v", name, len(all), err)
		}
	}
}

// An answer by a proxy in place of the API server says nothing of an object.
func TestForeignAnswers(t *testing.T) {
	const page = "<html>nothing here</html>"
	read := func(c *kube.Cluster) error { _, err := c.Service(t.Context(), "shop", "web"); return err }
	patch := func(c *kube.Cluster) error {
		_, err := kube.NewWriter(c).PatchService(t.Context(), "shop", "web", "7", kube.ServicePatch{})
		return err
	}
	node := func(c *kube.Cluster) error { _, err := c.Node(t.Context(), "node-1"); return err }
	list := func(c *kube.Cluster) error { _, err := c.Nodes(t.Context()); return err }
	for name, tt := range map[string]struct {
		status int
		body   string
		call   func(*kube.Cluster) error
		want   error
	}{
		"a page says not found":         {404, page, read, kube.ErrUnavailable},
		"a page says gone":              {410, page, list, kube.ErrUnavailable},
		"a page says conflict":          {409, page, patch, kube.ErrUnavailable},
		"a page about a kind":           {404, page, func(c *kube.Cluster) error { _, err := c.DaemonSets(t.Context(), "shop"); return err }, kube.ErrNotFound},
		"the API server says not found": {404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, read, kube.ErrNotFound},
		"an empty object":               {200, `{}`, read, kube.ErrUnavailable},
		"no UID":                        {200, `{"metadata":{"namespace":"shop","name":"web"}}`, read, kube.ErrUnavailable},
		"another name":                  {200, `{"metadata":{"namespace":"shop","name":"web-2","uid":"u"}}`, read, kube.ErrUnavailable},
		"another namespace":             {200, `{"metadata":{"namespace":"pay","name":"web","uid":"u"}}`, read, kube.ErrUnavailable},
		"the object":                    {200, `{"metadata":{"namespace":"shop","name":"web","uid":"u"}}`, read, nil},
		"an empty object for a patch":   {200, `{}`, patch, kube.ErrUnavailable},
		"the patched object":            {200, `{"metadata":{"namespace":"shop","name":"web","uid":"u"}}`, patch, nil},
		"an empty list":                 {200, `{}`, list, kube.ErrUnavailable},
		"a list without items":          {200, `{"metadata":{"resourceVersion":"7"}}`, list, kube.ErrUnavailable},
		"a list that hides its rest":    {200, `{"metadata":{"continue":{}},"items":[]}`, list, kube.ErrUnavailable},
		"a list of nothing":             {200, `{"metadata":{},"items":null}`, list, nil},
		"another cluster-wide object":   {200, `{"metadata":{"name":"node-2","uid":"u"}}`, node, kube.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if strings.HasPrefix(tt.body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			c, err := kube.New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.call(c); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// The write may have been made if something else answers for the API server.
func TestForeignAnswerToWrite(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) }))
	defer server.Close()
	c, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var told []event.Call
	w := kube.NewWriter(c).OnWrite(func(c event.Call) { told = append(told, c) })
	if _, err := w.PatchService(t.Context(), "shop", "web", "7", kube.ServicePatch{}); err == nil {
		t.Error("the answer was accepted")
	}
	if len(told) != 1 || !told[0].Unsure {
		t.Errorf("told %+v, want one write that may have been made", told)
	}
}
