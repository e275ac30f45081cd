package event

import "strings"

// A probe is an Event that fails nothing: it goes the way of a failure of one class, from the API server to the
// journal, to show that the way is open. Package probe makes them. Whoever may create Events can make one, too. It
// can do nothing: it must be about a Service of this name, and a run ends on it before the class is asked.
const (
	ProbeService   = "lbremedy-probe"
	ProbeComponent = "lbremedy-probe"
	ProbeReason    = "LBRemedyProbe"

	probeText = "Probe of the class "
)

// ProbeMessage returns what the probe of a class says.
func ProbeMessage(class string) string { return probeText + class }

// Probed returns the class that an Event probes; empty if it is no probe. service is the name of the Service that it
// is about.
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

// Probe reports whether the failure is a probe: nothing has failed.
func (f Failure) Probe() bool { return f.Component == ProbeComponent }

// Probe reports whether the record is about a probe, and of no interest to people: one that came through.
func (r Record) Probe() bool {
	return r.Service.Name == ProbeService && r.Result == Gone && strings.HasPrefix(r.Message, probeText)
}
