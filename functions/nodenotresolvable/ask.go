package nodenotresolvable

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ask returns what to do about each kind of fault.
func (f *faults) ask(svc *corev1.Service) (ask say.Text) {
	named := func(list []string) say.Text { return say.List(list, 5) }
	words := func(list []string) string { return strings.Join(list[:min(len(list), 5)], " ") } // for a command
	if list := f.by[unset]; len(list) > 0 {
		ask = ask.And(`Set the providerID of the node %[1]s: kubectl patch node %[1]s -p '{"spec":{"providerID":"REGION.INSTANCE"}}'.`, list[0])
	}
	if list := f.by[wrong]; len(list) > 0 {
		ask = ask.And("A providerID cannot be changed. Delete each node that belongs to this region and VPC (%s): kubectl delete node %s.", named(list), words(list)).
			And("Then let its kubelet register it again with --provider-id=REGION.INSTANCE.")
	}
	if list := f.by[gone]; len(list) > 0 {
		ask = ask.And("Delete each node whose server was released (%s): kubectl delete node %s.", named(list), words(list))
	}
	if list := f.by[stopped]; len(list) > 0 {
		ask = ask.And("Start the server of %s, for example: aliyun ecs StartInstance --RegionId %s --InstanceId %s.", named(list), f.region, f.stopped[0]).
			And("If it will not run again, delete the node.")
	}
	if list := slices.Concat(f.by[wrong], f.by[elsewhere]); len(list) > 0 {
		ask = ask.And("Exclude each node that belongs elsewhere (%s) from all load balancers: kubectl label node %s service.alibabacloud.com/exclude-node=true.",
			named(list), words(list)).
			And("Its Pods are then reached through other nodes, or not at all if externalTrafficPolicy is Local.")
	}
	if list := f.by[homeless]; len(list) > 0 {
		ask = ask.And("Bring back the node of %s, or recreate the Pods on another node: %s.", named(list), ccm.DeletePodsCommand(svc, list[:min(len(list), 5)]))
	}
	if list := f.by[misnamed]; len(list) > 0 {
		ask = ask.And("Bring back the node of %s, or correct the nodeName in its EndpointSlice. To find the EndpointSlice: %s.", named(list), ccm.SlicesCommand(svc))
	}
	if list := f.by[nameless]; len(list) > 0 {
		ask = ask.And("Add the nodeName of %s to its EndpointSlice. To find the EndpointSlice: %s.", named(list), ccm.SlicesCommand(svc))
	}
	return ask
}
