package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

const ingressClass = "lbremedy.ingress.networking.knative.dev"

// An ingress replaces Kourier, which ACK uses for Knative: it forwards calls of functions' host names to the activator or to
// instances, according to Knative's Ingresses. It supports only what lbremedy needs: one revision for each name.
type ingress struct {
	kube     *kubernetes.Client
	listener net.Listener
	end      func()

	mu     sync.RWMutex
	routes map[string]route // by host name
}

type route struct {
	host    string
	headers map[string]string
}

type knativeIngress struct {
	Metadata struct {
		Namespace, Name string
		Generation      int64
		Annotations     map[string]string
	}
	Spec struct {
		Rules []struct {
			Hosts []string
			HTTP  struct {
				Paths []struct {
					AppendHeaders map[string]string
					Splits        []struct {
						ServiceNamespace, ServiceName string
						ServicePort                   json.Number
						AppendHeaders                 map[string]string
					}
				}
			}
		}
	}
	Status struct{ ObservedGeneration int64 }
}

const knativeIngresses = "/apis/networking.internal.knative.dev/v1alpha1"

func openIngress(ctx context.Context, kube *kubernetes.Client) (*ingress, error) {
	i := &ingress{kube: kube}
	var err error
	if i.listener, err = net.Listen("tcp", net.JoinHostPort(address, "80")); err != nil {
		return nil, fmt.Errorf("listen as an ingress: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan struct{})
	i.end = func() { cancel(); <-followed }
	go func() {
		defer close(followed)
		i.follow(ctx)
	}()
	// Only the node's DNS resolves names of the cluster.
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, net.JoinHostPort(address, "53"))
	}}
	dialer := &net.Dialer{Timeout: 5 * time.Second, Resolver: resolver}
	proxy := &httputil.ReverseProxy{
		// Instances come and go: a kept connection would notice that late.
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			to := i.route(r.In.Host)
			r.SetURL(&url.URL{Scheme: "http", Host: to.host})
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			for k, v := range to.headers {
				r.Out.Header.Set(k, v)
			}
		},
	}
	go http.Serve(i.listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.route(r.Host).host == "" {
			http.Error(w, "no Ingress has the host "+r.Host, http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	return i, nil
}

func (i *ingress) route(host string) route {
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.routes[name]
}

func (i *ingress) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if all, err := i.list(ctx); err == nil { // none exist before Knative is installed
			i.take(ctx, all)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (i *ingress) list(ctx context.Context) ([]knativeIngress, error) {
	data, err := i.kube.CoreV1().RESTClient().Get().AbsPath(knativeIngresses + "/ingresses").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []knativeIngress }
	return list.Items, json.Unmarshal(data, &list)
}

func (i *ingress) take(ctx context.Context, all []knativeIngress) {
	routes := map[string]route{}
	var news []knativeIngress
	for _, in := range all {
		if in.Metadata.Annotations["networking.knative.dev/ingress.class"] != ingressClass {
			continue
		}
		for _, rule := range in.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				for _, split := range path.Splits {
					to := route{headers: map[string]string{}}
					to.host = fmt.Sprintf("%s.%s.svc.cluster.local:%s", split.ServiceName, split.ServiceNamespace, split.ServicePort)
					for _, headers := range []map[string]string{path.AppendHeaders, split.AppendHeaders} {
						maps.Copy(to.headers, headers)
					}
					for _, host := range rule.Hosts {
						routes[strings.ToLower(host)] = to
					}
				}
			}
		}
		if in.Status.ObservedGeneration != in.Metadata.Generation {
			news = append(news, in)
		}
	}
	i.mu.Lock()
	i.routes = routes
	i.mu.Unlock()
	for _, in := range news {
		i.acknowledge(ctx, in)
	}
}

func (i *ingress) acknowledge(ctx context.Context, in knativeIngress) {
	type object = map[string]any
	now := time.Now().UTC().Format(time.RFC3339)
	var conditions []object
	for _, kind := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		conditions = append(conditions, object{"type": kind, "status": "True", "lastTransitionTime": now})
	}
	here := object{"ingress": []object{{"ip": address}}}
	patch, err := json.Marshal(object{"status": object{
		"observedGeneration": in.Metadata.Generation, "conditions": conditions, "publicLoadBalancer": here, "privateLoadBalancer": here,
	}})
	if err != nil {
		return
	}
	// A failed patch is retried, because the Ingress is unchanged.
	i.kube.CoreV1().RESTClient().Patch(types.MergePatchType).
		AbsPath(knativeIngresses + "/namespaces/" + in.Metadata.Namespace + "/ingresses/" + in.Metadata.Name + "/status").Body(patch).DoRaw(ctx)
}

func (i *ingress) Close() {
	i.end()
	i.listener.Close()
}
