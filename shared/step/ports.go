package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// TargetPorts changes the target ports of some ports of the Service in one patch.
type TargetPorts struct {
	Ports []TargetPort `json:"ports"`
}

// A TargetPort is the change of one port, identified by number and protocol.
type TargetPort struct {
	Port     int32              `json:"port"`
	Protocol corev1.Protocol    `json:"protocol"`
	To       intstr.IntOrString `json:"to"`
	Was      intstr.IntOrString `json:"was"`
}

// Says describes the step.
func (t TargetPorts) Says() say.Text {
	var parts []say.Text
	for _, p := range t.Ports {
		parts = append(parts, say.F("set the targetPort of port %d to %s in place of %s", p.Port, p.To.String(), p.Was.String()))
	}
	return say.Items(parts, len(parts))
}

// Kind is "target-ports".
func (TargetPorts) Kind() string { return "target-ports" }

// Target is the Service.
func (TargetPorts) Target() string { return "" }

// Risk is medium: it changes where traffic goes, which later Pods may not expect.
func (TargetPorts) Risk() remedy.Risk { return remedy.Medium }

// Grants are reading and patching Services.
func (TargetPorts) Grants() []grant.Grant { return serviceWrite }

// Fields are the target ports and our mark.
func (TargetPorts) Fields() []remedy.Field {
	return []remedy.Field{remedy.MarkField, remedy.PortsField}
}

// Keys returns remedy.PortsKey.
func (TargetPorts) Keys() []string { return []string{remedy.PortsKey} }

// Patch returns the merge patch for a person to commit.
func (t TargetPorts) Patch(c *remedy.Case) []byte {
	return encoded(map[string]any{"spec": t.spec(c.Service.Spec.Ports)})
}

// Check compares the Service's ports with both sides of the step.
func (t TargetPorts) Check(_ context.Context, c *remedy.Case) (remedy.State, error) {
	done, todo := true, true
	for _, p := range t.Ports {
		i := slices.IndexFunc(c.Service.Spec.Ports, p.is)
		if i < 0 {
			return remedy.Conflict, nil
		}
		now := c.Service.Spec.Ports[i].TargetPort
		done, todo = done && now == p.To, todo && now == p.Was
	}
	switch {
	case done:
		return remedy.Done, nil
	case todo:
		return remedy.Todo, nil
	}
	return remedy.Conflict, nil
}

// Apply patches the version of the Service in the case, and triggers a resync with the same patch.
func (t TargetPorts) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return annotate(ctx, c, w, nil, t.spec(c.Service.Spec.Ports))
}

// Undo restores the old target ports.
func (t TargetPorts) Undo() (remedy.Step, bool) {
	back := TargetPorts{Ports: slices.Clone(t.Ports)}
	for i, p := range back.Ports {
		back.Ports[i].To, back.Ports[i].Was = p.Was, p.To
	}
	return back, true
}

func (t TargetPort) is(p corev1.ServicePort) bool {
	return p.Port == t.Port && p.Protocol == t.Protocol
}

// spec returns the merge patch of the spec, in which a list is replaced as a whole.
func (t TargetPorts) spec(ports []corev1.ServicePort) json.RawMessage {
	ports = slices.Clone(ports)
	for _, p := range t.Ports {
		if i := slices.IndexFunc(ports, p.is); i >= 0 {
			ports[i].TargetPort = p.To
		}
	}
	return encoded(map[string]any{"ports": ports})
}

func encoded(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("step: a patch does not encode: %v", err)) // plain values
	}
	return data
}
