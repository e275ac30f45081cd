package doctor

import (
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// serviceProtection looks for Services and namespaces that the policy wants protected and that ACK lets people delete.
var serviceProtection = &doctor.Check{
	ID:    "service-deletion-protection",
	Doc:   page("service-deletion-protection"),
	Needs: []doctor.Part{doctor.Services, doctor.Policy, doctor.Protection},
	Find:  findServiceProtection,
}

var errUnsaid = say.Errorf("whether ACK protects it from deletion: the answer of the API lacks it")

func findServiceProtection(s *doctor.Snapshot, r *doctor.Report) {
	open := map[string][]string{} // unprotected namespaces, with the Services of each
	for _, svc := range s.OfType() {
		if !s.Policy.Doctor.Protects(svc.Namespace) {
			continue
		}
		around, known := s.Protected[svc.Namespace]
		on, said := s.Protected[name(svc)]
		if !known || !said {
			r.Unknown(about(svc), errUnsaid)
			continue
		}
		if !around {
			open[svc.Namespace] = append(open[svc.Namespace], name(svc))
		}
		if !on {
			r.Add(doctor.Finding{
				Severity: doctor.Warning, About: about(svc), Key: "service",
				Text: say.F("The policy wants the Services of the namespace %s protected, but ACK's deletion protection of this Service is off.", svc.Namespace).
					And("It is another one than that of the load balancer, which the controller turns off when the Service is deleted."),
				Do: say.F("Turn it on: %s.", protectInACK(s.Cluster, "services", svc.Namespace, svc.Name)).Then(needsPolicies),
			})
		}
	}
	for _, namespace := range sorted(open) {
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: "namespace " + namespace, Services: open[namespace][:min(len(open[namespace]), mostList)],
			Text: say.F("The policy wants the Services of the namespace %s protected, but ACK's deletion protection of the namespace is off.", namespace).
				And("The Services go with the namespace."),
			Do: say.F("Turn it on: %s.", protectInACK(s.Cluster, "namespaces", "", namespace)).Then(needsPolicies),
		})
	}
}

var needsPolicies = say.F("This needs the component for security policies in the cluster.")

// protectInACK returns the command that turns ACK's deletion protection of an object on
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-updateresourcesdeleteprotection).
func protectInACK(cluster, kind, namespace, name string) string {
	var in strings.Builder
	if namespace != "" {
		fmt.Fprintf(&in, `"namespace":"%s",`, namespace)
	}
	return fmt.Sprintf(`aliyun cs UpdateResourcesDeleteProtection --ClusterId %s --header Content-Type=application/json `+
		`--body '{%s"resource_type":"%s","resources":["%s"],"enable":true}'`, cluster, in.String(), kind, name)
}
