package policyfile

import (
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Document returns the policy file that says what a version says: Parse reads it into the
// same policy. A freeze whose time zone has neither a name there nor a fixed offset of whole
// hours is an error.
func Document(v policy.Version, sections ...remedy.Section) ([]byte, error) {
	p := v.Policy
	f := File{Mode: p.Mode, Risk: p.Risk, Classes: p.Classes, Rules: p.Rules, Approvals: p.Approvals, Budgets: p.Budgets, Tell: v.Sinks, People: v.People}
	if f.Mode == "" {
		f.Mode = remedy.Observe
	}
	if p.TakeBack {
		f.Unsettled = "undo"
	}
	for i, freeze := range p.Freezes {
		zone := ""
		if i < len(v.Zones) {
			zone = v.Zones[i]
		}
		written, err := writeFreeze(freeze, zone)
		if err != nil {
			return nil, err
		}
		f.Freezes = append(f.Freezes, written)
	}
	f.Doctor = writeDoctor(p.Doctor)
	var more []config.Field
	for _, s := range sections {
		into := s.New()
		if err := s.Fill(p, into); err != nil {
			return nil, err
		}
		if _, ok := p.Sections[s.Name()]; ok {
			more = append(more, config.Field{Name: s.Name(), Into: into})
		}
	}
	return config.Encode(f, more...)
}

// writeFreeze is the way back of freezes.
func writeFreeze(f remedy.Freeze, zone string) (Freeze, error) {
	out := Freeze{Name: f.Name, Zone: zone}
	if !f.Start.IsZero() || !f.End.IsZero() {
		out.From, out.Until, out.Zone = f.Start.Format(time.RFC3339Nano), f.End.Format(time.RFC3339Nano), ""
		return out, nil
	}
	clock := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60) }
	out.From, out.Until = clock(f.From), clock(f.Until)
	for _, d := range f.Days {
		out.Days = append(out.Days, weekdays[d])
	}
	if zone != "" {
		return out, nil
	}
	seconds := 0
	for i, o := range f.Zone {
		if i > 0 && o.Seconds != seconds || o.Seconds%3600 != 0 {
			return Freeze{}, fmt.Errorf("freeze %q: the name of its time zone is not known: put the policy in force again from its file", f.Name)
		}
		seconds = o.Seconds
	}
	if seconds != 0 { // these names count the hours to UTC
		out.Zone = fmt.Sprintf("Etc/GMT%+d", -seconds/3600)
	}
	return out, nil
}

// writeDoctor is the way back of doctor.
func writeDoctor(d remedy.Doctor) *Doctor {
	out := Doctor{Protect: d.Protect}
	if d.Target != (ccm.Version{}) {
		out.Target = d.Target.String()
	}
	if d.LocalPorts != (remedy.Ports{}) {
		out.LocalPorts = d.LocalPorts.String()
	}
	if len(out.Protect) == 0 && out.Target == "" && out.LocalPorts == "" {
		return nil
	}
	return &out
}
