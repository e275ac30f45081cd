package balancer_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

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
		{[]string{"lb", "show", "web/"}, "is not a Service"},
		{[]string{"lb", "show", sc.Namespace + "/inner"}, "is not of type LoadBalancer"},
	} {
		if got := sc.Run(t.Context(), tt.args...); got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%v: code %d, said %s", tt.args, got.Code, got.Err)
		}
	}
}

// The argument is the Service that uses the load balancer; its name alone suffices if it is unique.
func TestShowByName(t *testing.T) {
	t.Parallel()
	c, account := operator.Small(t)
	for name, want := range map[string]string{
		"own": "shop/own  CLB lb-own\n", "lb-own": "shop/own  CLB lb-own\n", "lb-lent": "shop/lent  CLB lb-lent\n", "lb-lost": "shop/lost-it  CLB lb-lost (gone)\n",
		"lb-untagged": "shop/untagged  CLB lb-untagged (untagged)\n", "young": "shop/young  CLB none\n", "shop/own": "shop/own  CLB lb-own\n",
	} {
		if got := c.Run(t.Context(), "lb", "show", name); got.Code != 0 || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s: %+v, want %q", name, got, want)
		}
	}
	refused := func(c operator.Call, code int, want string, args ...string) {
		t.Helper()
		if got := c.Run(t.Context(), args...); got.Code != code || got.Out != "" || !strings.Contains(got.Err, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
	for _, id := range []string{"lb-none", "nlb-none"} {
		refused(c, command.CodeWrong, "no Service in the cluster uses the load balancer "+id+", and it does not exist in "+account.Region(), "lb", "show", id)
	}
	refused(c, command.CodeWrong, `"lb-own/x/y" is not a Service`, "lb", "show", "lb-own/x/y")
	refused(c, command.CodeWrong, `"LB-own" is not a Service`, "lb", "show", "LB-own")
	for _, args := range []string{"lb show none", "plan none", "plan lb-own", "run none --apply", "doctor none"} {
		refused(c, command.CodeWrong, "no namespace of the cluster has a Service ", strings.Fields(args)...)
	}
	lift := account.Fault(sim.Fault{Action: "DescribeLoadBalancers", Code: "Forbidden.RAM", Status: 403})
	refused(c, command.CodeFailed, "DescribeLoadBalancers", "lb", "show", "lb-own")
	lift()

	clusterIP, other, alone := operator.ServiceOn("web", "", ""), operator.ServiceOn("web", "lb-1", "lb-1"), operator.ServiceOn("inner", "", "")
	clusterIP.Namespace, clusterIP.Spec.Type = "pay", corev1.ServiceTypeClusterIP
	alone.Spec.Type = corev1.ServiceTypeClusterIP
	beside := operator.ServiceOn("beside", "lb-1", "lb-1")
	list := []any{clusterIP, other, alone, beside}
	world := func() *sim.World {
		return &sim.World{Cluster: sim.Cluster{ID: "c1"}, LoadBalancers: []sim.LoadBalancer{{ID: "lb-1"}, {ID: "lb-2"}}}
	}
	c, _ = operator.API{Lists: map[string][]any{"/api/v1/services": list}}.Against(t, world())
	if got := c.Run(t.Context(), "lb", "show", "web"); got.Code != 0 || !strings.HasPrefix(got.Out, "shop/web  CLB lb-1\n") {
		t.Errorf("the one of type LoadBalancer: %+v", got)
	}
	refused(c, command.CodeWrong, "the Service shop/inner is not of type LoadBalancer", "lb", "show", "inner")
	refused(c, command.CodeWrong, "2 Services use the load balancer lb-1: name one of them: shop/beside, shop/web", "lb", "show", "lb-1")
	refused(c, command.CodeWrong, "no Service in the cluster uses the load balancer lb-2\n", "lb", "show", "lb-2")

	second := operator.ServiceOn("web", "", "")
	second.Namespace = "pay"
	c, _ = operator.API{Lists: map[string][]any{"/api/v1/services": {second, other}}}.Against(t, world())
	for _, args := range []string{"lb show web", "plan web", "run web --apply", "doctor web", "doctor --fix finalizers web"} {
		refused(c, command.CodeWrong, "2 Services are called web: name one as NAMESPACE/NAME: pay/web, shop/web", strings.Fields(args)...)
	}
	denied, _ := operator.API{Denied: true}.Against(t, world())
	refused(denied, command.CodeWrong, "name the Service web as NAMESPACE/NAME, because the Services of all namespaces cannot be listed: ", "lb", "show", "web")
}

// A group whose backends can't be read is unknown in the exit code, too.
func TestShowUnreadGroup(t *testing.T) {
	t.Parallel()
	c, account := operator.API{Lists: map[string][]any{"/api/v1/services": {operator.ServiceOn("web", "lb-1", "lb-1")}}}.Against(t, &sim.World{
		Cluster: sim.Cluster{ID: "c1"},
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Address: "203.0.113.9", VGroups: []sim.VGroup{
			{ID: "rsp-1", Name: "web", Backends: []sim.Backend{{Server: "i-1", Port: 80}}},
		}}},
	})
	if got := c.Run(t.Context(), "lb", "show", "web"); got.Code != 0 || got.Err != "" || !strings.Contains(got.Out, "rsp-1") {
		t.Fatalf("show: %+v", got)
	}
	account.Fault(sim.Fault{Action: "DescribeVServerGroupAttribute", Code: "Forbidden.RAM", Status: 403})
	if got := c.Run(t.Context(), "lb", "show", "web"); got.Code != cli.CodeUnknown || !strings.Contains(got.Err, "shop/web: ") ||
		!strings.Contains(got.Err, "rsp-1") || !strings.Contains(got.Err, "Forbidden.RAM") {
		t.Errorf("without the backends: %+v", got)
	}
}
