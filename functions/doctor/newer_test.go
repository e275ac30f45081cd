package doctor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

var harmful = []string{"no effect", "Remove", "remove"}

// A newer controller than every known release may read unknown annotations: no finding calls these useless. That it is newer is reported once.
func TestNewerController(t *testing.T) {
	t.Parallel()
	strange := []string{"graceful-shutdown", "health-check-http-version", "adress-type", "id2", "zone-map"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		name := make([]byte, 1+random.IntN(24))
		for i := range name {
			name[i] = "abcdefghijklmnopqrstuvwxyz-"[random.IntN(27)]
		}
		strange = append(strange, string(name))
	}
	known := ccm.Known()
	for _, of := range []string{"v2.14.1", "v2.15.0", "v9.0.0"} {
		version, _ := ccm.ParseVersion(of)
		for _, network := range []bool{false, true} {
			svc := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
			svc.Namespace, svc.Name, svc.UID, svc.Annotations = "shop", "web", uid("shop/web"), map[string]string{}
			if network {
				class := ccm.NLBClass
				svc.Spec.LoadBalancerClass = &class
				svc.Annotations[ccm.Prefix+"zone-maps"] = "cn-hangzhou-h:vsw-a,cn-hangzhou-i:vsw-b"
			}
			for _, name := range strange {
				if _, ok := known[name]; ok {
					continue
				}
				for _, prefix := range []string{ccm.Prefix, ccm.LegacyPrefix} {
					svc.Annotations[prefix+name] = "on"
				}
			}
			for name, key := range known {
				if key.Read(network) == nil && !strings.Contains(name, "/") {
					svc.Annotations[ccm.Prefix+name] = "on"
				}
			}
			svc.Annotations["service.beta.kubernetes.io/alibaba-cloud-load-balancer-bandwidth"] = "5"
			s := &doctor.Snapshot{Time: now, Cluster: "c1", Given: doctor.PartsOf(Checks()), Services: []corev1.Service{svc}}
			s.Controller.Version = version
			said := 0
			r := doctor.Examine(t.Context(), s, []*doctor.Check{annotations})
			for _, f := range r.Findings {
				text := fmt.Sprintf("%s %s", f.Text, f.Do)
				for _, word := range harmful {
					if !strings.HasPrefix(f.Key, "both/") && strings.Contains(text, word) {
						t.Errorf("CCM %s: %s", of, text)
						break
					}
				}
				if f.About == s.OfCluster() && strings.Contains(text, of) {
					said++
				}
			}
			if len(r.Findings) < len(strange) || said != 1 {
				t.Errorf("CCM %s: %d findings, and that it is newer is said %d times", of, len(r.Findings), said)
			}
		}
	}
}
