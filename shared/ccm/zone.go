package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The annotations that say where a load balancer is created. Once it exists, only the one for NLBs has an effect.
const (
	VSwitchID  = "vswitch-id"
	MasterZone = "master-zoneid"
	SlaveZone  = "slave-zoneid"
	ZoneMap    = "zone-maps" // of an NLB
)

// A Zone is one part of the annotation zone-maps, zone:vSwitch[:address[:EIP]], with empty fields for what the part lacks.
type Zone struct {
	Text                        string // the whole part
	Name, VSwitch, Address, EIP string
}

// Zones returns the parts of a zone map, and whether each names a vSwitch; nil for an empty value.
func Zones(value string) (zones []Zone, whole bool) {
	if value == "" {
		return nil, false
	}
	whole = true
	for part := range strings.SplitSeq(value, ",") {
		z := Zone{Text: strings.TrimSpace(part)}
		fields := append(strings.Split(z.Text, ":"), "", "", "")
		z.Name, z.VSwitch, z.Address, z.EIP = fields[0], fields[1], fields[2], fields[3]
		whole = whole && strings.Contains(z.Text, ":")
		zones = append(zones, z)
	}
	return zones, whole
}

// ZoneNames returns the sorted names of the zones in a zone map, without any that is too long.
func ZoneNames(value string) []string {
	var names []string
	zones, _ := Zones(value)
	for _, z := range zones {
		if z.Name != "" && len(z.Name) <= longestID {
			names = append(names, z.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Binds reports whether the part asks for an address or an EIP in its vSwitch.
func (z Zone) Binds() bool { return strings.Count(z.Text, ":") > 1 }

// Pair returns the part without an address or an EIP.
func (z Zone) Pair() string {
	fields := strings.SplitN(z.Text, ":", 3)
	return strings.Join(fields[:min(len(fields), 2)], ":")
}

// AskedVSwitches returns the IDs of the vSwitches that the Service names for its load balancer; whole is false for a malformed zone map.
func AskedVSwitches(svc *corev1.Service) (ids []string, whole bool) {
	if !NLB(svc) {
		if id, _ := Annotation(svc, VSwitchID); id != "" { // an empty annotation names none
			ids = append(ids, id)
		}
		return ids, true
	}
	value, ok := Annotation(svc, ZoneMap)
	zones, whole := Zones(value)
	for _, z := range zones {
		ids = append(ids, z.VSwitch)
	}
	return ids, whole || !ok
}

const longestID = 64

// CutID returns at most 64 bytes of an ID from outside: real IDs are not longer.
func CutID(id string) string { return strings.ToValidUTF8(id[:min(len(id), longestID)], "") }
