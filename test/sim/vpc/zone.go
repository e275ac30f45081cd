package vpc

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A Zone is a zone of the region, with its stock of load balancers.
type Zone struct {
	ID     string `json:"id,omitempty"`
	Stock  *int   `json:"stock,omitempty"`  // load balancers that can still be created; nil: unlimited
	NoIPv6 bool   `json:"noIpv6,omitempty"` // it has no IPv6
}

// Sold reports whether a zone is sold out.
func (z *Zone) Sold() bool { return z.Stock != nil && *z.Stock <= 0 }

func (s *State) fillZones(list []Zone) error {
	var err error
	s.Zones, err = core.Index("zone", list, func(z *Zone) string { return z.ID }, func(i int, z *Zone) {
		if z.ID == "" {
			z.ID = fmt.Sprintf("%s-%c", s.Region, 'h'+rune(i))
		}
	})
	if len(list) == 0 {
		s.Zones[s.Region+"-h"], s.Zones[s.Region+"-i"] = &Zone{ID: s.Region + "-h"}, &Zone{ID: s.Region + "-i"}
	}
	s.settleZones()
	return err
}

func (s *State) settleZones() {
	for _, v := range s.VSwitches {
		s.AddZone(v.Zone)
	}
	for id, z := range s.Zones {
		z.ID = id
	}
}

// AddZone adds a zone if it is missing.
func (s *State) AddZone(id string) {
	if id != "" && s.Zones[id] == nil {
		s.Zones[id] = &Zone{ID: id}
	}
}

// Roomy returns the first zone with stock other than besides, trying first before the others, or "".
func (s *State) Roomy(besides string, first ...string) string {
	for _, id := range append(first, slices.Sorted(maps.Keys(s.Zones))...) {
		if z := s.Zones[id]; z != nil && id != besides && !z.Sold() {
			return id
		}
	}
	return ""
}

// Stock changes the stock of a zone.
func (s *State) Stock(zone string, n int) {
	if z := s.Zones[zone]; z != nil && z.Stock != nil {
		z.Stock = new(*z.Stock + n)
	}
}
