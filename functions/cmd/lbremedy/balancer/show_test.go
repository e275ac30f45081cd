package balancer_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// lb show lists the load balancer that the controller made, with its tags and listeners.
func TestShow(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	client := sc.Kube.Client().CoreV1().Services(sc.Namespace)
	web := sc.Namespace + "/web"
	if _, err := client.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+operator.Annotation+`vswitch-id":"vsw-b"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until := func(is func(*corev1.Service) bool) {
		t.Helper()
		if err := operator.WatchService(t, sc, "web", is); err != nil {
			t.Fatal(err)
		}
	}
	until(func(svc *corev1.Service) bool {
		return len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Labels[ccm.BalancerLabel] != ""
	})

	var list []balancer.Balancing
	got := sc.Run(t.Context(), "lb", "ls", "--namespace", sc.Namespace, "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || got.Code != 0 {
		t.Fatalf("code %d, %v: %s", got.Code, err, got.Err)
	}
	if len(list) != 1 || list[0].Made != "own" || list[0].AddressType != "intranet" || list[0].Address == "" || list[0].Backends == nil ||
		*list[0].Limit != 200 || len(list[0].Listeners) != 1 {
		t.Fatalf("got %s", got.Out)
	}
	id := list[0].ID
	if got := sc.Run(t.Context(), "lb", "show", web); got.Code != 0 || !strings.Contains(got.Out, id) || !strings.Contains(got.Out, ccm.NameTag) {
		t.Errorf("show: code %d, %s %s", got.Code, got.Out, got.Err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"lb", "show", "web"}, "is not a Service"},
		{[]string{"lb", "show", sc.Namespace + "/inner"}, "is not of type LoadBalancer"},
	} {
		if got := sc.Run(t.Context(), tt.args...); got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%v: code %d, said %s", tt.args, got.Code, got.Err)
		}
	}
}
