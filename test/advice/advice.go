// Package advice checks that a step or a command to paste sets only annotations on a Service that its controller reads for this
// kind of load balancer. Any other fix has no effect, and lbremedy would wait for it.
package advice

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

var (
	command = regexp.MustCompile(`kubectl -n (\S+) annotate service (\S+)((?: '?[A-Za-z0-9./-]+=\S*)+)`)
	setting = regexp.MustCompile(`([A-Za-z0-9./-]+)=`)
)

// Unread returns the annotations that the steps or the texts' commands would set on the Service, but that its controller ignores.
func Unread(svc *corev1.Service, steps []remedy.Step, texts ...string) ([]string, error) {
	keys := map[string]bool{}
	for _, s := range steps {
		keyed, ok := s.(remedy.Keyed)
		if !ok {
			continue
		}
		var patch struct {
			Metadata struct {
				Annotations map[string]*string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(keyed.Patch(&remedy.Case{View: ccm.View{Service: svc}}), &patch); err != nil {
			return nil, fmt.Errorf("read the patch of %s: %w", s.Says(), err)
		}
		for key, value := range patch.Metadata.Annotations {
			keys[key] = keys[key] || value != nil
		}
	}
	for _, text := range texts {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			for _, key := range setting.FindAllStringSubmatch(m[3], -1) {
				keys[key[1]] = keys[key[1]] || m[1] == svc.Namespace && m[2] == svc.Name
			}
		}
	}
	known := ccm.Known()
	maps.DeleteFunc(keys, func(key string, set bool) bool {
		short, _ := known.Short(key)
		name, ok := known[short]
		return !set || !ok || name.Read(ccm.NLB(svc)) != nil
	})
	return slices.Sorted(maps.Keys(keys)), nil
}
