package ccm_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

// A CLB keeps its vSwitch whatever the annotations say; an NLB can get further zones.
func TestVSwitchesOf(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		ccm.Prefix + "vswitch-id": "vsw-a", ccm.Prefix + "zone-maps": "cn-hangzhou-h:vsw-b,cn-hangzhou-i:vsw-c:10.0.0.1,nonsense",
	}}}
	for _, tt := range []struct {
		lb   *ccm.Instance
		want []string
	}{
		{nil, []string{"vsw-a", "vsw-b", "vsw-c"}},
		{ccm.Classic(cloud.LoadBalancer{VSwitch: "vsw-d"}), []string{"vsw-d"}},
		{ccm.Network(cloud.NetworkLoadBalancer{Zones: []cloud.NetworkZone{{VSwitch: "vsw-e"}}}), []string{"vsw-e", "vsw-b", "vsw-c"}},
	} {
		if got := ccm.VSwitchesOf(svc, tt.lb); !slices.Equal(got, tt.want) {
			t.Errorf("got %v, want %v", got, tt.want)
		}
	}
}

func TestZonePairs(t *testing.T) {
	got := ccm.ZonePairs([]cloud.VSwitch{{ID: "vsw-a", Zone: "h"}, {ID: "vsw-b", Zone: "h"}, {ID: "vsw-c", Zone: "i"}})
	if want := []string{"h:vsw-a", "i:vsw-c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestZoneNames(t *testing.T) {
	got := ccm.ZoneNames("i:vsw-b,h:vsw-a,i:vsw-c,:vsw-d," + strings.Repeat("z", 65) + ":vsw-e")
	if want := []string{"h", "i"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
