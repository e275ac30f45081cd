package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

// The reasons and the component of Events about routes (pkg/controller/helper/event.go and pkg/controller/route).
const (
	routeController    = "route-controller"
	reasonRouteFailed  = "CreateRouteFailed"
	reasonRoutesFailed = "SyncRouteFailed"
	batched            = "v2.11.2" // from then on, the routes of a table are created by one call
	duplicateRoute     = "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE"
	unfinishedRoute    = "VPC_ROUTE_ENTRY_STATUS_ERROR"
	conditionRouteMade = "RouteCreated"
	messageRouteMade   = "RouteController created a route"
)

// SyncRoutes plays one pass of the route controller over all nodes: it creates the routes that they lack, and leaves on them, and in
// Events, what the real one leaves. What fails in the cloud is such an Event, and no error.
func SyncRoutes(ctx context.Context, o Options) error {
	v, err := o.check()
	if err != nil {
		return fmt.Errorf("sync routes: %w", err)
	}
	kube, err := kubernetes.New(rest.CopyConfig(o.Kube))
	if err != nil {
		return fmt.Errorf("sync routes: %w", err)
	}
	r := &routes{kube: kube, cloud: newOpenAPI(o.Cloud, o.Region, o.Credentials), v: v}
	defer r.cloud.transport.CloseIdleConnections()
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: o.Nodes})
	if err != nil {
		return fmt.Errorf("sync routes: list nodes: %w", err)
	}
	table, have, err := r.table(ctx, o.VPC)
	if err != nil {
		return r.event(ctx, routesObject, reasonRoutesFailed, "Reconciling route error: "+err.Error())
	}
	var lack []*corev1.Node
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if needsRoute(n) && !have[podBlock(n)+" "+instanceID(n)] {
			lack = append(lack, n)
		}
	}
	switch {
	case len(lack) == 0:
		return nil
	case v.since(batched):
		return r.createAll(ctx, table, lack)
	}
	for _, n := range lack {
		if err := r.create(ctx, table, n); err != nil {
			return err
		}
	}
	return nil
}

type routes struct {
	kube  *kubernetes.Client
	cloud *openapi
	v     version
}

// routesObject is what Events about routes as a whole are about: an Event with a name and nothing else.
var routesObject = corev1.ObjectReference{Kind: "Event", APIVersion: "v1", Name: routeController}

// instanceID returns the ID of the instance that a node is; empty if it is none of ECS.
func instanceID(n *corev1.Node) string {
	_, id, _ := strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, "alicloud://"), ".")
	return id
}

// podBlock returns the block of a node's Pods; IPv6 is not played.
func podBlock(n *corev1.Node) string { return n.Spec.PodCIDR }

// needsRoute reports whether the controller keeps a route for a node.
func needsRoute(n *corev1.Node) bool {
	_, ignored := n.Labels[labelIgnore]
	_, ignoredOld := n.Labels[labelIgnoreOld]
	silent := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
	return instanceID(n) != "" && podBlock(n) != "" && !ignored && !ignoredOld && !silent && n.DeletionTimestamp == nil
}

// table returns the one route table of the VPC, and its entries that lead to instances, as "block instance".
func (r *routes) table(ctx context.Context, vpcID string) (id string, have map[string]bool, err error) {
	list := vpc.CreateDescribeRouteTableListRequest()
	list.VpcId = vpcID
	tables := vpc.CreateDescribeRouteTableListResponse()
	if err := r.cloud.raw(ctx, list, tables); err != nil {
		return "", nil, fmt.Errorf("can not found route table by id[%s], error: error describe vpc: %s route tables, error: %w", vpcID, vpcID, err)
	}
	all := tables.RouterTableList.RouterTableListType
	switch {
	case len(all) > 1:
		return "", nil, fmt.Errorf("multiple route tables found by vpc id[%s], length(tables)=%d", vpcID, len(all))
	case len(all) == 0:
		return "", nil, fmt.Errorf("no route tables found by vpc id[%s]", vpcID)
	}
	id, have = all[0].RouteTableId, map[string]bool{}
	for token := ""; ; {
		req := vpc.CreateDescribeRouteEntryListRequest()
		req.RouteTableId, req.RouteEntryType, req.NextHopType, req.NextToken = id, "Custom", "Instance", token
		entries := vpc.CreateDescribeRouteEntryListResponse()
		if err := r.cloud.raw(ctx, req, entries); err != nil {
			return "", nil, fmt.Errorf("table %s get route entries error ,err describe route entry list error, err %w", id, err)
		}
		for _, e := range entries.RouteEntrys.RouteEntry {
			if len(e.NextHops.NextHop) == 1 {
				have[e.DestinationCidrBlock+" "+e.NextHops.NextHop[0].NextHopId] = true
			}
		}
		if token = entries.NextToken; token == "" {
			return id, have, nil
		}
	}
}

// createAll creates routes by one call.
func (r *routes) createAll(ctx context.Context, table string, nodes []*corev1.Node) error {
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
		return r.event(ctx, routesObject, reasonRoutesFailed, "Reconciling route error: "+err.Error())
	}
	for _, n := range nodes {
		i := slices.IndexFunc(said.FailedRouteEntries, func(f vpc.FailedRouteEntriesItem) bool { return f.NextHop == instanceID(n) })
		// What is there already, and what is being made, counts as made, whatever the entry leads to.
		if i < 0 || said.FailedRouteEntries[i].FailedCode == duplicateRoute || said.FailedRouteEntries[i].FailedCode == unfinishedRoute {
			if err := r.available(ctx, n); err != nil {
				return err
			}
			continue
		}
		about := corev1.ObjectReference{Kind: "Node", Name: n.Name, UID: n.UID}
		if err := r.event(ctx, about, reasonRouteFailed,
			fmt.Sprintf("Error creating route entry in %s: %s", table, said.FailedRouteEntries[i].FailedMessage)); err != nil {
			return err
		}
	}
	return nil
}

// create creates a route by a call of its own. Of a Node, its Event has the name in place of the UID.
func (r *routes) create(ctx context.Context, table string, n *corev1.Node) error {
	req := vpc.CreateCreateRouteEntryRequest()
	req.RouteTableId, req.DestinationCidrBlock, req.NextHopType, req.NextHopId = table, podBlock(n), "Instance", instanceID(n)
	err := r.cloud.raw(ctx, req, vpc.CreateCreateRouteEntryResponse())
	if err == nil {
		return r.available(ctx, n)
	}
	id := n.Spec.ProviderID
	err = fmt.Errorf("error create route for node %s, err: error create route entry for %s, %s, error: %w", id, id, podBlock(n), err)
	about := corev1.ObjectReference{Kind: "Node", Name: n.Name, UID: types.UID(n.Name)}
	return r.event(ctx, about, reasonRouteFailed, fmt.Sprintf("Error creating route entry in %s: %s", table, r.v.reduce(err)))
}

// event writes a Warning, as the recorder does: about an object without a namespace, in the namespace default.
func (r *routes) event(ctx context.Context, about corev1.ObjectReference, reason, message string) error {
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: about.Name + ".", Namespace: metav1.NamespaceDefault},
		InvolvedObject: about, Reason: reason, Message: message, Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: routeController}, ReportingController: routeController,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if _, err := r.kube.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("sync routes: write an event: %w", err)
	}
	return nil
}

// available sets the condition of a Node that has its route.
func (r *routes) available(ctx context.Context, n *corev1.Node) error {
	n = n.DeepCopy()
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeNetworkUnavailable })
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: conditionRouteMade, Message: messageRouteMade,
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	})
	if _, err := r.kube.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("sync routes: write the condition of %s: %w", n.Name, err)
	}
	return nil
}
