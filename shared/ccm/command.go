package ccm

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// shell returns a word as a POSIX shell takes it: as it is where it holds nothing
// that a shell looks at, else in single quotes. What stands in an annotation is
// anybody's, and a person pastes these commands.
func shell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Shell returns a word as a POSIX shell takes it, for a command that a person pastes.
func Shell(word string) string { return shell(word) }

// SetCommand returns the command by which a person sets the controller's
// annotation with this short name, or this key, on the Service.
func SetCommand(svc *corev1.Service, name, value string) string {
	if !strings.Contains(name, "/") {
		name = Prefix + name
	}
	return fmt.Sprintf("kubectl -n %s annotate service %s %s --overwrite", svc.Namespace, svc.Name, shell(name+"="+value))
}

// ZonesCommand returns the command by which a person has the Service ask for these zones of its CLB.
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

// RemoveCommand returns the command by which a person removes the controller's
// annotation with this short name from the Service, under whichever prefixes it
// stands.
func RemoveCommand(svc *corev1.Service, name string) string {
	command := fmt.Sprintf("kubectl -n %s annotate service %s", svc.Namespace, svc.Name)
	for _, key := range []string{Prefix + name, LegacyPrefix + name} {
		if _, ok := svc.Annotations[key]; ok {
			command += " " + shell(key+"-")
		}
	}
	return command
}

// TargetPortCommand returns the command by which a person sets the target port of a
// port of the Service to a number, for which NUMBER stands. It tells ports of the
// same number apart by their place.
func TargetPortCommand(svc *corev1.Service, port corev1.ServicePort) string {
	at := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port.Port && p.Protocol == port.Protocol })
	return fmt.Sprintf(`kubectl -n %[1]s patch service %[2]s --type=json -p '[{"op":"test","path":"/spec/ports/%[3]d/port","value":%[4]d},{"op":"replace","path":"/spec/ports/%[3]d/targetPort","value":NUMBER}]'`,
		svc.Namespace, svc.Name, at, port.Port)
}

// Resync is the one annotation that lbremedy writes for its own sake. Its change
// wakes the controller and changes the hash that the controller leaves behind
// after a full sync, so that success shows.
const Resync = "lbremedy.io/resync"

// WakeCommand returns the command by which a person wakes the controller: it syncs
// the Service in full then.
func WakeCommand(svc *corev1.Service) string {
	return fmt.Sprintf("kubectl -n %s annotate service %s %s=by-hand-$(date +%%s) --overwrite", svc.Namespace, svc.Name, Resync)
}

// ClearCommand returns the command by which a person takes the addresses off the status
// of the Service.
func ClearCommand(svc *corev1.Service) string {
	return fmt.Sprintf("kubectl -n %s patch service %s --subresource=status --type=merge -p '{\"status\":{\"loadBalancer\":{\"ingress\":null}}}'", svc.Namespace, svc.Name)
}

// TagCommand returns the command by which a person gives a load balancer, of the
// kind that the Service wants, a tag.
func (c *View) TagCommand(id, key, value string) string {
	return TagCommand(c.Service, c.Cloud.Region(), id, key, value)
}

// TagCommand returns the command by which a person gives a load balancer of a region,
// of the kind that the Service wants, a tag.
func TagCommand(svc *corev1.Service, region, id, key, value string) string {
	return fmt.Sprintf("%s --Tag.1.Key %s --Tag.1.Value %s", tagging(svc, region, "TagResources", id), shell(key), shell(value))
}

// UntagCommand returns the command by which a person takes tags off a load
// balancer, of the kind that the Service wants.
func (c *View) UntagCommand(id string, keys ...string) string {
	return UntagCommand(c.Service, c.Cloud.Region(), id, keys...)
}

// UntagCommand returns the command by which a person takes tags off a load balancer of
// a region, of the kind that the Service wants.
func UntagCommand(svc *corev1.Service, region, id string, keys ...string) string {
	command := tagging(svc, region, "UntagResources", id)
	for i, key := range keys {
		command += fmt.Sprintf(" --TagKey.%d %s", i+1, shell(key))
	}
	return command
}

func tagging(svc *corev1.Service, region, action, id string) string {
	product, kind := "slb", "instance"
	if NLB(svc) {
		product, kind = "nlb", "loadbalancer"
	}
	return fmt.Sprintf("aliyun %s %s --RegionId %s --ResourceType %s --ResourceId.1 %s", product, action, region, kind, shell(id))
}
