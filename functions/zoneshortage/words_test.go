package zoneshortage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A primary zone without a standby takes the old standby's annotation away, which
// would ask for a pair that has no stock.
func TestCommand(t *testing.T) {
	c := &remedy.Case{View: remedy.View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{remedy.LegacyPrefix + slaveZone: "z-b"}}}}}
	for _, tt := range []struct {
		to   cloud.ZonePair
		want string
	}{
		{cloud.ZonePair{Zone: "z-c", SlaveZone: "z-d"}, remedy.Prefix + "master-zoneid=z-c " + remedy.Prefix + "slave-zoneid=z-d"},
		{cloud.ZonePair{Zone: "z-c"}, remedy.Prefix + "master-zoneid=z-c " + remedy.LegacyPrefix + "slave-zoneid-"},
	} {
		if got, want := command(c, tt.to), "kubectl -n shop annotate service web "+tt.want+" --overwrite"; got != want {
			t.Errorf("%v:\n%s\nwant\n%s", tt.to, got, want)
		}
	}
}
