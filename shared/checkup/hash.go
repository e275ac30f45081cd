package checkup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// withRanges is the first release in whose hash the source ranges are.
var withRanges = remedy.Version{Major: 2, Minor: 14}

// Hash returns the digest that this release of the controller leaves on a Service when
// it has synced it in full: the SHA-224 of a YAML list of the fields that it watches,
// without what is empty (pkg/controller/helper/service_utils.go). Releases before v2
// wrote another one, which is not known here: ok is false.
func Hash(svc *corev1.Service, v remedy.Version) (digest string, ok bool) {
	if v.Before(remedy.Version{Major: 2}) {
		return "", false
	}
	spec := svc.Spec
	fields := []any{spec.Ports, spec.Type, spec.ExternalTrafficPolicy, spec.LoadBalancerClass, svc.Annotations, svc.DeletionTimestamp}
	if v.Before(remedy.Rehashed()) {
		fields = []any{spec, svc.Annotations, svc.DeletionTimestamp}
	}
	if !v.Before(withRanges) {
		fields = append(fields, spec.LoadBalancerSourceRanges)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("checkup: a Service does not encode: %v", err)) // it was decoded from JSON
	}
	var list any
	if err := json.Unmarshal(data, &list); err != nil {
		panic(fmt.Sprintf("checkup: a Service does not decode: %v", err))
	}
	list, _ = full(list)
	text, err := yaml.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("checkup: a Service does not encode: %v", err))
	}
	sum := sha256.Sum224(text)
	return hex.EncodeToString(sum[:]), true
}

// Fits reports whether the hash label of the Service is what some release since v2 leaves
// on it as it is now: nobody has changed it since its last sync in full.
func Fits(svc *corev1.Service) bool {
	for _, v := range []remedy.Version{withRanges, remedy.Rehashed(), {Major: 2}} {
		if digest, ok := Hash(svc, v); ok && digest == svc.Labels[remedy.HashLabel] {
			return true
		}
	}
	return false
}

// full returns a JSON value without the empty ones in it, and whether it is not empty
// itself.
func full(value any) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, e := range v {
			kept, ok := full(e)
			if v[key] = kept; !ok {
				delete(v, key)
			}
		}
		return v, len(v) > 0
	case []any:
		var kept []any
		for _, e := range v {
			if e, ok := full(e); ok {
				kept = append(kept, e)
			}
		}
		return kept, len(kept) > 0
	case string:
		return v, v != ""
	case float64:
		return v, v != 0
	case bool:
		return v, v
	}
	return value, value != nil
}
