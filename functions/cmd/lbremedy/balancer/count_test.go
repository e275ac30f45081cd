package balancer

import (
	"errors"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

// An NLB has the backends of the groups that its listeners use, each counted once; unknown backends give no number.
func TestServersOf(t *testing.T) {
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
		"somebody else's group":         {groups: []string{"sgp-x"}, err: "sgp-x of a listener is not the cluster's"},
		"a group that can't be read":    {groups: []string{"sgp-a", "sgp-bad"}, err: "sgp-bad: no answer"},
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
			n, err := serversOf(s, lb)
			if n != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %d, %v; want %d, %q", n, err, tt.want, tt.err)
			}
		})
	}
}
