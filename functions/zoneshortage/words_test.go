package zoneshortage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A primary zone without a standby takes the old standby's annotation away, which
// would ask for a pair that has no stock.
func TestCommand(t *testing.T) {
	c := &remedy.Case{View: ccm.View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{ccm.LegacyPrefix + slaveZone: "z-b"}}}}}
	for _, tt := range []struct {
		to   cloud.ZonePair
		want string
	}{
		{cloud.ZonePair{Zone: "z-c", SlaveZone: "z-d"}, ccm.Prefix + "master-zoneid=z-c " + ccm.Prefix + "slave-zoneid=z-d"},
		{cloud.ZonePair{Zone: "z-c"}, ccm.Prefix + "master-zoneid=z-c " + ccm.LegacyPrefix + "slave-zoneid-"},
	} {
		if got, want := command(c, tt.to), "kubectl -n shop annotate service web "+tt.want+" --overwrite"; got != want {
			t.Errorf("%v:\n%s\nwant\n%s", tt.to, got, want)
		}
	}
}
