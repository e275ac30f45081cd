package ccm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var withRanges = Version{Major: 2, Minor: 14}

// Hash returns the digest that a release leaves on a Service after a full sync: the SHA-224 of a YAML list of the fields that it watches,
// without empty values (helper/service_utils.go). ok is false for releases before v2.
func Hash(svc *corev1.Service, v Version) (digest string, ok bool) {
	if v.Before(Version{Major: 2}) {
		return "", false
	}
	spec := svc.Spec
	fields := []any{spec.Ports, spec.Type, spec.ExternalTrafficPolicy, spec.LoadBalancerClass, svc.Annotations, svc.DeletionTimestamp}
	if v.Before(Rehashed()) {
		fields = []any{spec, svc.Annotations, svc.DeletionTimestamp}
	}
	if !v.Before(withRanges) {
		fields = append(fields, spec.LoadBalancerSourceRanges)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("remedy: a Service does not encode: %v", err)) // it was decoded from JSON
	}
	var list any
	if err := json.Unmarshal(data, &list); err != nil {
		panic(fmt.Sprintf("remedy: a Service does not decode: %v", err))
	}
	list, _ = nonempty(list)
	text, err := yaml.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("remedy: a Service does not encode: %v", err))
	}
	sum := sha256.Sum224(text)
	return hex.EncodeToString(sum[:]), true
}

// InForce reports whether the hash label fits the Service by the rules of a release since v2: it was synced in full and not changed since.
func InForce(svc *corev1.Service) bool {
	for _, v := range []Version{withRanges, Rehashed(), {Major: 2}} {
		if digest, ok := Hash(svc, v); ok && digest == svc.Labels[HashLabel] {
			return true
		}
	}
	return false
}

func nonempty(value any) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, e := range v {
			kept, ok := nonempty(e)
			if v[key] = kept; !ok {
				delete(v, key)
			}
		}
		return v, len(v) > 0
	case []any:
		var kept []any
		for _, e := range v {
			if e, ok := nonempty(e); ok {
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
