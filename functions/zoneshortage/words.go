package zoneshortage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// oneOf returns the value of an annotation that has two, of which the first is the
// default; for any other value it returns what is wrong, as a sentence.
func oneOf(c *remedy.Case, short, usual, other string) (value, bad string) {
	value, ok := ccm.Annotation(c.Service, short)
	switch {
	case !ok || value == "":
		return usual, ""
	case value == usual || value == other:
		return value, ""
	}
	return "", fmt.Sprintf("The annotation %s is %s, and can be %s or %s.", short, ccm.Quote(value), usual, other)
}

// describe lists pairs of zones.
func describe(pairs []cloud.ZonePair) string {
	list := make([]string, len(pairs))
	for i, z := range pairs {
		list[i] = z.Zone
		if z.SlaveZone != "" {
			list[i] += " with " + z.SlaveZone
		}
	}
	return remedy.List(list, 6)
}

// command returns the command that makes the Service ask for these zones.
func command(c *remedy.Case, to cloud.ZonePair) string {
	text := ccm.SetCommand(c.Service, masterZone, to.Zone)
	if to.SlaveZone != "" {
		return strings.Replace(text, " --overwrite", fmt.Sprintf(" %s%s=%s --overwrite", ccm.Prefix, slaveZone, to.SlaveZone), 1)
	}
	for _, key := range []string{ccm.Prefix + slaveZone, ccm.LegacyPrefix + slaveZone} {
		if _, ok := c.Service.Annotations[key]; ok { // of the zones that were asked for before
			text = strings.Replace(text, " --overwrite", " "+key+"- --overwrite", 1)
		}
	}
	return text
}

// zonesOf returns the zones of the VPC's vSwitches, sorted.
func zonesOf(vpc ccm.VPC) []string {
	var list []string
	for _, v := range vpc.All {
		list = append(list, v.Zone)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// zones lists the names of zones.
func zones(set map[string]bool) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(set)), func(s string) bool { return s == "" || len(s) > 64 })
	return strings.Join(names[:min(len(names), 8)], ",")
}
