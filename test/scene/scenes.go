package scene

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/test/sim"
)

// A Scene is one way for a Service to fail.
//
// What lbremedy makes of it supposes fix mode with a policy that allows high risk
// for tag-missing and medium for ram-permission.
type Scene struct {
	Class string        // of the failure
	Story string        // what went wrong, as a sentence
	Says  string        // stands in the controller's event
	Ends  events.Result // how lbremedy ends it
	Heals bool          // the Service works in the end

	restarts bool // comes to light with a fresh controller only
	prepare  func(ctx context.Context, s *Stage, service string) error
	spoil    func(ctx context.Context, s *Stage, service string) error
}

// A Role is a scene with the name of the Service that plays it.
type Role struct {
	Scene
	Service string
}

// As returns the scene with a Service for it.
func (s Scene) As(service string) Role { return Role{s, service} }

// Classes of the scenes.
const (
	full       = "vswitch-ip-exhausted"
	missing    = "tag-missing"
	permission = "ram-permission"
)

const (
	prefix       = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	nameTag      = "kubernetes.do.not.delete"
	saysNotFound = "can not find loadbalancer, but it's defined in service"
	saysNoTag    = "can not find loadbalancer by tag ["
	saysGone     = "The specified LoadBalancerId does not exist."
	saysFull     = "The specified VSwitch has no available ip."
	saysDenied   = "User not authorized to operate on the specified resource, or this API doesn't support RAM."
)

// FullVSwitch is a Service that asks for an address in a vSwitch without any.
func FullVSwitch(vswitch string) Scene {
	return Scene{
		Class: full, Says: saysFull, Ends: events.Fixed, Heals: true,
		Story: fmt.Sprintf("It is created in the vSwitch %s, which has no free address.", vswitch),
		spoil: made(tcp, "address-type", "intranet", "vswitch-id", vswitch),
	}
}

// AnyVSwitch is a Service that leaves the choice of a vSwitch to the controller,
// which takes a full one. From v2.13.0 on the controller then takes another by itself.
func AnyVSwitch() Scene {
	return Scene{
		Class: full, Says: saysFull, Ends: events.Fixed, Heals: true,
		Story: "It is created without a vSwitch, and the controller picks one that is full.",
		spoil: made(tcp, "address-type", "intranet"),
	}
}

// FixedAddress is a Service that asks for one address of a full vSwitch: no
// other vSwitch has it.
func FixedAddress() Scene {
	return Scene{
		Class: full, Says: saysFull, Ends: events.Asked,
		Story: fmt.Sprintf("It asks for one certain address in %s, which is full.", FullVSwitchH),
		spoil: made(tcp, "address-type", "intranet", "vswitch-id", FullVSwitchH, "ip", "10.0.0.40"),
	}
}

// LostTag is a Service whose load balancer was renamed and lost the name tag in
// the console. The controller meets it when it syncs backends.
func LostTag() Scene {
	return Scene{
		Class: missing, Says: saysNoTag, Ends: events.Fixed, Heals: true,
		Story:   "Somebody renames its load balancer and takes the tag off it; then a Pod starts.",
		prepare: synced(tcp),
		spoil: func(ctx context.Context, s *Stage, name string) error {
			if err := s.edit(name, func(lb *sim.LoadBalancer) { lb.Name = "frontend"; delete(lb.Tags, nameTag) }); err != nil {
				return err
			}
			return s.endpoints(ctx, name, 2)
		},
	}
}

// LostTagFullSync is LostTag, met when somebody changes the Service: a full sync
// says it in other words.
func LostTagFullSync() Scene {
	scene := LostTag()
	scene.Says, scene.Story = saysNotFound, "Somebody renames its load balancer and takes the tag off it; then the Service changes."
	scene.spoil = func(ctx context.Context, s *Stage, name string) error {
		if err := s.edit(name, func(lb *sim.LoadBalancer) { lb.Name = "frontend"; delete(lb.Tags, nameTag) }); err != nil {
			return err
		}
		return s.change(ctx, name)
	}
	return scene
}

// Gone is a Service whose load balancer was deleted by hand. A controller that
// made the load balancer itself would ask for it again with the client token of
// then, so a fresh one meets it.
func Gone() Scene {
	return Scene{
		Class: missing, Says: saysNoTag, Ends: events.Fixed, Heals: true, restarts: true,
		Story:   "Somebody deletes its load balancer.",
		prepare: synced(tcp),
		spoil: func(_ context.Context, s *Stage, name string) error {
			id, err := s.balancer(name)
			if err != nil {
				return err
			}
			s.Cloud.DropLoadBalancer(id)
			return nil
		},
	}
}

// NamesNone is a Service that names a load balancer which does not exist.
func NamesNone() Scene {
	return Scene{
		Class: missing, Says: saysGone, Ends: events.Asked,
		Story: "It names a load balancer that does not exist.",
		spoil: made(tcp, "id", "lb-of-yesteryear"),
	}
}

// Unbound is a Service that used a person's load balancer and no longer says so.
func Unbound() Scene {
	return Scene{
		Class: missing, Says: saysNotFound, Ends: events.Fixed, Heals: true,
		Story: "It used a load balancer of its owner's; then its annotation id gets lost.",
		prepare: func(ctx context.Context, s *Stage, name string) error {
			id := "lb-of-" + name
			s.Cloud.Edit(func(st *sim.State) {
				st.LoadBalancers[id] = &sim.LoadBalancer{Name: name + " by hand", Spec: "slb.s1.small", ChargeType: "PayBySpec"}
			})
			return s.create(ctx, name, tcp, "id", id)
		},
		spoil: func(ctx context.Context, s *Stage, name string) error {
			return s.patch(ctx, name, map[string]any{prefix + "id": nil})
		},
	}
}

// NoListener is a new Service for which the controller may not make the
// listener, since its role's policy was set back to an older document.
func NoListener() Scene {
	return Scene{
		Class: permission, Says: saysDenied, Ends: events.Fixed, Heals: true,
		Story: "It is created with a UDP port, and the controller's RAM role has lost the right to UDP listeners.",
		spoil: func(ctx context.Context, s *Stage, name string) error {
			s.Cloud.Edit(impoverish)
			return s.create(ctx, name, udp)
		},
	}
}

// NoTagging is a synced Service whose load balancer lost the tag and kept its
// name: the controller would put the tag back, and may not.
func NoTagging() Scene {
	return Scene{
		Class: permission, Says: saysDenied, Ends: events.Fixed, Heals: true,
		Story:   "Its load balancer loses the tag, and the controller's RAM role has lost the right to put it back.",
		prepare: synced(tcp),
		spoil: func(ctx context.Context, s *Stage, name string) error {
			s.Cloud.Edit(impoverish)
			if err := s.edit(name, func(lb *sim.LoadBalancer) { delete(lb.Tags, nameTag) }); err != nil {
				return err
			}
			return s.change(ctx, name)
		},
	}
}

// Unheard is a Service that the cloud refuses for a reason that nobody has ever seen.
func Unheard() Scene {
	const says = "The listener profile does not match the generation of the instance."
	return Scene{
		Class: events.Unclassified, Says: says, Ends: events.Asked,
		Story: "It is created with an HTTP port, and the cloud refuses it for a reason that nobody has ever seen.",
		spoil: func(ctx context.Context, s *Stage, name string) error {
			// Of all scenes, only this one has HTTP listeners.
			s.faults.Do(func() {
				s.Cloud.Fault(sim.Fault{Product: "slb", Action: "CreateLoadBalancerHTTPListener", Code: "ListenerProfileMismatch", Message: says})
			})
			return s.create(ctx, name, tcp, "protocol-port", "http:80")
		},
	}
}

// All returns each scene once.
func All() []Scene {
	return []Scene{
		FullVSwitch(FullVSwitchH), AnyVSwitch(), FixedAddress(),
		LostTag(), LostTagFullSync(), Gone(), NamesNone(), Unbound(),
		NoListener(), NoTagging(), Unheard(),
	}
}

// made spoils by creating the Service. The annotations are short names and values.
func made(protocol corev1.Protocol, annotations ...string) func(context.Context, *Stage, string) error {
	return func(ctx context.Context, s *Stage, name string) error {
		return s.create(ctx, name, protocol, annotations...)
	}
}

// synced prepares by creating the Service.
func synced(protocol corev1.Protocol, annotations ...string) func(context.Context, *Stage, string) error {
	return made(protocol, annotations...)
}

const (
	tcp = corev1.ProtocolTCP
	udp = corev1.ProtocolUDP
)

// create creates a LoadBalancer Service with one port and one ready Pod.
func (s *Stage) create(ctx context.Context, name string, protocol corev1.Protocol, annotations ...string) error {
	if err := s.endpoints(ctx, name, 1); err != nil {
		return err
	}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: protocol}},
		},
	}
	for i := 0; i < len(annotations); i += 2 {
		svc.Annotations[prefix+annotations[i]] = annotations[i+1]
	}
	if _, err := s.kube.CoreV1().Services(s.Namespace).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the Service: %w", err)
	}
	return nil
}

// endpoints makes n Pods the ready endpoints of a Service, one on each node.
func (s *Stage) endpoints(ctx context.Context, name string, n int) error {
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8080)), Protocol: new(tcp)}},
	}
	for i := range n {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("172.20.%d.10", i)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			NodeName:   new(s.node(i)),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", name, i)},
		})
	}
	data, err := json.Marshal(slice)
	if err != nil {
		return fmt.Errorf("write the endpoints: %w", err)
	}
	opts := metav1.PatchOptions{FieldManager: "stage", Force: new(true)}
	if _, err := s.kube.DiscoveryV1().EndpointSlices(s.Namespace).Patch(ctx, name, types.ApplyPatchType, data, opts); err != nil {
		return fmt.Errorf("write the endpoints: %w", err)
	}
	return nil
}

// change changes the Service in a way that means nothing to anybody but wakes
// the controller for a full sync.
func (s *Stage) change(ctx context.Context, name string) error {
	return s.patch(ctx, name, map[string]any{"example.com/owner": "team " + name})
}

// patch changes annotations of a Service; nil removes one.
func (s *Stage) patch(ctx context.Context, name string, annotations map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": maps.Clone(annotations)}})
	if err != nil {
		return fmt.Errorf("change the Service: %w", err)
	}
	if _, err := s.kube.CoreV1().Services(s.Namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("change the Service: %w", err)
	}
	return nil
}

// balancer returns the ID of a synced Service's load balancer.
func (s *Stage) balancer(name string) (string, error) {
	svc := s.watch.service(name)
	if svc == nil || svc.Labels[balancerLabel] == "" {
		return "", fmt.Errorf("the Service %s has no load balancer yet", name)
	}
	return svc.Labels[balancerLabel], nil
}

// edit changes a Service's load balancer behind the controller's back.
func (s *Stage) edit(name string, change func(*sim.LoadBalancer)) error {
	id, err := s.balancer(name)
	if err != nil {
		return err
	}
	found := false
	s.Cloud.Edit(func(st *sim.State) {
		if lb := st.LoadBalancers[id]; lb != nil {
			change(lb)
			found = true
		}
	})
	if !found {
		return fmt.Errorf("the load balancer %s of %s is not there", id, name)
	}
	return nil
}

// Bulk returns n roles of a scene, for Services with this name and a number.
func Bulk(s Scene, name string, n int) []Role {
	digits := len(fmt.Sprint(n - 1))
	roles := make([]Role, n)
	for i := range roles {
		number := fmt.Sprint(i)
		roles[i] = s.As(name + "-" + strings.Repeat("0", digits-len(number)) + number)
	}
	return roles
}
