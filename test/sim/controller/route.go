package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

// Reasons and component of Events about routes (pkg/controller/helper/event.go and pkg/controller/route).
const (
	routeController    = "route-controller"
	reasonRouteFailed  = "CreateRouteFailed"
	reasonRouteUnread  = "DescriberRouteFailed"
	reasonRoutesFailed = "SyncRouteFailed"
	batched            = "v2.11.2" // since then, one call creates the routes of a table
	duplicateRoute     = "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE"
	unfinishedRoute    = "VPC_ROUTE_ENTRY_STATUS_ERROR"

	routePeriod = 5 * time.Minute // between two passes over all nodes
	routeBatch  = 50              // nodes in one pass
)

// SyncRoutes runs the route controller once over all nodes: it creates missing routes, and leaves the conditions and Events of
// the real one. A failure in the cloud becomes an Event, not an error.
func SyncRoutes(ctx context.Context, o Options) error {
	v, err := o.check()
	if err != nil {
		return fmt.Errorf("sync routes: %w", err)
	}
	kube, err := kubernetes.New(rest.CopyConfig(o.Kube))
	if err != nil {
		return fmt.Errorf("sync routes: %w", err)
	}
	r := &routes{kube: kube, cloud: newOpenAPI(o.Cloud, o.Region, o.Credentials), v: v, vpc: o.VPC, told: &writer{ctx: ctx, kube: kube}}
	defer r.cloud.transport.CloseIdleConnections()
	list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: o.Nodes})
	if err != nil {
		return fmt.Errorf("sync routes: list nodes: %w", err)
	}
	var nodes []*corev1.Node
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	if v.since(batched) {
		r.together(ctx, nodes)
	} else {
		for _, n := range nodes {
			r.alone(ctx, n)
		}
	}
	return r.told.(*writer).err
}

type routes struct {
	kube  *kubernetes.Client
	cloud *openapi
	v     version
	vpc   string
	told  interface {
		Event(about runtime.Object, kind, reason, message string)
	}
	pause func(time.Duration) // between attempts of one call; nil: one attempt
}

type routeLoop struct {
	*controller
	routes
	queue workqueue.TypedRateLimitingInterface[string]
}

func (c *controller) newRouteLoop(events record.EventRecorder) *routeLoop {
	return &routeLoop{
		controller: c, routes: routes{kube: c.kube, cloud: c.cloud, v: c.version, vpc: c.VPC, told: events},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](c.pause(c.BackoffBase), c.pause(c.BackoffMax))),
	}
}

// handler queues a node when it joins and when it gets its Pod address block.
func (l *routeLoop) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if n := o.(*corev1.Node); n.Spec.PodCIDR != "" {
				l.queue.Add(n.Name)
			}
		},
		UpdateFunc: func(was, is any) {
			if was, is := was.(*corev1.Node), is.(*corev1.Node); was.UID != is.UID || was.Spec.PodCIDR != is.Spec.PodCIDR {
				l.queue.Add(is.Name)
			}
		},
	}
}

// run maintains routes until ctx ends. It also syncs all nodes every five minutes, and in releases before batched also at the start.
func (l *routeLoop) run(ctx context.Context) {
	l.routes.pause = func(d time.Duration) { _ = l.wait(ctx, d) }
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	var running sync.WaitGroup
	defer running.Wait()
	var one sync.Mutex // the cloud creates one route at a time
	running.Go(func() {
		for first := true; ; first = false {
			if !first || !l.v.since(batched) {
				one.Lock()
				l.periodic(ctx, l.all())
				one.Unlock()
			}
			if l.wait(ctx, routePeriod) != nil {
				return
			}
		}
	})
	for {
		name, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		names := []string{name}
		for l.queue.Len() > 0 && len(names) < routeBatch && l.v.since(batched) {
			name, shutdown = l.queue.Get()
			if shutdown {
				return
			}
			names = append(names, name)
		}
		var nodes []*corev1.Node
		for _, name := range names {
			if n, err := l.nodes.Get(name); err == nil {
				nodes = append(nodes, n)
			}
			l.queue.Done(name)
		}
		one.Lock()
		l.turn(ctx, nodes)
		one.Unlock()
	}
}

func (l *routeLoop) all() []*corev1.Node {
	nodes, _ := l.nodes.List(labels.Everything())
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// turn syncs some nodes. In releases before batched, a failure is retried in the next pass over all.
func (l *routeLoop) turn(ctx context.Context, nodes []*corev1.Node) {
	if ctx.Err() != nil {
		return
	}
	if !l.v.since(batched) {
		for _, n := range nodes {
			l.alone(ctx, n)
		}
		return
	}
	again := l.together(ctx, nodes)
	for _, n := range nodes {
		for range again[n.Name] {
			l.queue.AddRateLimited(n.Name)
		}
		if again[n.Name] == 0 {
			l.queue.Forget(n.Name)
		}
	}
}

// routesObject is the object of Events about all routes: an object of kind Event with only a name.
var routesObject = corev1.ObjectReference{Kind: "Event", APIVersion: "v1", Name: routeController}

func instanceID(n *corev1.Node) string {
	_, id, _ := strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, "alicloud://"), ".")
	return id
}

// podBlock returns the address block of a node's Pods; IPv6 is not simulated.
func podBlock(n *corev1.Node) string { return n.Spec.PodCIDR }

func needsRoute(n *corev1.Node) bool {
	_, ignored := n.Labels[labelIgnore]
	_, ignoredOld := n.Labels[labelIgnoreOld]
	silent := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
	return instanceID(n) != "" && podBlock(n) != "" && !ignored && !ignoredOld && !silent && n.DeletionTimestamp == nil
}

func (r *routes) table(ctx context.Context) (id string, err error) {
	list, vpcID := vpc.CreateDescribeRouteTableListRequest(), r.vpc
	list.VpcId = vpcID
	tables := vpc.CreateDescribeRouteTableListResponse()
	if err := r.cloud.raw(ctx, list, tables); err != nil {
		return "", fmt.Errorf("can not found route table by id[%s], error: error describe vpc: %s route tables, error: %w", vpcID, vpcID, err)
	}
	all := tables.RouterTableList.RouterTableListType
	switch {
	case len(all) > 1:
		return "", fmt.Errorf("multiple route tables found by vpc id[%s], length(tables)=%d", vpcID, len(all))
	case len(all) == 0:
		return "", fmt.Errorf("no route tables found by vpc id[%s]", vpcID)
	}
	return all[0].RouteTableId, nil
}

// entries returns the entries of a table for instances, as "block instance".
func (r *routes) entries(ctx context.Context, id string) (have map[string]bool, err error) {
	have = map[string]bool{}
	for token := ""; ; {
		req := vpc.CreateDescribeRouteEntryListRequest()
		req.RouteTableId, req.RouteEntryType, req.NextHopType, req.NextToken = id, "Custom", "Instance", token
		req.MaxResult = requests.NewInteger(500)
		entries := vpc.CreateDescribeRouteEntryListResponse()
		if err := r.cloud.raw(ctx, req, entries); err != nil {
			return nil, fmt.Errorf("table %s get route entries error ,err describe route entry list error, err %w", id, err)
		}
		for _, e := range entries.RouteEntrys.RouteEntry {
			if len(e.NextHops.NextHop) == 1 {
				have[e.DestinationCidrBlock+" "+e.NextHops.NextHop[0].NextHopId] = true
			}
		}
		if token = entries.NextToken; token == "" {
			return have, nil
		}
	}
}

// together creates missing routes in one call, and returns how often each node is retried. After a failed call, the real controller counts
// each node twice (batchSyncCloudRoutes and batchWorker of pkg/controller/route), so its pauses grow by a factor of four.
func (r *routes) together(ctx context.Context, nodes []*corev1.Node) (again map[string]int) {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !needsRoute(n) })
	again = map[string]int{}
	if len(nodes) == 0 {
		return again
	}
	failed := func(err error, times int) map[string]int {
		for _, n := range nodes {
			again[n.Name] = times
		}
		r.event(ctx, &routesObject, reasonRoutesFailed, "Reconciling route error: "+err.Error())
		return again
	}
	table, err := r.table(ctx)
	if err != nil {
		return failed(err, 1)
	}
	have, err := r.entries(ctx, table)
	if err != nil {
		return failed(err, 1)
	}
	nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return have[podBlock(n)+" "+instanceID(n)] })
	if len(nodes) == 0 {
		return again
	}
	var want []vpc.CreateRouteEntriesRouteEntries
	for _, n := range nodes {
		want = append(want, vpc.CreateRouteEntriesRouteEntries{
			RouteTableId: table, DstCidrBlock: podBlock(n), NextHop: instanceID(n), NextHopType: "Instance",
		})
	}
	req := vpc.CreateCreateRouteEntriesRequest()
	req.RouteEntries = &want
	said := vpc.CreateCreateRouteEntriesResponse()
	if err := r.cloud.raw(ctx, req, said); err != nil {
		return failed(err, 2)
	}
	for _, n := range nodes {
		i := slices.IndexFunc(said.FailedRouteEntries, func(f vpc.FailedRouteEntriesItem) bool { return f.NextHop == instanceID(n) })
		// Existing entries, whatever their target, and entries being created count as created.
		if i < 0 || said.FailedRouteEntries[i].FailedCode == duplicateRoute || said.FailedRouteEntries[i].FailedCode == unfinishedRoute {
			r.condition(ctx, n, true)
			continue
		}
		again[n.Name] = 1
		about := &corev1.ObjectReference{Kind: "Node", Name: n.Name, UID: n.UID}
		r.event(ctx, about, reasonRouteFailed, fmt.Sprintf("Error creating route entry in %s: %s", table, said.FailedRouteEntries[i].FailedMessage))
	}
	return again
}

// alone creates the missing route of one node, as releases before batched do when a node joins.
func (r *routes) alone(ctx context.Context, n *corev1.Node) {
	if !needsRoute(n) {
		return
	}
	table, err := r.table(ctx)
	if err == nil {
		err = r.create(ctx, table, n, nil)
		r.condition(ctx, n, err == nil)
	}
	if err != nil {
		r.event(ctx, named(n), reasonRoutesFailed, "sync cloud route failed")
	}
}

// periodic creates missing routes one by one, as all releases do periodically.
func (r *routes) periodic(ctx context.Context, nodes []*corev1.Node) {
	table, err := r.table(ctx)
	if err != nil {
		r.event(ctx, &routesObject, reasonRoutesFailed, "Reconciling route error: "+err.Error())
		return
	}
	have, err := r.entries(ctx, table)
	if err != nil {
		r.event(ctx, &routesObject, reasonRoutesFailed, fmt.Sprintf("Error reconciling route, reconcile table [%s] failed", table))
		return
	}
	for _, n := range nodes {
		if needsRoute(n) && r.create(ctx, table, n, have) == nil {
			r.condition(ctx, n, true)
		}
	}
}

func named(n *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: n.Name, UID: types.UID(n.Name)}
}

// create creates a route, with three attempts, unless it exists. It reads the entries if have is empty.
func (r *routes) create(ctx context.Context, table string, n *corev1.Node, have map[string]bool) (err error) {
	if len(have) == 0 {
		have, err = r.entries(ctx, table)
	}
	if err != nil {
		r.event(ctx, named(n), reasonRouteUnread, fmt.Sprintf("Describe Route Failed for %s reason: %s", table, r.v.reduce(err)))
		return nil // as in the controller
	}
	if have[podBlock(n)+" "+instanceID(n)] {
		return nil
	}
	req := vpc.CreateCreateRouteEntryRequest()
	req.RouteTableId, req.DestinationCidrBlock, req.NextHopType, req.NextHopId = table, podBlock(n), "Instance", instanceID(n)
	for wait := 5 * time.Second; ; wait *= 2 {
		err = r.cloud.raw(ctx, req, vpc.CreateCreateRouteEntryResponse())
		if err == nil {
			return nil
		}
		if r.pause == nil || wait > 10*time.Second || strings.Contains(err.Error(), "InvalidCIDRBlock.Duplicate") {
			break
		}
		r.pause(wait)
	}
	id := n.Spec.ProviderID
	err = fmt.Errorf("error create route for node %s, err: error create route entry for %s, %s, error: %w", id, id, podBlock(n), err)
	r.event(ctx, named(n), reasonRouteFailed, fmt.Sprintf("Error creating route entry in %s: %s", table, r.v.reduce(err)))
	return err
}

// event writes a Warning, unless the controller is ending: interrupted calls have not failed.
func (r *routes) event(ctx context.Context, about *corev1.ObjectReference, reason, message string) {
	if ctx.Err() == nil {
		r.told.Event(about, corev1.EventTypeWarning, reason, message)
	}
}

// A writer writes each Event at once. The first failure is its error.
type writer struct {
	ctx  context.Context
	kube *kubernetes.Client
	err  error
}

// Event writes an Event like the recorder: in the namespace default if the object has none.
func (t *writer) Event(about runtime.Object, kind, reason, message string) {
	now := metav1.Now()
	of := *about.(*corev1.ObjectReference)
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: of.Name + ".", Namespace: metav1.NamespaceDefault},
		InvolvedObject: of, Reason: reason, Message: message, Type: kind,
		Source: corev1.EventSource{Component: routeController}, ReportingController: routeController,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if _, err := t.kube.CoreV1().Events(e.Namespace).Create(t.ctx, e, metav1.CreateOptions{}); err != nil && t.err == nil {
		t.err = fmt.Errorf("sync routes: write an event: %w", err)
	}
}

// condition sets a node's condition about its route. A failed write is retried in the next pass.
func (r *routes) condition(ctx context.Context, n *corev1.Node, made bool) {
	c := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated", Message: "RouteController created a route",
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}
	if !made {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "NoRouteCreated", "RouteController failed to create a route"
	}
	if slices.ContainsFunc(n.Status.Conditions, func(o corev1.NodeCondition) bool { return o.Type == c.Type && o.Status == c.Status }) {
		return
	}
	data, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Conditions: []corev1.NodeCondition{c}}})
	if err == nil {
		_, _ = r.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	}
}
