package event

import (
	"encoding/json"
	"slices"
	"strings"
)

// Kinds of objects, beside Services, that failures are about.
const (
	KindNode    = "node"
	KindCluster = "cluster" // concerns no single object: its name is the cluster's ID
)

const (
	componentCLB    = "service-controller" // also the name of other clouds' controllers
	componentNLB    = "nlb-controller"
	componentRoutes = "route-controller"
	componentNodes  = "node-controller" // also the name of a controller in the controller manager of Kubernetes
)

// Precheck is the name of the Event with the result of the controller's check before an upgrade, and the reason of a failure read from
// it. The Event is in kube-system, is about a Pod that need not exist, and has no component; its own reason is the check's state
// (pkg/provider/dryrun/event.go).
const Precheck = "CloudControllerManagerPrecheckResult"

// PrecheckClass is the class of such a failure.
const PrecheckClass = "precheck-failed"

// RouteObject names the object of SyncRouteFailed Events, which have no namespace and UID (pkg/controller/route/route_controller.go).
const RouteObject = "route-controller"

// A Warning is a reason under which some release of the controller writes Warning Events.
type Warning struct {
	Reason     string
	Kind       string   // of the object: KindNode, KindCluster; empty: a Service
	Components []string // that write it; for Services, those that Controller knows
	Begins     []string // common beginnings of its messages, in lower case
	Failure    bool     // it is published; false: nothing has failed
	Means      string   // as a sentence
}

// Warnings are all warnings; the exporter, "lbremedy classify" and functions/README.md use them. They are the constants of
// pkg/controller/helper/event.go of v2.14.0, the two reasons spelled out in pkg/controller/route and pkg/controller/service/clbv1, and
// those of releases before v2.0.1.
var Warnings = []Warning{
	{Reason: "SyncLoadBalancerFailed", Failure: true, Means: "The sync of a Service has failed."},
	{Reason: "CleanLoadBalancerFailed", Failure: true, Means: "The load balancer of a Service that is deleted could not be removed."},
	{Reason: "DeleteLoadBalancerFailed", Failure: true, Means: "As CleanLoadBalancerFailed, in releases before v2.0.1."},
	{Reason: "CreatingLoadBalancerFailed", Failure: true, Means: "As SyncLoadBalancerFailed, in releases before v2.0.1."},
	{Reason: "DeletingLoadBalancerFailed", Failure: true, Means: "As CleanLoadBalancerFailed, in releases before v2.0.1."},
	{Reason: "UnAvailableLoadBalancer", Failure: true, Means: "No backend is attached to the load balancer of a Service."},
	{Reason: "NoBackend", Failure: true, Means: "As UnAvailableLoadBalancer, in earlier releases."},
	{Reason: "SkipSyncBackends", Failure: true, Means: "The backends of a port were left as they are."},
	{Reason: reasonFailed, Failure: true, Means: "As SyncLoadBalancerFailed, in releases before v2.0.1. The kubelet uses the reason, too."},
	{Reason: "FailedAddFinalizer", Failure: true, Means: "The controller could not write its finalizer to a Service, which ends the sync."},
	{Reason: "FailedAddHash", Failure: true, Means: "The controller could not write its label to a Service, which ends the sync."},
	{Reason: "FailedUpdateReadinessGate", Failure: true, Means: "The controller could not write the readiness of Pods, which ends the sync."},
	{Reason: "FailedUpdateStatus", Failure: true, Means: "The controller could not write the status of a Service, which ends the sync."},
	{Reason: "FailedRemoveFinalizer", Failure: true, Means: "The controller could not remove its finalizer, so the Service stays."},
	{Reason: "FailedRemoveHash", Failure: true, Means: "The controller could not remove its label, so the Service stays."},
	{Reason: "FailedSetEIPAddress", Means: "No EIP could be read. The status of the Service has the address of the CLB, and the sync goes on."},
	{Reason: "FeatureNotSupported", Means: "The load balancer belongs to the user, so spec.loadBalancerSourceRanges has no effect. The sync goes on."},
	{Reason: "PreservedOnDelete", Means: "The load balancer will stay when the Service is deleted, as its annotation says."},

	{Reason: "CreateRouteFailed", Kind: KindNode, Components: []string{componentRoutes}, Begins: []string{"error creating route entry in "}, Failure: true,
		Means: "The route to the Pods of a Node could not be created."},
	{Reason: "DescriberRouteFailed", Kind: KindNode, Components: []string{componentRoutes}, Begins: []string{"describe route failed for "}, Failure: true,
		Means: "The route to the Pods of a Node could not be read."},
	{Reason: "AddNodeFailed", Kind: KindNode, Components: []string{componentNodes}, Begins: []string{"error adding node: "}, Failure: true,
		Means: "A new Node could not be initialized and keeps its taint, in releases before v2.11.2."},
	{Reason: "SyncNodeFailed", Kind: KindNode, Components: []string{componentNodes}, Begins: []string{"failed to disable source dest check for node: "},
		Failure: true, Means: "The addresses, labels or taints of a Node could not be updated."},
	{Reason: "DeleteNodeFailed", Kind: KindNode, Components: []string{componentNodes}, Begins: []string{"error deleting node: "}, Failure: true,
		Means: "A Node whose instance is gone could not be deleted."},
	{Reason: "SyncRouteFailed", Kind: KindCluster, Components: []string{componentRoutes},
		Begins: []string{"reconciling route error: ", "error reconciling route, reconcile table "}, Failure: true,
		Means: "The routes of the cluster could not be brought up to date."},
	{Reason: Precheck, Kind: KindCluster, Failure: true, Means: "The check before an upgrade of the controller foresees failures."},
}

func warningOf(reason string) (w Warning, known bool) {
	i := slices.IndexFunc(Warnings, func(w Warning) bool { return w.Reason == reason })
	if i < 0 {
		return Warning{}, false
	}
	return Warnings[i], true
}

// warningIn returns the warning of a message without a reason, by its beginning; the zero Warning means a Service.
func warningIn(message string) Warning {
	said := strings.ToLower(strings.TrimSpace(message[:min(len(message), 256)]))
	for _, w := range Warnings {
		if slices.ContainsFunc(w.Begins, func(text string) bool { return strings.HasPrefix(said, text) }) {
			return w
		}
	}
	return Warning{}
}

func (w Warning) writes(component string) bool {
	if w.Kind == "" {
		return Controller(component)
	}
	return slices.Contains(w.Components, component)
}

// Writes reports whether a component of the controller writes Warnings about objects of this kind; empty for Services.
func Writes(component, kind string) bool {
	return slices.ContainsFunc(Warnings, func(w Warning) bool { return w.Kind == kind && w.writes(component) })
}

// FailureOf returns the kind of object, empty for a Service, whose failures Events with this reason report, if any.
func FailureOf(reason string) (kind string, ok bool) {
	w, _ := warningOf(reason)
	return w.Kind, w.Failure
}

// Watched reports whether Events with this reason can report a failed sync of a Service.
func Watched(reason string) bool {
	kind, ok := FailureOf(reason)
	return ok && kind == ""
}

// Controller reports whether this component is the controller that syncs Services.
func Controller(component string) bool { return component == componentCLB || component == componentNLB }

// FailedPrecheck reports whether a result of a check before an upgrade, as JSON, is unreadable or holds an item that did not pass.
func FailedPrecheck(message string) bool {
	var result struct {
		State        string
		CheckResults []struct{ FailedCount, WarnCount, UnknownCount int }
	}
	if err := json.Unmarshal([]byte(message), &result); err != nil || result.State != "Success" {
		return true
	}
	for _, r := range result.CheckResults {
		if r.FailedCount+r.WarnCount+r.UnknownCount > 0 {
			return true
		}
	}
	return false
}
