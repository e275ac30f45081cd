package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const policyText = `doctor: {protect: [shop], localPorts: 30000-30050}`

type illness struct {
	service string // created for it; empty: none
	pods    []int
	changes []change
	waits   string     // "sync" or "failure": what of the controller to wait for; empty: nothing
	live    func(*rig) // breaks something while the controller runs
	quiet   func(*rig) // breaks something while the controller is stopped
	finds   []string   // one line each: severity, check, object, key
	repair  func(*rig) // a person's repair without the controller; nil: the fault stays
}

// sick returns a world in which each check has something to find. One fault is one finding, unless two checks cover it. A few
// findings cannot be produced:
//
//   - no-events for a release that writes none, and what depends on older releases: the testbed has one. Scenarios of the check
//     cover these.
//   - room for quotas: with few Services, only a tiny quota is nearly used up.
//   - scale for 64,000 endpoints: it would take a minute. The doctor's benchmark has them.
//   - silent for swallowed Events: the filter opens after 25 syncs, which take longer than the whole test.
//   - lb-gone for the ingress: its Service is in kube-system, and the testbed's controller handles only its own namespace.
func (r *rig) sick() []illness {
	return []illness{
		{
			service: "typo", pods: everywhere, waits: "sync", changes: []change{with("adress-type", "intranet")},
			finds: []string{"warning annotations typo adress-type"},
		},
		{
			service: "both-prefixes", pods: everywhere, waits: "sync",
			changes: []change{with("scheduler", "wrr", ccm.LegacyPrefix+"scheduler", "wlc")},
			finds:   []string{"warning annotations both-prefixes both/scheduler"},
		},
		{
			service: "by-spec", pods: everywhere, waits: "sync",
			live: func(r *rig) {
				r.annotate("by-spec", "instance-charge-type", "PayBySpec")
				r.failed("by-spec")
			},
			finds:  []string{"critical silent by-spec hash", "warning charge-types by-spec charge-type-conflict"},
			repair: func(r *rig) { r.annotate("by-spec", "instance-charge-type", "") },
		},
		{
			service: "cordoned", pods: everywhere, waits: "sync", changes: []change{keepsCordoned},
			finds: []string{"warning cordoned cordoned some"},
		},
		{
			service: "mixed", pods: everywhere, waits: "sync",
			quiet: func(r *rig) {
				r.balancer("mixed", func(lb *sim.LoadBalancer) {
					lb.Listeners = append(lb.Listeners, sim.Listener{Port: 8080, Protocol: "tcp", Description: "by hand"})
				})
			},
			finds: []string{"warning deletion mixed others"},
			repair: func(r *rig) {
				r.balancer("mixed", func(lb *sim.LoadBalancer) {
					lb.Listeners = slices.DeleteFunc(lb.Listeners, func(l sim.Listener) bool { return l.Port == 8080 })
				})
			},
		},
		{
			service: "unprotected", pods: everywhere, waits: "sync",
			quiet: func(r *rig) {
				r.balancer("unprotected", func(lb *sim.LoadBalancer) { lb.DeleteProtection = false })
				r.testbed.Cloud.Edit(func(st *sim.State) {
					st.Cluster.Protected = slices.DeleteFunc(st.Cluster.Protected, func(p string) bool { return p == namespace+"/unprotected" })
				})
			},
			finds: []string{"warning lb-deletion-protection unprotected made", "warning service-deletion-protection unprotected service"},
			repair: func(r *rig) {
				r.balancer("unprotected", func(lb *sim.LoadBalancer) { lb.DeleteProtection = true })
				r.protectedInACK(namespace + "/unprotected")
			},
		},
		{
			service: "unprotected-nlb", pods: everywhere, waits: "sync", changes: []change{nlb},
			quiet:  func(r *rig) { r.protect("unprotected-nlb", false) },
			finds:  []string{"warning lb-deletion-protection unprotected-nlb made"},
			repair: func(r *rig) { r.protect("unprotected-nlb", true) },
		},
		{
			service: "busy", pods: everywhere, waits: "sync", changes: []change{local},
			live: func(r *rig) {
				before := r.counted("busy", "EnsuredLoadBalancer")
				for i := range 7 {
					r.staff("busy", []int{1, 2, 3, 1 + i%3})
					r.until("wait for sync after sync", func() bool { return r.counted("busy", "EnsuredLoadBalancer") > before+i })
				}
				r.staff("busy", everywhere)
				r.until("wait for the last sync", func() bool { return r.counted("busy", "EnsuredLoadBalancer") > before+7 })
			},
			quiet: func(r *rig) { r.aged("busy", "EnsuredLoadBalancer") },
			finds: []string{"warning draining busy", "warning event-writers " + testbed.ClusterID + " writers"}, // the test wrote the Event
		},
		{
			service: "resized", pods: everywhere, waits: "sync", changes: []change{with("charge-type", "paybybandwidth", "bandwidth", "20")},
			quiet:  func(r *rig) { r.balancer("resized", func(lb *sim.LoadBalancer) { lb.Bandwidth = 50 }) },
			finds:  []string{"warning drift resized"},
			repair: func(r *rig) { r.balancer("resized", func(lb *sim.LoadBalancer) { lb.Bandwidth = 20 }) },
		},
		{
			service: "tuned", pods: everywhere, waits: "sync", changes: []change{with("scheduler", "wrr")},
			quiet:  func(r *rig) { r.balancer("tuned", func(lb *sim.LoadBalancer) { lb.Listeners[0].Scheduler = "wlc" }) },
			finds:  []string{"warning drift tuned listeners"},
			repair: func(r *rig) { r.balancer("tuned", func(lb *sim.LoadBalancer) { lb.Listeners[0].Scheduler = "wrr" }) },
		},
		{
			service: "stopped", pods: everywhere, waits: "sync",
			quiet:  func(r *rig) { r.balancer("stopped", func(lb *sim.LoadBalancer) { lb.Listeners[0].Status = "stopped" }) },
			finds:  []string{"critical drift stopped down"},
			repair: func(r *rig) { r.balancer("stopped", func(lb *sim.LoadBalancer) { lb.Listeners[0].Status = "running" }) },
		},
		{
			service: "unguarded", pods: everywhere, waits: "sync",
			quiet: func(r *rig) { r.patch("unguarded", `{"metadata":{"finalizers":null}}`) },
			finds: []string{"critical finalizers unguarded missing"},
			repair: func(r *rig) {
				r.patch("unguarded", fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, ccm.CLBFinalizer))
			},
		},
		{
			service: "gone", pods: everywhere, waits: "sync",
			quiet: func(r *rig) { r.testbed.Cloud.DropLoadBalancer(r.balancerOf("gone")) },
			finds: []string{"critical lb-gone gone"},
		},
		{
			service: "gone-nlb", pods: everywhere, waits: "sync", changes: []change{nlb},
			quiet: func(r *rig) {
				id := r.balancerOf("gone-nlb")
				r.testbed.Cloud.Edit(func(st *sim.State) { delete(st.NLBs, id) })
			},
			finds: []string{"critical lb-gone gone-nlb"},
		},
		{
			service: "lost", pods: everywhere, waits: "sync",
			quiet: func(r *rig) {
				r.balancer("lost", func(lb *sim.LoadBalancer) {
					lb.Name = "renamed"
					delete(lb.Tags, ccm.NameTag)
				})
			},
			finds: []string{"warning lb-gone lost lost"},
			repair: func(r *rig) {
				svc := r.service("lost")
				r.balancer("lost", func(lb *sim.LoadBalancer) { lb.Tags[ccm.NameTag] = ccm.DefaultName(svc) })
			},
		},
		{
			quiet: func(r *rig) { r.testbed.Cloud.DropLoadBalancer(apiServer) },
			finds: []string{"warning lb-gone " + testbed.ClusterID + " api-server"}, // it still answers
		},
		{
			service: "no-listener", pods: everywhere, waits: "sync", changes: []change{with("id", "lb-of-no-listener")},
			finds:  []string{"critical listeners-missing no-listener"},
			repair: func(r *rig) { r.adopt("no-listener") },
		},
		{
			service: "elsewhere", pods: everywhere, waits: "sync", changes: []change{with("id", "lb-of-elsewhere")},
			quiet: func(r *rig) {
				r.balancer("elsewhere", func(lb *sim.LoadBalancer) {
					lb.VGroups = append(lb.VGroups, sim.VGroup{ID: "rsp-by-hand", Name: "by hand"})
					lb.Listeners = append(lb.Listeners, sim.Listener{Port: 80, Protocol: "tcp", VGroup: "rsp-by-hand"})
				})
			},
			finds: []string{"warning listeners-missing elsewhere elsewhere/tcp:80"},
		},
		{
			service: "full", pods: everywhere, waits: "failure", changes: []change{with("address-type", "intranet", "vswitch-id", testbed.FullVSwitchI)},
			finds: []string{"critical pending full", "critical room " + testbed.FullVSwitchI, "critical silent full missed"},
		},
		{
			quiet: func(r *rig) { r.create("unheard", everywhere) },
			finds: []string{"critical pending unheard", "critical silent unheard missed"},
			repair: func(r *rig) {
				r.must(r.testbed.Cluster.Client().CoreV1().Services(namespace).Delete(r.ctx, "unheard", metav1.DeleteOptions{}))
			},
		},
		{
			service: "on-nodes", pods: []int{1}, changes: []change{onNode(30001), local, with("bandwidth", "20")},
			finds: []string{"warning kind on-nodes type", "warning node-ports on-nodes local", "warning node-ports on-nodes local-ports"},
		},
		{
			service: "open", pods: everywhere, waits: "sync", changes: []change{with("acl-id", "acl-1")},
			finds: []string{"warning combinations open acl-id"},
		},
		{
			service: "uneven", pods: []int{1, 1, 1, 1, 2, 3}, waits: "sync", changes: []change{local, with("scheduler", "rr")},
			finds:  []string{"warning node-weights uneven tcp:80"},
			repair: func(r *rig) { r.staff("uneven", everywhere) },
		},
		{
			service: "untagged", pods: everywhere, waits: "sync",
			quiet: func(r *rig) { r.testbed.Cloud.LoseTag(r.balancerOf("untagged"), ccm.NameTag) },
			finds: []string{"warning not-renamable untagged"},
			repair: func(r *rig) {
				svc := r.service("untagged")
				r.balancer("untagged", func(lb *sim.LoadBalancer) { lb.Tags[ccm.NameTag] = ccm.DefaultName(svc) })
			},
		},
		{
			quiet:  func(r *rig) { r.policyVersion("v1") },
			finds:  []string{"warning permissions " + testbed.ClusterID + " missing"},
			repair: func(r *rig) { r.policyVersion("v2") },
		},
		{
			service: "wrong-type", pods: everywhere, waits: "failure", changes: []change{with("id", "lb-of-wrong-type", "address-type", "intranet",
				"force-override-listeners", "true")},
			finds: []string{"critical pending wrong-type", "critical reuse wrong-type address-type", "critical silent wrong-type missed"},
		},
		{
			service: "retyped", pods: everywhere, waits: "sync", changes: []change{with("id", "lb-of-retyped", "force-override-listeners", "true")},
			live: func(r *rig) {
				r.annotate("retyped", "address-type", "intranet")
				r.failed("retyped")
			},
			finds: []string{"critical silent retyped hash", "warning reuse retyped address-type"},
		},
		{
			live:   func(r *rig) { r.measured(10 * time.Minute) },
			finds:  []string{"warning scale " + testbed.ClusterID + " delay"},
			repair: func(r *rig) { r.measured(2 * time.Second) },
		},
		{
			service: "unheeded", pods: everywhere, waits: "sync",
			quiet:  func(r *rig) { r.annotate("unheeded", "example.com/team", "blue") },
			finds:  []string{"critical silent unheeded hash"},
			repair: func(r *rig) { r.annotate("unheeded", "example.com/team", "") },
		},
		{
			service: "ranged", pods: everywhere, waits: "sync", changes: []change{nlb, ranged},
			quiet: func(r *rig) { r.open("ranged") },
			finds: []string{"critical source-ranges ranged clients"},
		},
		{
			service: "ranged-clb", pods: everywhere, waits: "sync", changes: []change{ranged},
			finds: []string{"critical source-ranges ranged-clb clients"},
		},
		{
			service: "frozen", pods: everywhere, waits: "sync",
			quiet: func(r *rig) { r.apply(byHand("frozen")) },
			finds: []string{"critical groups-not-built frozen"},
		},
		{
			service: "stale", pods: everywhere, waits: "sync",
			quiet: func(r *rig) {
				r.balancer("stale", func(lb *sim.LoadBalancer) { lb.VGroups[0].Backends = lb.VGroups[0].Backends[1:] })
			},
			finds: []string{"warning stale-groups stale TCP:80"},
		},
		{
			service: "empty", pods: everywhere, waits: "sync",
			quiet: func(r *rig) { r.balancer("empty", func(lb *sim.LoadBalancer) { lb.VGroups[0].Backends = nil }) },
			finds: []string{"critical stale-groups empty TCP:80"},
		},
		{
			service: "empty-nlb", pods: everywhere, waits: "sync", changes: []change{nlb},
			quiet: func(r *rig) {
				r.testbed.Cloud.Edit(func(st *sim.State) {
					for _, g := range st.ServerGroups {
						if strings.Contains(g.Name, ".empty-nlb.") {
							g.Servers = nil
						}
					}
				})
			},
			finds: []string{"critical stale-groups empty-nlb TCP:80"},
		},
		{
			service: "here", pods: []int{1}, waits: "sync", changes: []change{local, with("address-type", "intranet", "vswitch-id", testbed.RoomyVSwitchI)},
			finds: []string{"warning unreachable-inside here local"},
		},
	}
}

// inject makes the healthy world sick. It stops the controller, which would repair some faults.
func (r *rig) inject(all []illness) {
	r.Helper()
	for _, id := range []string{"lb-of-no-listener", "lb-of-elsewhere", "lb-of-wrong-type", "lb-of-retyped"} {
		r.lend(id)
	}
	r.testbed.Cloud.SetFree(testbed.FullVSwitchI, 0)
	for _, ill := range all {
		if ill.service != "" {
			r.create(ill.service, ill.pods, ill.changes...)
		}
	}
	for _, ill := range all {
		switch ill.waits {
		case "sync":
			r.synced(ill.service)
		case "failure":
			r.failed(ill.service)
		}
	}
	for _, ill := range all {
		if ill.live != nil {
			ill.live(r)
		}
	}
	r.cordon()
	r.must(r.testbed.Halt(r.ctx))
	for _, ill := range all {
		if ill.quiet != nil {
			ill.quiet(r)
		}
	}
}

// cordon cordons the third worker, and waits until the controller has removed it from all Services except the one without the annotation.
func (r *rig) cordon() {
	r.Helper()
	_, err := r.testbed.Cluster.Client().CoreV1().Nodes().Patch(r.ctx, worker(3), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`),
		metav1.PatchOptions{})
	r.must(err)
	r.until("wait for the cordoned node to be taken out", func() bool {
		in := 0
		r.testbed.Cloud.View(func(st *sim.State) {
			for _, lb := range st.LoadBalancers {
				for _, g := range lb.VGroups {
					if slices.ContainsFunc(g.Backends, func(b sim.Backend) bool { return b.Server == "i-worker3" }) {
						in++
					}
				}
			}
			for _, g := range st.ServerGroups {
				if slices.ContainsFunc(g.Servers, func(b sim.Server) bool { return b.ID == "i-worker3" }) {
					in++
				}
			}
		})
		return in <= 1
	})
}

func keepsCordoned(svc *corev1.Service) { delete(svc.Annotations, prefix+"remove-unscheduled-backend") }

func (r *rig) adopt(service string) {
	r.Helper()
	r.balancer(service, func(lb *sim.LoadBalancer) {
		lb.Listeners = append(lb.Listeners, sim.Listener{Port: 80, Protocol: "tcp", VGroup: lb.VGroups[0].ID, Description: "by hand"})
	})
}

// policyVersion makes a version of the role's policy the default: v1 is the poorer one.
func (r *rig) policyVersion(id string) {
	r.testbed.Cloud.Edit(func(st *sim.State) {
		for _, name := range slices.Sorted(maps.Keys(st.Policies)) {
			for i := range st.Policies[name].Versions {
				v := &st.Policies[name].Versions[i]
				v.Default = v.ID == id
			}
		}
	})
}

func (r *rig) open(service string) {
	r.Helper()
	id := r.balancerOf(service)
	r.testbed.Cloud.Edit(func(st *sim.State) { st.NLBs[id].SecurityGroups = nil })
}

func (r *rig) protectedInACK(name string) {
	r.testbed.Cloud.Edit(func(st *sim.State) { st.Cluster.Protected = append(st.Cluster.Protected, name) })
}

func (r *rig) protect(service string, on bool) {
	r.Helper()
	id := r.balancerOf(service)
	r.testbed.Cloud.Edit(func(st *sim.State) { st.NLBs[id].DeletionProtection = on })
}

func byHand(service string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-by-hand", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(8080))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"172.29.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
}

func (r *rig) measured(took time.Duration) {
	r.Helper()
	const class = "busy"
	at := r.now()
	uid := fmt.Sprintf("0b5a9a53-6c3e-4a4c-9d5e-%012d", time.Now().UnixMicro()%1e12) // each case is another Service's
	_, header, data, err := event.EncodeRecord(event.Record{
		Origin: event.Origin{Case: event.CaseID(uid, at), Cluster: testbed.ClusterID, Class: class, Event: "e", EventTime: at,
			Service: event.Service{Namespace: namespace, Name: "fixed", UID: uid}},
		Run:     event.Run{Phase: event.Settled, Result: event.Fixed, First: at, Began: at, At: at, Attempts: []time.Time{}},
		Outcome: event.Outcome{Timings: event.Timings{Sync: took}},
	})
	if err == nil {
		_, _, err = r.env.Stream.PublishNewer(r.ctx, event.CaseSubject(testbed.ClusterID, uid, class), "", header, data, func(stream.Message) bool { return true })
	}
	r.must(err)
}
