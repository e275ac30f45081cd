package event

import "strings"

// A probe is an Event about no failure. It takes the path of a failure of one class, from the API server to CASES, to show that the
// path works; package probe makes it. Anyone may make one without effect: it must be about a Service of this name, and its run ends
// before the class is asked.
const (
	ProbeService   = "lbremedy-probe"
	ProbeComponent = "lbremedy-probe"
	ProbeReason    = "LBRemedyProbe"

	probeText = "Probe of the class "
)

// ProbeMessage returns the message of the probe of a class.
func ProbeMessage(class string) string { return probeText + class }

// Probed returns the class that an Event about this Service probes; empty for any other Event.
func Probed(in Input, service string) (class string) {
	if in.Component != ProbeComponent || in.Reason != ProbeReason || service != ProbeService {
		return ""
	}
	class, _ = strings.CutPrefix(in.Message, probeText)
	if ValidClass(class) != nil {
		return ""
	}
	return class
}

// Probe reports whether the failure is a probe.
func (f Failure) Probe() bool { return f.Component == ProbeComponent }

// Probe reports whether the record is of a probe that came through, which people need not see.
func (r Record) Probe() bool {
	return r.Service.Name == ProbeService && r.Result == Gone && strings.HasPrefix(r.Message, probeText)
}
