package up

import (
	"strings"

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
			return parts{}, command.Wrong("--parts: the part %q is unknown: choose from %s", name, allParts)
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
