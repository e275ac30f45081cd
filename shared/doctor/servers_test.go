package doctor_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/test/sim"
)

// An NLB has the backends of the groups that its listeners use, each counted once, and none for backends that are unknown.
func TestServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		groups []string // used by the listeners
		failed map[doctor.Part]error
		want   int
		err    string
	}{
		"two groups, one of them twice": {groups: []string{"sgp-a", "sgp-b", "sgp-a"}, want: 5},
		"no listener":                   {},
		"a listener without a group":    {groups: []string{"", "sgp-b"}, want: 2},
		"a group that can't be read":    {groups: []string{"sgp-a", "sgp-bad"}, want: 3, err: "sgp-bad: no answer"},
		"no listeners read":             {failed: map[doctor.Part]error{doctor.Listeners: errors.New("no answer")}, err: "no answer"},
		"no backends read":              {failed: map[doctor.Part]error{doctor.Backends: errors.New("no answer")}, err: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &doctor.Snapshot{Given: []doctor.Part{doctor.Listeners, doctor.Groups, doctor.Backends}, Failed: tt.failed, ServerGroups: []doctor.Group{
				{ID: "sgp-a", Servers: 3}, {ID: "sgp-b", Servers: 2}, {ID: "sgp-bad", Failed: errors.New("no answer")}, {ID: "sgp-unused", Servers: 9},
			}}
			lb := &doctor.LoadBalancer{Instance: *ccm.Network(cloud.NetworkLoadBalancer{ID: "nlb-1"})}
			for _, g := range tt.groups {
				lb.NetworkListeners = append(lb.NetworkListeners, cloud.NetworkListener{ServerGroup: g})
			}
			n, err := s.Servers(lb)
			if n != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %d, %v; want %d, %q", n, err, tt.want, tt.err)
			}
		})
	}
}

// The group of a listener counts whoever made it.
func TestServersOfOthers(t *testing.T) {
	t.Parallel()
	svc := balanced("web", "", "", "nlb-1")
	svc.Spec.LoadBalancerClass = new(ccm.NLBClass)
	s := gathered(t, &sim.World{
		Cluster: sim.Cluster{ID: "c1", VPC: "vpc-1"}, VPCs: []sim.VPC{{ID: "vpc-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}},
		NLBs: []sim.NLB{{ID: "nlb-1", Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}, Listeners: []sim.NLBListener{
			{Port: 80, ServerGroup: "sgp-own"}, {Port: 90, ServerGroup: "sgp-hand"}, {Port: 91, ServerGroup: "sgp-hand"},
		}}},
		ServerGroups: []sim.ServerGroup{
			{ID: "sgp-own", Name: "own", Type: "Ip", Tags: map[string]string{ccm.ClusterTag: "c1"}, Servers: []sim.Server{{ID: "10.0.0.1", Type: "Ip", Port: 80}}},
			{ID: "sgp-hand", Name: "hand", Type: "Ip", Servers: []sim.Server{{ID: "10.0.0.2", Type: "Ip", Port: 90}, {ID: "10.0.0.3", Type: "Ip", Port: 90}}},
			{ID: "sgp-unused", Name: "unused", Type: "Ip", Servers: []sim.Server{{ID: "10.0.0.4", Type: "Ip", Port: 90}}},
		},
	}, []corev1.Service{svc}, doctor.Backends)
	if n, err := s.Servers(s.Balancers["nlb-1"]); err != nil || n != 3 {
		t.Errorf("got %d, %v; want 3", n, err)
	}
}
