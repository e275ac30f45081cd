package checkup

import (
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Gap is what a release of the controller needs and its RAM role does not have.
type Gap struct {
	Role    string       // empty: the cluster names none
	Needed  int          // how many actions the release is known to need here
	Missing []string     // not allowed, or not for all, sorted
	Denied  []string     // of the missing ones: forbidden by a Deny statement
	Limited []string     // of the missing ones: allowed under conditions or for some resources only
	Policy  cloud.Policy // to extend; its Name is empty where there is none
}

// Gap compares what a release of the controller calls for what the cluster and its
// Services use with what the masters' role allows. It needs Services, Detail and Rights.
func (s *Snapshot) Gap(v remedy.Version) Gap {
	needs := remedy.Needs(v, remedy.InUse(s.Detail, s.Services))
	g := Gap{Role: s.Role.Name, Needed: len(needs)}
	for _, action := range needs {
		says := remedy.Says(s.Role.Rules, action)
		if says == remedy.Allowed {
			continue
		}
		g.Missing = append(g.Missing, action)
		switch says {
		case remedy.Denied:
			g.Denied = append(g.Denied, action)
		case remedy.Limited:
			g.Limited = append(g.Limited, action)
		}
	}
	for _, p := range s.Role.Policies {
		if p.Type == "Custom" && remedy.BetterPolicy(p.Name, g.Policy.Name) {
			g.Policy = p
		}
	}
	slices.Sort(g.Missing)
	return g
}
