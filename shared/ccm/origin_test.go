package ccm_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func TestOriginOf(t *testing.T) {
	t.Parallel()
	all := []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", UID: "a1b2c3d4-0000-1111-2222-333344445555"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}},
	}
	asking := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "9"}}
	const tag = "Its tag kubernetes.do.not.delete is "
	for _, tt := range []struct {
		tags map[string]string
		want string
	}{
		{map[string]string{ccm.NameTag: "aa1b2c3d400001111222233334444555"}, tag + "aa1b2c3d400001111222233334444555, the name for the Service shop/api."},
		{map[string]string{ccm.NameTag: "a0"}, tag + "a0, the name for a Service that this cluster does not have, or no longer has."},
		{map[string]string{ccm.NameTag: "a9", ccm.ClusterTag: "c-1"}, tag + "a9, the name for this Service."},
		{map[string]string{ccm.ClusterTag: "c-1"}, "It has the tag ack.aliyun.com=c-1."},
	} {
		if got := ccm.OriginOf(&ccm.Instance{Tags: tt.tags}, asking, all).String(); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.tags, got, tt.want)
		}
	}
}
