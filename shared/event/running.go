package event

import "time"

// A Running is what is known of the runs on one Service and class beside the journal:
// who runs now, and how often a run has ended as the last record says. It lies in the
// bucket, in one key, so that what changes nothing leaves no record behind.
type Running struct {
	Holder  string        `json:"holder,omitempty"`  // names the run that has begun and not ended
	Renewed time.Time     `json:"renewed,omitzero"`  // when that run has last shown that it lives
	Crashes int           `json:"crashes,omitempty"` // runs in a row that never ended
	Errors  int           `json:"errors,omitempty"`  // runs in a row that ended with an error
	Seen    int           `json:"seen,omitempty"`    // runs in a row that ended as the last record says, the one that wrote it among them
	First   time.Time     `json:"first,omitzero"`    // when the first of them ended
	Last    time.Time     `json:"last,omitzero"`     // when the last of them ended
	Event   string        `json:"event,omitempty"`   // id of the newest CloudEvent that was answered
	Version string        `json:"version,omitempty"` // resource version of the Event that this was made of
	Wait    time.Duration `json:"wait,omitempty"`    // nanoseconds until the case is looked at again
	Stored  uint64        `json:"stored,omitempty"`  // sequence of the last record that a run has appended,
	At      time.Time     `json:"at,omitzero"`       // and when
	Used    time.Time     `json:"used,omitzero"`     // until then its runs have used up the records that they may write without a plan
}

// Since returns the record of a Service and class as it stands since the last run that
// ended as it says.
func (r Running) Since(rec Record) Record {
	if rec.Phase == Settled && r.Last.After(rec.At) {
		rec.At, rec.Event, rec.Wait = r.Last, r.Event, r.Wait
	}
	return rec
}

// Answered notes that an event was answered, made of an Event of this resource version, unless that is an older one than
// the last that was: one that was held up may be answered after those that came later, which alone are kept.
func (r *Running) Answered(id, version string, now time.Time) {
	older := version != "" && (len(version) < len(r.Version) || len(version) == len(r.Version) && version < r.Version)
	if older && now.Sub(r.Last) < time.Hour { // but a cluster that was restored begins again with old versions
		return
	}
	r.Event, r.Version = id, version
}

// RunKey returns the key in the bucket of the Running of a Service and class. Each part
// may be "*" in a filter.
func RunKey(cluster, serviceUID, class string) string {
	return "run." + cluster + "." + serviceUID + "." + class
}
