package remedy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
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
	"argocd.argoproj.io/instance", tracking, byKustom + "name", byRelease + "name", byHelm + "name",
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

const (
	tracking  = "argocd.argoproj.io/tracking-id"
	byKustom  = "kustomize.toolkit.fluxcd.io/"
	byRelease = "helm.toolkit.fluxcd.io/"
	byHelm    = "meta.helm.sh/release-"
)

// SourceOf returns what labels and annotations of a Service say about the source from which its manager applies it; all of it may be
// wrong. Argo CD tracks an object by the annotation APPLICATION:GROUP/KIND:NAMESPACE/NAME, and ignores one that names another object
// (util/argo/resource_tracking.go of Argo CD v3.1.0), or by a label. Flux labels an object with name and namespace of its own object.
func SourceOf(svc *corev1.Service, manager string) *event.Source {
	s := &event.Source{Manager: manager}
	switch l, a := svc.Labels, svc.Annotations; {
	case strings.HasPrefix(manager, "argocd"):
		app, object, _ := strings.Cut(a[tracking], ":")
		if object == "/Service:"+svc.Namespace+"/"+svc.Name {
			s.Object = object
		} else {
			app = cmp.Or(l["argocd.argoproj.io/instance"], l["app.kubernetes.io/instance"])
		}
		s.Kind, s.Name = "Application", app
	case strings.HasPrefix(manager, "helm.") || manager == "helm-controller":
		s.Kind, s.Name = "HelmRelease", l[byRelease+"namespace"]+"/"+l[byRelease+"name"]
	case strings.HasPrefix(manager, "kustomize") || strings.HasPrefix(manager, "flux"):
		s.Kind, s.Name = "Kustomization", l[byKustom+"namespace"]+"/"+l[byKustom+"name"]
	default:
		s.Kind, s.Name = "Release", a[byHelm+"namespace"]+"/"+a[byHelm+"name"]
	}
	if !sourceName().MatchString(s.Name) {
		s.Kind, s.Name = "", ""
	}
	return s
}

// sourceName is the form of a Source's name. An Application outside Argo CD's namespace is NAMESPACE_NAME.
var sourceName = regex.New(`^([a-z0-9][a-z0-9.-]{0,62}/)?[a-z0-9][a-z0-9._-]{0,251}$`)

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
