// Package kubernetes has the part of the Kubernetes client that tests and simulators use. The whole of
// k8s.io/client-go/kubernetes includes every version of every API: compiling it takes two minutes of processor time (again with
// the race detector), and linking it into a test's program a second.
package kubernetes

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	typedadmission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	typedapps "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedauthorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typeddiscovery "k8s.io/client-go/kubernetes/typed/discovery/v1"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	typedpolicy "k8s.io/client-go/kubernetes/typed/policy/v1"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A Client uses an API server. Its methods are those of client-go's Interface.
type Client struct {
	discovery     discovery.DiscoveryInterface
	admission     typedadmission.AdmissionregistrationV1Interface
	apps          typedapps.AppsV1Interface
	authorization typedauthorization.AuthorizationV1Interface
	core          typedcore.CoreV1Interface
	slices        typeddiscovery.DiscoveryV1Interface
	events        typedevents.EventsV1Interface
	policy        typedpolicy.PolicyV1Interface
	rbac          typedrbac.RbacV1Interface
}

// New returns a client with one connection.
func New(config *rest.Config) (*Client, error) {
	shared := rest.CopyConfig(config)
	if shared.UserAgent == "" {
		shared.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	h, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kubernetes: %w", err)
	}
	c := &Client{}
	for _, make := range []func() error{
		func() (err error) {
			c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(shared, h)
			return err
		},
		func() (err error) { c.admission, err = typedadmission.NewForConfigAndClient(shared, h); return err },
		func() (err error) { c.apps, err = typedapps.NewForConfigAndClient(shared, h); return err },
		func() (err error) {
			c.authorization, err = typedauthorization.NewForConfigAndClient(shared, h)
			return err
		},
		func() (err error) { c.core, err = typedcore.NewForConfigAndClient(shared, h); return err },
		func() (err error) { c.slices, err = typeddiscovery.NewForConfigAndClient(shared, h); return err },
		func() (err error) { c.events, err = typedevents.NewForConfigAndClient(shared, h); return err },
		func() (err error) { c.policy, err = typedpolicy.NewForConfigAndClient(shared, h); return err },
		func() (err error) { c.rbac, err = typedrbac.NewForConfigAndClient(shared, h); return err },
	} {
		if err := make(); err != nil {
			return nil, fmt.Errorf("make a client of Kubernetes: %w", err)
		}
	}
	return c, nil
}

// Discovery returns the discovery client.
func (c *Client) Discovery() discovery.DiscoveryInterface { return c.discovery }

// AdmissionregistrationV1 returns the client of admissionregistration.k8s.io/v1.
func (c *Client) AdmissionregistrationV1() typedadmission.AdmissionregistrationV1Interface {
	return c.admission
}

// AppsV1 returns the client of apps/v1.
func (c *Client) AppsV1() typedapps.AppsV1Interface { return c.apps }

// AuthorizationV1 returns the client of authorization.k8s.io/v1.
func (c *Client) AuthorizationV1() typedauthorization.AuthorizationV1Interface {
	return c.authorization
}

// CoreV1 returns the client of v1.
func (c *Client) CoreV1() typedcore.CoreV1Interface { return c.core }

// DiscoveryV1 returns the client of discovery.k8s.io/v1.
func (c *Client) DiscoveryV1() typeddiscovery.DiscoveryV1Interface { return c.slices }

// EventsV1 returns the client of events.k8s.io/v1.
func (c *Client) EventsV1() typedevents.EventsV1Interface { return c.events }

// PolicyV1 returns the client of policy/v1.
func (c *Client) PolicyV1() typedpolicy.PolicyV1Interface { return c.policy }

// RbacV1 returns the client of rbac.authorization.k8s.io/v1.
func (c *Client) RbacV1() typedrbac.RbacV1Interface { return c.rbac }

// Informers are informers of some kinds of objects: one for each requested kind.
type Informers struct {
	client            *Client
	namespace, labels string
	of                map[string]cache.SharedIndexInformer
	started           map[string]bool
	running           sync.WaitGroup
}

// Informers returns informers for a namespace (empty: all) and a label selector (empty: any), not safe for concurrent use.
func (c *Client) Informers(namespace, labels string) *Informers {
	return &Informers{client: c, namespace: namespace, labels: labels, of: map[string]cache.SharedIndexInformer{}, started: map[string]bool{}}
}

// Services returns the informer of Services.
func (i *Informers) Services() cache.SharedIndexInformer {
	return i.informer(i.client.core.RESTClient(), "services", &corev1.Service{})
}

// Events returns the informer of Events of v1.
func (i *Informers) Events() cache.SharedIndexInformer {
	return i.informer(i.client.core.RESTClient(), "events", &corev1.Event{})
}

// Pods returns the informer of Pods.
func (i *Informers) Pods() cache.SharedIndexInformer {
	return i.informer(i.client.core.RESTClient(), "pods", &corev1.Pod{})
}

// Nodes returns the informer of nodes, in all namespaces.
func (i *Informers) Nodes() cache.SharedIndexInformer {
	return i.informer(i.client.core.RESTClient(), "nodes", &corev1.Node{})
}

// EndpointSlices returns the informer of EndpointSlices.
func (i *Informers) EndpointSlices() cache.SharedIndexInformer {
	return i.informer(i.client.slices.RESTClient(), "endpointslices", &discoveryv1.EndpointSlice{})
}

func (i *Informers) informer(client rest.Interface, resource string, example runtime.Object) cache.SharedIndexInformer {
	if have, ok := i.of[resource]; ok {
		return have
	}
	list := cache.NewFilteredListWatchFromClient(client, resource, i.namespace, func(o *metav1.ListOptions) { o.LabelSelector = i.labels })
	made := cache.NewSharedIndexInformer(list, example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	i.of[resource] = made
	return made
}

// Start runs the requested informers until ctx ends.
func (i *Informers) Start(ctx context.Context) {
	for resource, informer := range i.of {
		if !i.started[resource] {
			i.started[resource] = true
			i.running.Go(func() { informer.RunWithContext(ctx) })
		}
	}
}

// Wait waits until all informers have ended.
func (i *Informers) Wait() { i.running.Wait() }
