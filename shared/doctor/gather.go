package doctor

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Source says where and how a snapshot is read.
type Source struct {
	Cluster string // ID of the ACK cluster
	Kube    *kube.Cluster
	Cloud   *cloud.Reader
	Now     time.Time
	// Only is the one Service to read, "namespace/name", with what belongs to it; empty: all.
	Only string
	// Manifests are Services about to be applied, which replace the cluster's; only load balancers that they name are read. Nil: none.
	Manifests []corev1.Service
	// Stream returns the stream with the failures; its error is that of the parts Failures and Delays. Nil: they are left out.
	Stream func(context.Context) (*stream.Stream, error)
	// Counts leaves out the backends of CLBs, whose number the list of groups contains.
	Counts bool
	Policy func(context.Context) (remedy.Policy, error)
	// Limit bounds the reading time; zero: no limit. Parts not read by then fail, for each load balancer separately.
	Limit time.Duration
	// Progress is called with how many of a part have been read; total is 0 while unknown. Nil: not called.
	Progress func(p Part, done, total int)
}

const (
	// rate is the most calls a second to each product. The cloud's limit covers the controller, too: the doctor slows down (cloud.Reader.Limited).
	rate   = 150
	atOnce = 24  // concurrent calls; at 50 ms each they fill the rate three times over
	said   = 300 // bytes kept of an Event's message
)

// mostKept limits the encoded bytes of Services, and of endpoints: a tenant's Services must not fill the memory (doctor.resources of the chart).
const mostKept = 64 << 20

type room int

func (r *room) take(size int) error {
	if *r += room(size); *r > mostKept {
		return say.Errorf("they are more than %d MiB, which is more than is read", mostKept>>20)
	}
	return nil
}

// A Reading describes how a part was read.
type Reading struct {
	Part   Part    `json:"part"`
	Count  int     `json:"count"`  // number of objects
	TookMs float64 `json:"tookMs"` // milliseconds
	Error  string  `json:"error,omitempty"`
	Left   string  `json:"left,omitempty"` // why it was left out
}

// LeftOut says why the part was left out, or nothing.
func (r Reading) LeftOut() say.Text {
	if r.Left == "" {
		return nil
	}
	return say.F("The %s were left out: %s.", r.Part.words(), say.Text{{Format: r.Left}})
}

// Gather reads the parts, and the ones they need. A part that can't be read fails in the snapshot; Gather returns only the context's error.
func Gather(ctx context.Context, src Source, list []Part) (*Snapshot, []Reading, error) {
	g := &snapshotReader{
		Source: src, cloud: src.Cloud.Limited(rate), free: make(chan struct{}, atOnce), done: map[Part]chan struct{}{},
		s: &Snapshot{Time: src.Now, Cluster: src.Cluster, Region: src.Cloud.Region(), Given: closure(list), Failed: map[Part]error{}},
	}
	if g.Progress == nil {
		g.Progress = func(Part, int, int) {}
	}
	for _, p := range g.s.Given {
		g.done[p] = make(chan struct{})
	}
	reading := ctx
	if src.Limit > 0 {
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, src.Limit)
		defer cancel()
	}
	var wait sync.WaitGroup
	for _, p := range g.s.Given {
		wait.Go(func() { g.read(reading, p) })
	}
	wait.Wait()
	slices.SortStableFunc(g.readings, func(a, b Reading) int { return strings.Compare(string(a.Part), string(b.Part)) })
	return g.s, g.readings, ctx.Err()
}

type snapshotReader struct {
	Source
	cloud *cloud.Reader
	free  chan struct{}          // one element for each call under way
	done  map[Part]chan struct{} // closed when the part has been read

	mu       sync.Mutex // guards what several parts write
	s        *Snapshot
	readings []Reading
}

func (g *snapshotReader) read(ctx context.Context, p Part) {
	defer close(g.done[p])
	var err error
	for _, need := range parts[p].needs {
		<-g.done[need]
		g.mu.Lock()
		if failed := g.s.Failed[need]; failed != nil && need != CLBs && need != NLBs && need != Listeners {
			err = say.Errorf("the %s could not be read: %w", need.words(), failed)
		}
		g.mu.Unlock()
	}
	r := Reading{Part: p}
	began := time.Now()
	if err == nil {
		r.Count, err = parts[p].read(ctx, g)
		err = late(ctx, err)
	}
	r.TookMs = milliseconds(time.Since(began))
	if err == nil && (p == Failures && g.s.Failures == nil || p == Delays && g.s.Delays == nil) {
		r.Left = say.F("no NATS is named in which they are kept").String()
	} else if err == nil && p == Delays && r.Count == 0 {
		r.Left = say.F("no fix of lbremedy has measured any yet").String()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		r.Error = err.Error()
		g.s.Failed[p] = err
	}
	g.readings = append(g.readings, r)
}

func late(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return say.Errorf("the time for reading was up")
	}
	return err
}

func readServices(ctx context.Context, g *snapshotReader) (int, error) {
	g.s.Marks = map[types.UID]Mark{}
	var kept room
	add := func(svc *corev1.Service) error {
		if svc.Namespace == ccm.IngressNamespace && svc.Name == ccm.IngressService {
			g.s.Ingress.Service = true
		}
		if !watched(svc) {
			return nil
		}
		mark := Mark{Synced: ccm.HashWritten(svc), Changed: ccm.Changed(svc)}
		svc.ManagedFields = nil
		if err := kept.take(svc.Size()); err != nil {
			return err
		}
		g.s.Marks[svc.UID] = mark
		g.s.Services = append(g.s.Services, *svc)
		g.Progress(Services, len(g.s.Services), 0)
		return nil
	}
	var err error
	if g.Only != "" {
		ns, name, _ := strings.Cut(g.Only, "/")
		var svc *corev1.Service
		if svc, err = g.Kube.Service(ctx, ns, name); err == nil {
			err = add(svc)
		}
	} else {
		err = g.Kube.EachService(ctx, add)
	}
	if g.Manifests != nil {
		g.apply(late(ctx, err))
		err = nil
	}
	slices.SortStableFunc(g.s.Services, func(a, b corev1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return len(g.s.Services), err
}

// watched reports whether checks examine the Service: it has a load balancer or node ports, or the controller still holds it.
func watched(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer || svc.Spec.Type == corev1.ServiceTypeNodePort ||
		slices.Contains(svc.Finalizers, ccm.CLBFinalizer) || slices.Contains(svc.Finalizers, ccm.NLBFinalizer)
}

func readIngress(ctx context.Context, g *snapshotReader) (int, error) {
	if g.Only != "" {
		return 0, nil // only a cluster has one
	}
	d, err := g.Kube.Deployment(ctx, ccm.IngressNamespace, ccm.IngressController)
	if err == nil {
		g.s.Ingress.Kind, g.s.Ingress.Ready = "Deployment", d.Status.Ready
		return 1, nil
	}
	if !errors.Is(err, kube.ErrNotFound) {
		return 0, err
	}
	sets, err := g.Kube.DaemonSets(ctx, ccm.IngressNamespace)
	if err != nil {
		return 0, err
	}
	for i := range sets {
		if sets[i].Name == ccm.IngressController {
			g.s.Ingress.Kind, g.s.Ingress.Ready = "DaemonSet", sets[i].Status.Ready
			return 1, nil
		}
	}
	return 0, nil
}

func readEndpoints(ctx context.Context, g *snapshotReader) (int, error) {
	wanted := map[string]bool{}
	for i := range g.s.Services {
		wanted[g.s.Services[i].Namespace+"/"+g.s.Services[i].Name] = true
	}
	g.s.Slices, g.s.Moved = map[string][]discoveryv1.EndpointSlice{}, map[string]time.Time{}
	nodes := map[string]*string{} // one string per name, however many endpoints there are
	n := 0
	var kept room
	add := func(slice *discoveryv1.EndpointSlice) error {
		key := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
		if !wanted[key] {
			return nil
		}
		slim := discoveryv1.EndpointSlice{AddressType: slice.AddressType, Ports: slice.Ports, Endpoints: make([]discoveryv1.Endpoint, 0, len(slice.Endpoints))}
		for _, e := range slice.Endpoints {
			kept := discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions}
			if e.TargetRef != nil {
				kept.TargetRef = &corev1.ObjectReference{Kind: e.TargetRef.Kind, Name: e.TargetRef.Name}
			}
			if e.NodeName != nil {
				if nodes[*e.NodeName] == nil {
					nodes[*e.NodeName] = e.NodeName
				}
				kept.NodeName = nodes[*e.NodeName]
			}
			slim.Endpoints = append(slim.Endpoints, kept)
		}
		if err := kept.take(slim.Size()); err != nil {
			return err
		}
		n += len(slim.Endpoints)
		g.s.Slices[key] = append(g.s.Slices[key], slim)
		for _, f := range slice.ManagedFields {
			if f.Time != nil && f.Time.After(g.s.Moved[key]) {
				g.s.Moved[key] = f.Time.Time
			}
		}
		g.Progress(Endpoints, n, 0)
		return nil
	}
	if g.Only == "" {
		return n, g.Kube.EachEndpointSlice(ctx, add)
	}
	ns, name, _ := strings.Cut(g.Only, "/")
	list, err := g.Kube.EndpointSlices(ctx, ns, name)
	for i := range list {
		err = errors.Join(err, add(&list[i]))
	}
	return n, err
}

func readNodes(ctx context.Context, g *snapshotReader) (int, error) {
	list, err := g.Kube.Nodes(ctx)
	for i := range list {
		node := &list[i]
		g.s.Nodes = append(g.s.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, CreationTimestamp: node.CreationTimestamp},
			Spec:       corev1.NodeSpec{ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
			Status:     corev1.NodeStatus{Conditions: node.Status.Conditions, Addresses: node.Status.Addresses},
		})
	}
	slices.SortStableFunc(g.s.Nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return len(list), err
}

func readEvents(ctx context.Context, g *snapshotReader) (int, error) {
	wanted := map[types.UID]bool{}
	for i := range g.s.Services {
		wanted[g.s.Services[i].UID] = true
	}
	g.s.Events, g.s.Unkept = map[types.UID][]Event{}, map[types.UID]int{}
	n := 0
	which := kube.Selection{Fields: "involvedObject.kind=Service"}
	if g.Only != "" {
		which.Namespace, _, _ = strings.Cut(g.Only, "/")
	}
	err := g.Kube.Evidence(ctx, which, func(e kube.Event) error {
		g.claim(e)
		uid := types.UID(e.Object.UID)
		if !wanted[uid] {
			return nil
		}
		g.keep(uid, Event{
			Reason: brief(e.Reason), Type: brief(e.Type), Component: e.Component, Message: brief(e.Message), Count: e.Count, First: e.First, Last: e.Last,
		})
		n++
		g.Progress(Events, n, 0)
		return nil
	})
	for _, list := range g.s.Events {
		slices.SortStableFunc(list, func(a, b Event) int { return a.Last.Compare(b.Last) })
	}
	return n, err
}

// readWriters reads who may write Events in the controller's name; without a policy, anybody may.
func readWriters(ctx context.Context, g *snapshotReader) (int, error) {
	return g.bound(ctx, WritersPolicy, &g.s.Writers)
}

func readGuard(ctx context.Context, g *snapshotReader) (int, error) {
	return g.bound(ctx, guard.Policy, &g.s.Guard)
}

// bound reads how far an admission policy is in force, which a missing one is not.
func (g *snapshotReader) bound(ctx context.Context, name string, to *kube.Binding) (n int, err error) {
	*to, err = g.Kube.BoundPolicy(ctx, name)
	if errors.Is(err, kube.ErrNotFound) {
		return 0, nil
	}
	return 1, err
}

// readProtection reads ACK's own deletion protection of the namespaces that the policy protects and of the controller's Services in them.
func readProtection(ctx context.Context, g *snapshotReader) (int, error) {
	names := map[string][]string{} // of Services, by namespace
	for _, svc := range g.s.OfType() {
		if g.s.Policy.Doctor.Protects(svc.Namespace) {
			names[svc.Namespace] = append(names[svc.Namespace], svc.Name)
		}
	}
	namespaces := sortedKeys(names)
	g.s.Protected = map[string]bool{}
	if len(namespaces) == 0 {
		return 0, nil
	}
	list, err := g.cloud.CS.DeleteProtection(ctx, "", namespaces)
	maps.Copy(g.s.Protected, list)
	for _, ns := range namespaces {
		if err != nil {
			break
		}
		list, err = g.cloud.CS.DeleteProtection(ctx, ns, names[ns])
		for name, on := range list {
			g.s.Protected[ns+"/"+name] = on
		}
	}
	return len(g.s.Protected), err
}

// WritersPolicy names the admission policy and binding for writers of Events in the controller's name (infra/cluster/event-writers.yaml).
const WritersPolicy = "lbremedy-event-writers"

// mostClaims is how many Events in the controller's name are kept: more than three for each of 5,000 Services. A flood must not fill the memory.
const mostClaims = 16_000

// mostEvents is how many Events of a Service are kept, the newest: the controller writes up to 25 at once and 12 in an hour.
const mostEvents = 300

func (g *snapshotReader) keep(uid types.UID, e Event) {
	list := g.s.Events[uid]
	if len(list) < mostEvents {
		g.s.Events[uid] = append(list, e)
		return
	}
	g.s.Unkept[uid]++
	oldest := 0
	for i := range list {
		if list[i].Last.Before(list[oldest].Last) {
			oldest = i
		}
	}
	if list[oldest].Last.Before(e.Last) {
		list[oldest] = e
	}
}

// brief returns a copy of the beginning of a text, which doesn't keep the rest in memory.
func brief(s string) string { return strings.Clone(strings.ToValidUTF8(s[:min(len(s), said)], "")) }

func briefly(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), mostWriters)] {
		out = append(out, brief(s))
	}
	return out
}

const mostWriters = 8

// claim keeps what an Event in the controller's name says about its origin.
func (g *snapshotReader) claim(e kube.Event) {
	if len(g.s.Claims) == mostClaims {
		g.s.Unclaimed++
		return
	}
	o := e.Object
	g.s.Claims = append(g.s.Claims, Claim{
		Object:    kube.Object{Kind: o.Kind, Namespace: brief(o.Namespace), Name: brief(o.Name), UID: brief(o.UID)},
		Component: e.Component, Writers: briefly(e.Writers), Host: brief(e.Host), First: e.First, Last: e.Last, Created: e.Created,
	})
}

// readFailures reads from the stream, not the journal, the newest failed sync of each Service and class.
func readFailures(ctx context.Context, g *snapshotReader) (int, error) {
	from, err := g.stream(ctx)
	if from == nil || err != nil {
		return 0, err
	}
	heard, err := ledger.ExporterSeen(ctx, from, g.Cluster)
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		return 0, err
	}
	uid := "*"
	if g.Only != "" && len(g.s.Services) == 1 {
		uid = string(g.s.Services[0].UID)
	}
	found := map[types.UID]time.Time{}
	err = from.EachLast(ctx, stream.Failed, event.FailedSubject(g.Cluster, "*", uid), func(m stream.Message) error {
		// An unreadable one counts too: its reader reports it.
		at := m.Time
		if e, err := event.DecodeNATS(m.Header, m.Data); err == nil {
			if f, err := event.ReadFailed(e); err == nil {
				at = f.Last
			}
		}
		if of := types.UID(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]); at.After(found[of]) {
			found[of] = at
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	g.s.Failures, g.s.ExporterSeen = found, heard
	return len(found), nil
}

func (g *snapshotReader) stream(ctx context.Context) (*stream.Stream, error) {
	if g.Stream == nil {
		return nil, nil
	}
	return g.Stream(ctx)
}

// mostDelays is how many measured delays are kept: older ones don't show how the controller keeps up now.
const mostDelays = 100

// readDelays reads from the newest record of each case how long the controller took to sync.
func readDelays(ctx context.Context, g *snapshotReader) (int, error) {
	from, err := g.stream(ctx)
	if from == nil || err != nil {
		return 0, err
	}
	type measured struct {
		at   time.Time
		took time.Duration
	}
	var all []measured
	err = from.EachLast(ctx, stream.Cases, event.CaseSubject(g.Cluster, "*", "*"), func(m stream.Message) error {
		if r, err := event.DecodeRecord(m.Subject, m.Header, m.Data); err == nil && r.Result.Worked() && r.Timings.Sync > 0 {
			all = append(all, measured{m.Time, r.Timings.Sync})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(all, func(a, b measured) int { return a.at.Compare(b.at) })
	g.s.Delays = []time.Duration{}
	for _, m := range all[max(0, len(all)-mostDelays):] {
		g.s.Delays = append(g.s.Delays, m.took)
	}
	return len(g.s.Delays), nil
}

func readDetail(ctx context.Context, g *snapshotReader) (n int, err error) {
	g.s.Detail, err = g.cloud.CS.Cluster(ctx)
	return 1, err
}

func readController(ctx context.Context, g *snapshotReader) (n int, err error) {
	c := ccm.View{Kube: g.Kube, Cloud: g.cloud}
	g.s.Controller, err = c.Controller(ctx)
	return 1, err
}

func readRights(ctx context.Context, g *snapshotReader) (n int, err error) {
	c := ccm.View{Kube: g.Kube, Cloud: g.cloud}
	g.s.Role, err = c.ControllerRole(ctx)
	return len(g.s.Role.Policies), err
}

func readPolicy(ctx context.Context, g *snapshotReader) (n int, err error) {
	if g.Source.Policy == nil {
		return 0, nil
	}
	g.s.Policy, err = g.Source.Policy(ctx)
	return 1, err
}

func readCLBs(ctx context.Context, g *snapshotReader) (int, error) {
	list, err := g.cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	var ids []string
	for _, lb := range list {
		ids = append(ids, lb.ID)
	}
	// The list may not contain all tags.
	tags, err := g.cloud.SLB.TagsOf(ctx, ids)
	if err != nil {
		return 0, err
	}
	for _, lb := range list {
		b := &LoadBalancer{Instance: *ccm.Classic(lb)}
		all, ok := tags[lb.ID]
		b.Tags, b.CLB.Tags, b.Gone = all, all, !ok
		g.put(b)
	}
	return len(list), nil
}

func readNLBs(ctx context.Context, g *snapshotReader) (int, error) {
	list, err := g.cloud.NLB.Find(ctx, cloud.NLBFilter{})
	for _, lb := range list {
		g.put(&LoadBalancer{Instance: *ccm.Network(lb)})
	}
	return len(list), err
}

func (g *snapshotReader) put(b *LoadBalancer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.s.Balancers == nil {
		g.s.Balancers = map[string]*LoadBalancer{}
	}
	g.s.Balancers[b.ID] = b
	g.s.byTag = nil // a part read earlier may have built the index, which lacks this one
}

// readNamed asks for the load balancers that Services name and no list contains: a list leaves out what the caller may not see.
func readNamed(ctx context.Context, g *snapshotReader) (int, error) {
	g.mu.Lock()
	network := map[string]bool{} // by ID: whether it is an NLB's
	for i := range g.s.Services {
		svc := &g.s.Services[i]
		id := NamedBy(svc)
		if id == "" || !Ours(svc) {
			continue
		}
		if b, err := g.s.Balancer(svc); err != nil || b != nil {
			continue // it exists, or that is unknown
		}
		if b := g.s.Balancers[id]; b == nil || b.Gone {
			network[id] = ccm.NLB(svc)
		}
	}
	g.mu.Unlock()
	ids := sortedKeys(network)
	g.s.Named = map[string]error{}
	return each(g, Named, ids, func(id string) int {
		err := cloud.ErrNotFound
		switch {
		case !ccm.Identifier(id): // no load balancer can have this ID
		case network[id]:
			_, err = g.cloud.NLB.LoadBalancer(ctx, id)
		default:
			_, err = g.cloud.SLB.LoadBalancer(ctx, id)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.s.Named[id] = late(ctx, err)
		return 1
	})
}

// used marks the load balancers that matter to the cluster and returns them in order.
func (g *snapshotReader) used() []*LoadBalancer {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.s.Services {
		if g.Manifests != nil && g.s.Services[i].UID != "" {
			continue
		}
		b, err := g.s.Balancer(&g.s.Services[i])
		if err != nil {
			continue
		}
		if b != nil {
			b.Used = true
			continue
		}
		for _, lost := range g.s.leftovers(&g.s.Services[i]) {
			lost.Used = true
		}
	}
	var list []*LoadBalancer
	for _, b := range g.s.List() {
		b.Used = b.Used || g.Only == "" && g.Manifests == nil && b.Tags[ccm.ClusterTag] == g.Cluster
		if b.Used {
			list = append(list, b)
		}
	}
	if len(list) == 0 || g.Limit == 0 {
		return list
	}
	// A run out of time leaves the last ones out; a random start covers them over time.
	first := rand.N(len(list))
	return append(list[first:], list[:first]...)
}

// each calls read for the objects concurrently, even after the context has ended: read records what is unknown. It returns the sum of the
// counts.
func each[T any](g *snapshotReader, p Part, list []T, read func(T) int) (sum int, err error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	done := 0
	for _, of := range list {
		g.free <- struct{}{} // calls under way end with the context
		wait.Go(func() {
			defer func() { <-g.free }()
			k := read(of)
			mu.Lock()
			defer mu.Unlock()
			sum += k
			done++
			g.Progress(p, done, len(list))
		})
	}
	wait.Wait()
	return sum, nil
}

// failed records that a part of a load balancer could not be read, unless the load balancer no longer exists.
func (g *snapshotReader) failed(ctx context.Context, b *LoadBalancer, p Part, err error) {
	if err = late(ctx, err); err == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(err, cloud.ErrNotFound) {
		b.Gone = true
		return
	}
	if b.Failed == nil {
		b.Failed = map[Part]error{}
	}
	b.Failed[p] = err
}

// readPrivate reads the listeners and groups of private CLBs in the cluster's VPC that no Service uses, without those of other clusters and
// the API server. A group names its listeners, which saves calls.
func readPrivate(ctx context.Context, g *snapshotReader) (int, error) {
	g.used()
	g.mu.Lock()
	var list []*LoadBalancer
	for _, b := range g.s.List() {
		if b.CLB == nil || b.AddressType != "intranet" || b.VPC == "" || b.VPC != g.s.Detail.VPC || b.Address == g.s.Detail.APIServer {
			continue
		}
		b.Near = !b.Used && g.Only == "" && !b.ByController()
		if b.Used || b.Near {
			list = append(list, b)
		}
	}
	g.mu.Unlock()
	return each(g, Private, list, func(b *LoadBalancer) int {
		whole, err := g.cloud.SLB.LoadBalancer(ctx, b.ID)
		b.CLB.Backends = whole.Backends
		if b.Near && err == nil && len(whole.Ports) > 0 {
			err = g.near(ctx, b, whole.Ports)
		}
		g.failed(ctx, b, Backends, err)
		return 1
	})
}

func (g *snapshotReader) near(ctx context.Context, b *LoadBalancer, ports []cloud.ListenerPort) error {
	if err := g.groups(ctx, b); err != nil {
		return err
	}
	b.Groups = slices.DeleteFunc(b.Groups, func(to Group) bool { return len(to.Listeners) == 0 })
	behind := map[cloud.ListenerPort]string{}
	for i := range b.Groups {
		for _, l := range b.Groups[i].Listeners {
			behind[cloud.ListenerPort{Port: l.Port, Protocol: l.Protocol}] = b.Groups[i].ID
		}
		g.servers(ctx, &b.Groups[i])
	}
	for _, p := range ports {
		b.Listeners = append(b.Listeners, cloud.Listener{Port: p.Port, Protocol: p.Protocol,
			VServerGroup: behind[cloud.ListenerPort{Port: p.Port, Protocol: p.Protocol}]})
	}
	return nil
}

// groups reads the groups of a CLB.
func (g *snapshotReader) groups(ctx context.Context, b *LoadBalancer) error {
	list, err := g.cloud.SLB.VServerGroups(ctx, b.ID)
	for _, v := range list {
		b.Groups = append(b.Groups, Group{ID: v.ID, Name: v.Name, Servers: v.Servers, Listeners: v.Listeners, Rules: len(v.Rules)})
	}
	return err
}

// servers reads the backends of a CLB's group.
func (g *snapshotReader) servers(ctx context.Context, to *Group) {
	if to.Servers > 0 {
		whole, err := g.cloud.SLB.VServerGroup(ctx, to.ID)
		to.Backends, to.Failed = whole.Backends, late(ctx, err)
	}
}

func readListeners(ctx context.Context, g *snapshotReader) (int, error) {
	return each(g, Listeners, g.used(), func(b *LoadBalancer) int {
		var err error
		if b.NLB != nil {
			b.NetworkListeners, err = g.cloud.NLB.Listeners(ctx, b.ID)
		} else {
			b.Listeners, err = g.cloud.SLB.Listeners(ctx, b.ID)
		}
		g.failed(ctx, b, Listeners, err)
		return len(b.NetworkListeners) + len(b.Listeners)
	})
}

func readGroups(ctx context.Context, g *snapshotReader) (int, error) {
	list := slices.DeleteFunc(g.used(), func(b *LoadBalancer) bool { return b.CLB == nil })
	n, _ := each(g, Groups, list, func(b *LoadBalancer) int {
		g.failed(ctx, b, Groups, g.groups(ctx, b))
		return len(b.Groups)
	})
	if g.Manifests != nil || !slices.ContainsFunc(g.s.Services, func(svc corev1.Service) bool { return ccm.NLB(&svc) }) {
		return n, nil // no server groups exist yet
	}
	network, err := g.cloud.NLB.ServerGroups(ctx, ccm.ClusterTag, g.Cluster)
	for _, v := range network {
		g.s.ServerGroups = append(g.s.ServerGroups, Group{ID: v.ID, Name: v.Name})
	}
	return n + len(network), err
}

func readBackends(ctx context.Context, g *snapshotReader) (int, error) {
	type place struct {
		group *Group
		of    *LoadBalancer // nil: of NLBs
	}
	var list []place
	for _, b := range g.used() {
		for i := range b.Groups {
			if !g.Counts {
				list = append(list, place{&b.Groups[i], b})
			}
		}
		for _, l := range b.NetworkListeners { // its group may be of another cluster, or made by a person
			if l.ServerGroup != "" && !slices.ContainsFunc(g.s.ServerGroups, func(to Group) bool { return to.ID == l.ServerGroup }) {
				g.s.ServerGroups = append(g.s.ServerGroups, Group{ID: l.ServerGroup})
			}
		}
	}
	for i := range g.s.ServerGroups {
		list = append(list, place{&g.s.ServerGroups[i], nil})
	}
	return each(g, Backends, list, func(at place) int {
		to := at.group
		if at.of == nil {
			to.Backends, to.Failed = g.cloud.NLB.Servers(ctx, to.ID)
			to.Failed = late(ctx, to.Failed)
			to.Servers = len(to.Backends)
		} else {
			g.servers(ctx, to)
			if errors.Is(to.Failed, cloud.ErrNotFound) { // it was deleted meanwhile, maybe with its load balancer
				if _, err := g.cloud.SLB.VServerGroups(ctx, at.of.ID); errors.Is(err, cloud.ErrNotFound) {
					g.failed(ctx, at.of, Backends, err)
				}
			}
		}
		if to.Backends == nil && to.Failed == nil {
			to.Backends = []cloud.Backend{}
		}
		for k := range to.Backends { // their descriptions repeat the group's name, each in its own memory
			if to.Backends[k].Description == to.Name {
				to.Backends[k].Description = to.Name
			}
		}
		return len(to.Backends)
	})
}

// readGuards reads the security groups of the NLBs whose Services have source ranges, and the ones that the controller would find for the Service.
func readGuards(ctx context.Context, g *snapshotReader) (int, error) {
	type guarded struct {
		svc *corev1.Service
		b   *LoadBalancer
	}
	var list []guarded
	groups := map[string]Guarding{}
	g.mu.Lock()
	for _, svc := range g.s.OfType() {
		if !ccm.NLB(svc) || len(ccm.RangesOf(svc).Written) == 0 {
			continue
		}
		b, err := g.s.Balancer(svc)
		if err != nil || b == nil || b.NLB == nil {
			continue
		}
		for _, id := range b.NLB.SecurityGroups {
			groups[id] = Guarding{}
		}
		if id, _ := ccm.Annotation(svc, "id"); id == "" {
			list = append(list, guarded{svc, b})
		}
	}
	g.mu.Unlock()
	_, _ = each(g, Guards, list, func(of guarded) int {
		found, err := g.cloud.ECS.SecurityGroups(ctx, ccm.NameTag, ccm.DefaultName(of.svc))
		g.failed(ctx, of.b, Guards, err)
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, group := range found {
			groups[group.ID] = Guarding{}
			of.b.Marked = append(of.b.Marked, group.ID)
		}
		return 1
	})
	g.s.Guards = groups
	return each(g, Guards, sortedKeys(groups), func(id string) int {
		group, err := g.cloud.ECS.SecurityGroup(ctx, id)
		g.mu.Lock()
		defer g.mu.Unlock()
		groups[id] = Guarding{SecurityGroup: group, Failed: late(ctx, err)}
		return 1
	})
}

func readVSwitches(ctx context.Context, g *snapshotReader) (int, error) {
	list, err := g.cloud.VPC.VSwitches(ctx, g.s.Detail.VPC)
	g.s.VSwitches = map[string]cloud.VSwitch{}
	for _, v := range list {
		g.s.VSwitches[v.ID] = v
	}
	return len(list), err
}

func readQuotas(ctx context.Context, g *snapshotReader) (int, error) {
	for _, product := range []string{"slb", "nlb", "vpc"} {
		list, err := g.cloud.Quotas.List(ctx, product, cloud.CommonQuota, "")
		if err != nil {
			return 0, err
		}
		g.s.Quotas = append(g.s.Quotas, list...)
	}
	return len(g.s.Quotas), nil
}

func readRoutes(ctx context.Context, g *snapshotReader) (int, error) {
	tables, err := g.cloud.VPC.RouteTables(ctx, g.s.Detail.VPC)
	if err != nil {
		return 0, err
	}
	n := 0
	g.s.Routes = map[string][]cloud.Route{}
	for _, id := range tables {
		list, err := g.cloud.VPC.Routes(ctx, id)
		if err != nil {
			return 0, err
		}
		g.s.Routes[id] = list
		n += len(list)
	}
	return n, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
