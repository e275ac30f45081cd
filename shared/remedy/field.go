package remedy

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// A Field is a part of a Service that a step may change. Kubernetes can only grant writes to a whole Service; the admission policy of
// infra/cluster, generated from the declarations, limits a class to these fields.
type Field string

const (
	MarkField   Field = "mark"        // our resync annotation
	SetField    Field = "set"         // the annotations that the class declares, set to any value
	RemoveField Field = "remove"      // the same annotations, removed
	PortsField  Field = "targetPorts" // the target ports of existing ports
	StatusField Field = "status"      // the load-balancer status, cleared
)

// A Changer is a step that writes to a Service.
type Changer interface {
	Fields() []Field // the same for all values of a kind
}

// Fields returns what plans of the class may change of a Service, sorted.
func (r *Remedy) Fields() []Field {
	var out []Field
	for _, s := range r.Steps {
		if c, ok := s.(Changer); ok {
			out = append(out, c.Fields()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Keys returns the annotations that the class's plans may change besides our own, sorted: the declared ones, under each of the controller's prefixes.
func (r *Remedy) Keys() []string {
	var out []string
	for _, name := range r.Annotations {
		if strings.Contains(name, "/") {
			out = append(out, name)
			continue
		}
		out = append(out, ccm.Prefix+name, ccm.LegacyPrefix+name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *Remedy) mayWrite(key string) bool {
	if key == PortsKey {
		return slices.Contains(r.Fields(), PortsField)
	}
	return slices.Contains(r.Keys(), key)
}

// PortsKey stands for the Service's ports among annotation keys.
const PortsKey = "spec.ports"
