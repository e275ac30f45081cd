package ccm_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

// A primary zone without a standby removes the old standby's annotation; otherwise the Service would ask for a pair without stock.
func TestZonesCommand(t *testing.T) {
	annotations := map[string]string{ccm.LegacyPrefix + ccm.SlaveZone: "z-b"}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations}}
	for _, tt := range []struct {
		to   cloud.ZonePair
		want string
	}{
		{cloud.ZonePair{Zone: "z-c", SlaveZone: "z-d"}, ccm.Prefix + "master-zoneid=z-c " + ccm.Prefix + "slave-zoneid=z-d"},
		{cloud.ZonePair{Zone: "z-c"}, ccm.Prefix + "master-zoneid=z-c " + ccm.LegacyPrefix + "slave-zoneid-"},
	} {
		if got, want := ccm.ZonesCommand(svc, tt.to), "kubectl -n shop annotate service web "+tt.want+" --overwrite"; got != want {
			t.Errorf("%v:\n%s\nwant\n%s", tt.to, got, want)
		}
	}
}

func TestDeletePodsCommand(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if got, want := ccm.DeletePodsCommand(svc, []string{"web-0", "x; reboot"}), "kubectl -n shop delete pod web-0 'x; reboot'"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestZoneMapCommand(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	list := []cloud.VSwitch{{ID: "vsw-a", Zone: "h"}, {ID: "vsw-b", Zone: "i"}, {ID: "vsw-c", Zone: "j"}}
	for n, want := range []string{"ZONE:VSWITCH,ZONE:VSWITCH", "h:vsw-a,ZONE:VSWITCH", "h:vsw-a,i:vsw-b", "h:vsw-a,i:vsw-b"} {
		if got, want := ccm.ZoneMapCommand(svc, list[:n]), ccm.SetCommand(svc, ccm.ZoneMap, want); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
