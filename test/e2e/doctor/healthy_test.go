package doctor

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

var everywhere = []int{1, 2, 3}

var healthy = []struct {
	name    string
	pods    []int // workers with a ready Pod of it
	changes []change
}{
	{"web", everywhere, nil},
	{"idle", nil, nil}, // it has no endpoints
	{"idle-local", nil, []change{local}},
	{"one-pod", []int{1}, nil},
	{"everywhere", everywhere, []change{local}},
	{"private", everywhere, []change{with("address-type", "intranet", "vswitch-id", testbed.RoomyVSwitchI)}},
	{"many-ports", everywhere, []change{manyPorts}},
	{"http", everywhere, []change{with("protocol-port", "http:80", "health-check-flag", "on", "health-check-type", "http")}},
	{"settings", everywhere, []change{with("scheduler", "rr", "persistence-timeout", "60", "bandwidth", "20", "charge-type", "paybybandwidth", "name",
		"settings", "connection-drain", "on", "connection-drain-timeout", "30")}},
	{"named", everywhere, []change{func(svc *corev1.Service) { svc.Spec.Ports[0].TargetPort = intstr.FromString("web") }}},
	{"lent", everywhere, []change{with("id", "lb-of-lent", "force-override-listeners", "true")}},
	{"lent-too", everywhere, []change{port(81), with("id", "lb-of-lent", "force-override-listeners", "true")}},
	{"by-hand", everywhere, []change{with("id", "lb-of-by-hand")}}, // its listener is made by hand
	{"nlb", everywhere, []change{nlb}},
	{"nlb-idle", nil, []change{nlb}},
	{"nlb-local", everywhere, []change{nlb, local}},
	{"nlb-ranged", everywhere, []change{nlb, ranged}},
	{"nlb-lent", everywhere, []change{with("id", "nlb-of-nlb-lent", "force-override-listeners", "true"), nlb}},
	{"node-port", everywhere, []change{onNode(30080)}},
	{"others", everywhere, []change{with("service.beta.kubernetes.io/class", "another", "id", "lb-nowhere")}}, // another controller's
}

func manyPorts(svc *corev1.Service) {
	p := svc.Spec.Ports[0]
	p.Name, p.Port, p.Protocol = "udp", 53, corev1.ProtocolUDP
	more := svc.Spec.Ports[0]
	more.Name, more.Port, more.TargetPort = "more", 8443, intstr.FromInt32(8443)
	svc.Spec.Ports = append(svc.Spec.Ports, p, more)
}

func (r *rig) build() {
	r.Helper()
	r.policy(policyText)
	r.ahead.Store(int64(later))
	r.allow()
	r.testbed.Cloud.Edit(func(st *sim.State) {
		for _, id := range []string{testbed.FullVSwitchH, testbed.SmallVSwitchH, testbed.FullVSwitchI, testbed.RoomyVSwitchI} {
			st.VSwitches[id].Free = new(room)
		}
		st.Cluster.APIServer = apiServer
		st.LoadBalancers[apiServer] = &sim.LoadBalancer{
			Name: "api-server", Spec: "slb.s1.small", ChargeType: "PayBySpec", AddressType: "intranet", VSwitch: testbed.RoomyVSwitchI,
			Tags: map[string]string{"ack.aliyun.com": testbed.ClusterID}, Listeners: []sim.Listener{{Port: 6443, Protocol: "tcp"}},
		}
		st.Instances["i-worker3"] = &sim.Instance{ID: "i-worker3", Name: "i-worker3", VPC: st.Cluster.VPC, VSwitch: testbed.RoomyVSwitchI, Zone: "cn-hangzhou-i",
			Status: "Running"}
	})
	for _, name := range []string{"lb-of-lent", "lb-of-by-hand"} {
		r.lend(name)
	}
	r.testbed.Cloud.Edit(func(st *sim.State) {
		st.NLBs["nlb-of-nlb-lent"] = &sim.NLB{Name: "by hand", DeletionProtection: true, Zones: []sim.NLBZone{{VSwitch: testbed.RoomyVSwitchI},
			{VSwitch: testbed.FullVSwitchH}}}
	})
	r.join()
	r.protectedInACK(namespace)
	for _, s := range healthy {
		r.create(s.name, s.pods, s.changes...)
	}
	for _, s := range healthy {
		if svc := r.service(s.name); svc.Spec.Type == corev1.ServiceTypeLoadBalancer && s.name != "others" {
			r.synced(s.name)
		}
	}
	r.balancer("by-hand", func(lb *sim.LoadBalancer) {
		lb.Listeners = append(lb.Listeners, sim.Listener{Port: 80, Protocol: "tcp", VGroup: lb.VGroups[0].ID, Description: "by hand"})
	})
}

// allow makes the role's policy allow all known calls of this testbed's controller, whatever its release.
func (r *rig) allow() {
	r.Helper()
	v, ok := ccm.ParseVersion(r.testbed.Version())
	if !ok {
		r.Fatalf("the controller is of the release %q", r.testbed.Version())
	}
	of := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("alibabacloud.com/nlb")}}
	ranged(&of)
	by := corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	with("instance-charge-type", "PayBySpec", "address-type", "intranet")(&by)
	actions := ccm.Needs(v, ccm.InUse(cloud.Cluster{Network: "flannel"}, []corev1.Service{of, by}, nil))
	document := r.json(map[string]any{"Version": "1", "Statement": []any{map[string]any{"Effect": "Allow", "Action": actions, "Resource": []string{"*"}}}})
	r.testbed.Cloud.Edit(func(st *sim.State) {
		for _, p := range st.Policies {
			for i := range p.Versions {
				if p.Versions[i].Default {
					p.Versions[i].Document = string(document)
				}
			}
		}
	})
}

func (r *rig) lend(id string, changes ...func(*sim.LoadBalancer)) {
	lb := &sim.LoadBalancer{Name: id + " by hand", Spec: "slb.s1.small", ChargeType: "PayBySpec", DeleteProtection: true}
	for _, c := range changes {
		c(lb)
	}
	r.testbed.Cloud.Edit(func(st *sim.State) { st.LoadBalancers[id] = lb })
}

func (r *rig) join() {
	r.Helper()
	api := r.testbed.Cluster.Client().CoreV1().Nodes()
	node, err := api.Create(r.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: worker(3), Labels: map[string]string{"lbremedy.io/testbed": namespace, corev1.LabelHostname: worker(3)}},
		Spec:       corev1.NodeSpec{ProviderID: "cn-hangzhou.i-worker3"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}},
	}, metav1.CreateOptions{})
	r.must(err)
	r.Cleanup(func() { _ = api.Delete(r.ctx, worker(3), metav1.DeleteOptions{}) }) // the cluster is a sandbox
	node.Spec.Taints = nil                                                         // the API server taints new nodes, for a controller that does not run here
	_, err = api.Update(r.ctx, node, metav1.UpdateOptions{})
	r.must(err)
}
