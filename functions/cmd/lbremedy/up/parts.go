package up

import (
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/say"
)

// parts are what "lbremedy up" runs.
type parts struct {
	exporter, worker, notifier bool
}

// allParts are the parts as --parts names them.
const allParts = "exporter,worker,notifier"

// readParts reads the value of --parts.
func readParts(list string) (parts, error) {
	want := say.F("choose from %s", allParts)
	var p parts
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch name {
		case "exporter":
			p.exporter = true
		case "worker":
			p.worker = true
		case "notifier":
			p.notifier = true
		case "":
			return parts{}, command.Wrong("--parts: %q names an empty part: %s", list, want)
		default:
			return parts{}, command.Wrong("--parts: there is no part %q: %s", name, want)
		}
	}
	return p, nil
}

// who returns what the journal and NATS know the process by.
func (p parts) who() string {
	switch {
	case p.worker:
		return "worker"
	case p.exporter:
		return "exporter"
	}
	return "notifier"
}

// check returns what the parts lack, or nil. A NATS of its own holds what its exporter
// stored for its worker; no one part is of use with it.
func (p parts) check(nats, policy string, every time.Duration) error {
	switch {
	case nats == "" && !(p.exporter && p.worker):
		return command.Wrong("--parts: exporter and worker don't both run here: name the NATS that they share with --nats or LBREMEDY_NATS")
	case policy != "" && !p.worker && !p.notifier:
		return command.Wrong("--policy: an exporter alone does not apply a policy: leave it out, or add worker or notifier to --parts")
	case every != 0 && !p.worker:
		return command.Wrong("--doctor: only the worker runs the doctor: leave it out, or add worker to --parts")
	}
	return nil
}
