package up

import (
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
)

type parts struct {
	exporter, worker, notifier bool
}

const allParts = "exporter,worker,notifier"

func readParts(list string) (parts, error) {
	var p parts
	for name := range strings.SplitSeq(list, ",") {
		part := map[string]*bool{"exporter": &p.exporter, "worker": &p.worker, "notifier": &p.notifier}[strings.TrimSpace(name)]
		if part == nil {
			return parts{}, command.Wrong("--parts: there is no part %q: choose from %s", name, allParts)
		}
		*part = true
	}
	return p, nil
}

func (p parts) who() string {
	switch {
	case p.worker:
		return "worker"
	case p.exporter:
		return "exporter"
	}
	return "notifier"
}

// check returns what the parts lack, or nil. An embedded NATS holds what its exporter stores for its worker, so a single part can't use it.
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
