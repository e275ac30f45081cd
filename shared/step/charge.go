package step

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ByLCU returns the plan after which a Service without a load balancer asks for a CLB that is billed
// by LCU. Its finding is left to the caller.
func ByLCU(svc *corev1.Service) remedy.Plan {
	edits := []Edit{With(svc, ccm.ChargeType, ccm.PayByLCU)}
	if _, sized := ccm.Annotation(svc, ccm.ChargeSpec); sized {
		edits = append(edits, Without(svc, ccm.ChargeSpec))
	}
	return remedy.Plan{
		Risk: remedy.Medium, // it costs differently
		Note: say.F("A CLB that is billed by LCU costs according to its traffic, and can never be billed by specification.").
			And("CCM %s and newer ask for such a CLB without the annotation.", ccm.FirstPayByLCU()),
		Steps: []remedy.Step{Together(edits...)},
	}
}
