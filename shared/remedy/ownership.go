package remedy

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// allowDrift is the label of a namespace that allows writes to fields that a GitOps manager owns. On a Service it has no effect: its
// editor could grant more than the namespace allows.
const allowDrift = "lbremedy.io/allow-drift"

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

var gitops = []string{
	"argocd-controller", "argocd-application-controller", "kustomize-controller", "helm-controller", "helm", "flux", "flux-client-side-apply",
}

var marks = []string{
	"argocd.argoproj.io/instance", "argocd.argoproj.io/tracking-id",
	"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name",
	"meta.helm.sh/release-name",
}

// An Ownership says which other writer has the keys that a plan would write.
type Ownership struct {
	Manager string   // the GitOps manager that owns a key and would revert the write, or ""
	Note    say.Text // a person's next kubectl apply reverts the write
}

// Owner returns the owner of the annotations with these keys, and of the ports. A new key is free. around are the namespace's labels; nil if unknown.
func Owner(svc *corev1.Service, around map[string]string, keys []string) Ownership {
	if around[allowDrift] == "true" {
		return Ownership{}
	}
	mark := gitopsMark(svc)
	var o Ownership
	for _, key := range keys {
		_, exists := svc.Annotations[key]
		exists = exists || key == PortsKey
		other := false
		for _, f := range svc.ManagedFields {
			if !holdsKey(f, key) {
				continue
			}
			if slices.Contains(gitops, f.Manager) {
				return Ownership{Manager: f.Manager}
			}
			other = true
		}
		applied := appliedKey(svc, key)
		switch {
		case mark != "" && (applied || exists && !other):
			return Ownership{Manager: mark}
		case applied:
			o.Note = say.F("The key %s is in kubectl's last applied configuration. The next kubectl apply reverts the write.", key)
		}
	}
	return o
}

// An Edit is a person's change of a key that a plan would write.
type Edit struct {
	By, Key string // the field manager, and the annotation or the ports
	At      time.Time
}

// recently is how long a plan that changes a person's edit needs an approval.
const recently = time.Hour

var editors = []string{"kubectl", "k9s", "lens", "OpenLens", "rancher", "dashboard", "Mozilla"}

// Edited returns the newest edit of these keys of a Service by a person, within an hour and after its creation.
func Edited(svc *corev1.Service, keys []string, now time.Time) (newest Edit, found bool) {
	for _, f := range svc.ManagedFields {
		byHand := slices.ContainsFunc(editors, func(name string) bool { return strings.HasPrefix(f.Manager, name) })
		if !byHand || f.Time == nil || now.Sub(f.Time.Time) > recently || !f.Time.After(svc.CreationTimestamp.Time) || found && !f.Time.After(newest.At) {
			continue
		}
		if i := slices.IndexFunc(keys, func(key string) bool { return holdsKey(f, key) }); i >= 0 {
			newest, found = Edit{f.Manager, keys[i], f.Time.Time}, true
		}
	}
	return newest, found
}

// Keys returns the keys of a Service that the plan writes.
func (p Plan) Keys() []string {
	var keys []string
	for _, s := range p.Steps {
		if k, ok := s.(Keyed); ok {
			keys = append(keys, k.Keys()...)
		}
	}
	return keys
}

func gitopsMark(svc *corev1.Service) string {
	for _, m := range marks {
		if svc.Labels[m] != "" || svc.Annotations[m] != "" {
			return m
		}
	}
	if svc.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		return "app.kubernetes.io/managed-by=Helm"
	}
	return ""
}

func holdsKey(f metav1.ManagedFieldsEntry, key string) bool {
	if f.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
		Spec struct {
			Ports json.RawMessage `json:"f:ports"`
		} `json:"f:spec"`
	}
	if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
		return false
	}
	if key == PortsKey {
		return fields.Spec.Ports != nil
	}
	_, ok := fields.Metadata.Annotations["f:"+key]
	return ok
}

func appliedKey(svc *corev1.Service, key string) bool {
	var obj struct {
		Metadata struct {
			Annotations map[string]json.RawMessage
		}
		Spec struct{ Ports []json.RawMessage }
	}
	raw := svc.Annotations[lastApplied]
	if raw == "" || json.NewDecoder(strings.NewReader(raw)).Decode(&obj) != nil {
		return false
	}
	if key == PortsKey {
		return len(obj.Spec.Ports) > 0
	}
	_, ok := obj.Metadata.Annotations[key]
	return ok
}
