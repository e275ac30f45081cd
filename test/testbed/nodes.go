package testbed

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/test/sim"
)

const controllerName = "cloud-controller-manager"

const testbedLabel = "lbremedy.io/testbed"

// NodesOf returns the label selector of the testbed's nodes in a namespace.
func NodesOf(namespace string) string { return testbedLabel + "=" + namespace }

const nodes = 2

// A kind of node differs from workers, usually in a way that excludes it as a backend.
type kind string

const (
	ordinary    kind = "worker"
	master      kind = "master"   // with the label and the taint of masters
	excluded    kind = "excluded" // a label excludes it from load balancers
	leaving     kind = "leaving"  // the autoscaler is about to delete it
	broken      kind = "broken"   // not ready
	cordoned    kind = "cordoned" // unschedulable
	unnamed     kind = "unnamed"  // its provider ID is not of the cloud
	masterLabel      = "node-role.kubernetes.io/master"
)

func (tb *Testbed) build(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tb.Namespace}}
	if _, err := tb.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", tb.Namespace, err)
	}
	if tb.opts.Cluster != nil {
		tb.close = append(tb.close, func() { tb.clear(context.WithoutCancel(ctx)) })
	}
	for i := range nodes {
		if err := tb.join(ctx, tb.workerNode(i), workerInstance(i), ordinary); err != nil {
			return err
		}
	}
	return tb.daemonSet(ctx)
}

// clear deletes objects outside the namespace from a cluster that outlives the testbed. It ignores failures: the cluster is a sandbox.
func (tb *Testbed) clear(ctx context.Context) {
	tb.mu.Lock()
	joined := slices.Clone(tb.joined)
	tb.mu.Unlock()
	for _, name := range joined {
		_ = tb.kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	}
	_ = tb.kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Delete(ctx, controllerName, metav1.DeleteOptions{})
}

func (tb *Testbed) workerNode(i int) string { return fmt.Sprintf("%s-worker-%d", tb.Namespace, i+1) }

func (tb *Testbed) node(ctx context.Context, k kind) (string, error) {
	tb.joining.Lock()
	defer tb.joining.Unlock()
	name := tb.Namespace + "-" + string(k)
	tb.mu.Lock()
	there := slices.Contains(tb.joined, name)
	tb.mu.Unlock()
	if there {
		return name, nil
	}
	instance := "i-" + string(k)
	tb.Cloud.Edit(func(st *sim.State) {
		i := server(instance)
		st.Instances[instance] = &i
	})
	return name, tb.join(ctx, name, instance, k)
}

func (tb *Testbed) join(ctx context.Context, name, instance string, k kind) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{testbedLabel: tb.Namespace, corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{ProviderID: region + "." + instance},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}},
	}
	if tb.opts.Routes {
		tb.mu.Lock()
		node.Spec.PodCIDR = fmt.Sprintf("172.20.%d.0/24", len(tb.joined)+1) // a part of allPods
		tb.mu.Unlock()
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	}
	switch k {
	case master:
		node.Labels[masterLabel] = ""
		node.Spec.Taints = []corev1.Taint{{Key: masterLabel, Effect: corev1.TaintEffectNoSchedule}}
	case excluded:
		node.Labels[corev1.LabelNodeExcludeBalancers] = ""
	case leaving:
		node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	case broken:
		node.Status.Conditions = unready()
	case cordoned:
		node.Spec.Unschedulable = true
	case unnamed:
		node.Spec.ProviderID = "aws:///eu-west-1a/" + instance
	}
	tb.mu.Lock()
	tb.joined = append(tb.joined, name)
	tb.mu.Unlock()
	api := tb.kube.CoreV1().Nodes()
	made, err := api.Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		// The API server taints new nodes until a controller, which does not run here, sees that they are ready.
		made.Spec.Taints = node.Spec.Taints
		_, err = api.Update(ctx, made, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make node %s: %w", name, err)
	}
	return nil
}

func unready() []corev1.NodeCondition {
	return []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."},
	}
}

func grown(more int) operation {
	return func(ctx context.Context, tb *Testbed, _ string) error {
		tb.joining.Lock()
		defer tb.joining.Unlock()
		for i := nodes; i < nodes+more; i++ {
			tb.Cloud.Edit(func(st *sim.State) {
				v := server(workerInstance(i))
				st.Instances[v.ID] = &v
			})
			tb.mu.Lock()
			there := slices.Contains(tb.joined, tb.workerNode(i))
			tb.mu.Unlock()
			if there {
				continue
			}
			if err := tb.join(ctx, tb.workerNode(i), workerInstance(i), ordinary); err != nil {
				return err
			}
		}
		return nil
	}
}

func outage(over bool) operation {
	conditions := unready()
	if over {
		conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	}
	return func(ctx context.Context, tb *Testbed, _ string) error {
		for i := range nodes {
			data, err := encode(map[string]any{"status": corev1.NodeStatus{Conditions: conditions}})
			if err != nil {
				return err
			}
			if _, err := tb.kube.CoreV1().Nodes().Patch(ctx, tb.workerNode(i), types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status"); err != nil {
				return fmt.Errorf("change node %s: %w", tb.workerNode(i), err)
			}
		}
		return nil
	}
}

// daemonSet creates or updates the controller's DaemonSet with the current version. It has no Pods: the simulated controller runs instead.
func (tb *Testbed) daemonSet(ctx context.Context) error {
	app := map[string]string{"app": controllerName}
	data, err := encode(&appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: controllerName},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: controllerName, Image: "registry.example/acs/" + controllerName + "-amd64:" + tb.Version(),
				}}},
			},
		},
	})
	if err != nil {
		return err
	}
	// Testbeds that share a cluster create the same one, and delete it.
	opts := metav1.PatchOptions{FieldManager: "testbed", Force: new(true)}
	if _, err := tb.kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Patch(ctx, controllerName, types.ApplyPatchType, data, opts); err != nil {
		return fmt.Errorf("make the controller's DaemonSet: %w", err)
	}
	return nil
}

func joins(k kind) operation {
	return func(ctx context.Context, tb *Testbed, _ string) error {
		_, err := tb.node(ctx, k)
		return err
	}
}

func leaves(k kind) operation {
	return func(ctx context.Context, tb *Testbed, _ string) error {
		err := tb.kube.CoreV1().Nodes().Delete(ctx, tb.Namespace+"-"+string(k), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the node: %w", err)
		}
		return nil
	}
}
