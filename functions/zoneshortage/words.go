package zoneshortage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// oneOf returns the value of an annotation that has two valid ones, of which the first is the
// default. For any other value it returns what is wrong.
func oneOf(c *remedy.Case, short, usual, other string) (string, say.Text) {
	value, _ := ccm.Annotation(c.Service, short)
	switch value {
	case "":
		return usual, nil
	case usual, other:
		return value, nil
	}
	return "", say.F("The annotation %s is %s, but must be %s or %s.", short, ccm.Quote(value), usual, other)
}

// describe lists pairs of a primary and a standby zone.
func describe(pairs []cloud.ZonePair) say.Text {
	var list []string
	for _, z := range pairs {
		list = append(list, strings.TrimSuffix(z.Zone+"/"+z.SlaveZone, "/"))
	}
	return say.List(list, 6)
}

// command returns the command by which a person makes the Service ask for these zones.
func command(c *remedy.Case, to cloud.ZonePair) string {
	text := ccm.SetCommand(c.Service, masterZone, to.Zone)
	if to.SlaveZone != "" {
		return strings.Replace(text, " --overwrite", fmt.Sprintf(" %s%s=%s --overwrite", ccm.Prefix, slaveZone, to.SlaveZone), 1)
	}
	for _, key := range []string{ccm.Prefix + slaveZone, ccm.LegacyPrefix + slaveZone} {
		if _, ok := c.Service.Annotations[key]; ok { // the standby of the previous zones
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

// causeOf lists up to 8 names of zones. It leaves out what is too long for a name.
func causeOf(set map[string]bool) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(set)), func(s string) bool { return s == "" || len(s) > 64 })
	return strings.Join(names[:min(len(names), 8)], ",")
}
