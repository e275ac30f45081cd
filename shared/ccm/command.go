package ccm

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// Shell returns a word for a POSIX shell: unchanged, or in single quotes. Anybody can write an annotation, and people paste these commands,
// even from a chat that renders Markdown, where a backslash before a quote would be lost: quotes are escaped without one.
func Shell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}

// SetCommand returns the command that sets the controller's annotation with this short name, or key, on the Service.
func SetCommand(svc *corev1.Service, name, value string) string {
	if !strings.Contains(name, "/") {
		name = Prefix + name
	}
	return fmt.Sprintf("kubectl -n %s annotate service %s %s --overwrite", svc.Namespace, svc.Name, Shell(name+"="+value))
}

// ZonesCommand returns the command that makes the Service ask for these zones of its CLB.
func ZonesCommand(svc *corev1.Service, to cloud.ZonePair) string {
	text := SetCommand(svc, MasterZone, to.Zone)
	if to.SlaveZone != "" {
		return strings.Replace(text, " --overwrite", fmt.Sprintf(" %s%s=%s --overwrite", Prefix, SlaveZone, to.SlaveZone), 1)
	}
	for _, key := range []string{Prefix + SlaveZone, LegacyPrefix + SlaveZone} {
		if _, ok := svc.Annotations[key]; ok { // the standby of the previous zones
			text = strings.Replace(text, " --overwrite", " "+key+"- --overwrite", 1)
		}
	}
	return text
}

// ZoneMapCommand returns the command that asks for an NLB in the first two vSwitches, one a zone. ZONE:VSWITCH stands for a missing one.
func ZoneMapCommand(svc *corev1.Service, to []cloud.VSwitch) string {
	pairs := append(ZonePairs(to), "ZONE:VSWITCH", "ZONE:VSWITCH")
	return SetCommand(svc, ZoneMap, strings.Join(pairs[:2], ","))
}

// RemoveCommand returns the command that removes the controller's annotation with this short name, under all its prefixes.
func RemoveCommand(svc *corev1.Service, name string) string {
	command := fmt.Sprintf("kubectl -n %s annotate service %s", svc.Namespace, svc.Name)
	for _, key := range []string{Prefix + name, LegacyPrefix + name} {
		if _, ok := svc.Annotations[key]; ok {
			command += " " + Shell(key+"-")
		}
	}
	return command
}

// TargetPortCommand returns the command that sets the target port of a port, found by its index and number; NUMBER stands for the target port.
func TargetPortCommand(svc *corev1.Service, port corev1.ServicePort) string {
	at := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port.Port && p.Protocol == port.Protocol })
	return fmt.Sprintf(`kubectl -n %[1]s patch service %[2]s --type=json -p '[{"op":"test","path":"/spec/ports/%[3]d/port","value":%[4]d},{"op":"replace",`+
		`"path":"/spec/ports/%[3]d/targetPort","value":NUMBER}]'`,
		svc.Namespace, svc.Name, at, port.Port)
}

// PatchCommand returns the command that applies a merge patch to the Service.
func PatchCommand(svc *corev1.Service, patch string) string {
	return fmt.Sprintf("kubectl -n %s patch service %s --type=merge -p '%s'", svc.Namespace, svc.Name, patch)
}

// SlicesCommand returns the command that lists the EndpointSlices of the Service.
func SlicesCommand(svc *corev1.Service) string {
	return fmt.Sprintf("kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s", svc.Namespace, svc.Name)
}

// DeletePodsCommand returns the command that deletes Pods of the Service; their owner replaces them.
func DeletePodsCommand(svc *corev1.Service, pods []string) string {
	command := fmt.Sprintf("kubectl -n %s delete pod", svc.Namespace)
	for _, pod := range pods {
		command += " " + Shell(pod)
	}
	return command
}

// Resync is the only annotation that lbremedy writes for its own sake: it triggers a sync and changes the hash, which makes success visible.
const Resync = "lbremedy.io/resync"

// ResyncCommand returns the command that triggers a full sync of the Service.
func ResyncCommand(svc *corev1.Service) string {
	return fmt.Sprintf("kubectl -n %s annotate service %s %s=by-hand-$(date +%%s) --overwrite", svc.Namespace, svc.Name, Resync)
}

// ClearCommand returns the command that removes the addresses from the status of the Service.
func ClearCommand(svc *corev1.Service) string {
	return fmt.Sprintf("kubectl -n %s patch service %s --subresource=status --type=merge -p '{\"status\":{\"loadBalancer\":{\"ingress\":null}}}'",
		svc.Namespace, svc.Name)
}

// RestartCommand returns the command that restarts the controller where it runs as a DaemonSet.
func RestartCommand() string { return "kubectl -n kube-system rollout restart daemonset " + DaemonSet }

// TagCommand returns the command that gives the Service's load balancer a tag.
func (c *View) TagCommand(id, key, value string) string {
	return TagCommand(c.Service, c.Cloud.Region(), id, key, value)
}

// TagCommand returns the command that gives a load balancer of a region, of the Service's kind, a tag.
func TagCommand(svc *corev1.Service, region, id, key, value string) string {
	return fmt.Sprintf("%s --Tag.1.Key %s --Tag.1.Value %s", tagging(svc, region, "TagResources", id), Shell(key), Shell(value))
}

// UntagCommand returns the command that removes tags from the Service's load balancer.
func (c *View) UntagCommand(id string, keys ...string) string {
	return UntagCommand(c.Service, c.Cloud.Region(), id, keys...)
}

// UntagCommand returns the command that removes tags from a load balancer of a region, of the Service's kind.
func UntagCommand(svc *corev1.Service, region, id string, keys ...string) string {
	command := tagging(svc, region, "UntagResources", id)
	for i, key := range keys {
		command += fmt.Sprintf(" --TagKey.%d %s", i+1, Shell(key))
	}
	return command
}

// DeleteListenerCommand returns the command that deletes a listener of the load balancer.
func (c *View) DeleteListenerCommand(lb *Instance, l Listener) string {
	if lb.NLB != nil {
		return fmt.Sprintf("aliyun nlb DeleteListener --RegionId %s --ListenerId %s", c.Cloud.Region(), l.ID)
	}
	return fmt.Sprintf("aliyun slb DeleteLoadBalancerListener --RegionId %s --LoadBalancerId %s --ListenerPort %d --ListenerProtocol %s",
		c.Cloud.Region(), lb.ID, l.Port, l.Protocol)
}

// RenameCommand returns the command that renames a load balancer of the Service's kind.
func (c *View) RenameCommand(id, name string) string {
	call := "slb SetLoadBalancerName"
	if NLB(c.Service) {
		call = "nlb UpdateLoadBalancerAttribute"
	}
	return fmt.Sprintf("aliyun %s --RegionId %s --LoadBalancerId %s --LoadBalancerName %s", call, c.Cloud.Region(), id, name)
}

func tagging(svc *corev1.Service, region, action, id string) string {
	product, kind := "slb", "instance"
	if NLB(svc) {
		product, kind = "nlb", "loadbalancer"
	}
	return fmt.Sprintf("aliyun %s %s --RegionId %s --ResourceType %s --ResourceId.1 %s", product, action, region, kind, Shell(id))
}

// TrafficPolicyCommand returns the command that sets the Service's externalTrafficPolicy.
func TrafficPolicyCommand(svc *corev1.Service, policy corev1.ServiceExternalTrafficPolicy) string {
	return fmt.Sprintf(`kubectl -n %s patch service %s -p '{"spec":{"externalTrafficPolicy":"%s"}}'`, svc.Namespace, svc.Name, policy)
}

// MoveListenerCommand returns the command that moves a CLB's listener to another vServer group; GROUP-ID stands for it.
func (c *View) MoveListenerCommand(lb *Instance, l Listener) string {
	return fmt.Sprintf("aliyun slb SetLoadBalancer%sListenerAttribute --RegionId %s --LoadBalancerId %s --ListenerPort %d --VServerGroup on "+
		"--VServerGroupId GROUP-ID",
		strings.ToUpper(l.Protocol), c.Cloud.Region(), lb.ID, l.Port)
}

// RuleCommands returns the commands that move a forwarding rule to another vServer group, GROUP-ID, and that delete it.
func (c *View) RuleCommands(id string) (move, remove string) {
	return fmt.Sprintf("aliyun slb SetRule --RegionId %s --RuleId %s --VServerGroupId GROUP-ID", c.Cloud.Region(), id),
		fmt.Sprintf(`aliyun slb DeleteRules --RegionId %s --RuleIds '["%s"]'`, c.Cloud.Region(), id)
}
