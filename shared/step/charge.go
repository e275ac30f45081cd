package step

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// AskLCU returns the edits that ask for a CLB billed by LCU. It has no spec: older controllers fail on one.
func AskLCU(svc *corev1.Service) []Edit {
	edits := []Edit{With(svc, ccm.ChargeType, ccm.PayByLCU)}
	if _, sized := ccm.Annotation(svc, ccm.ChargeSpec); sized {
		edits = append(edits, Without(svc, ccm.ChargeSpec))
	}
	return edits
}

// AskSpec returns the edits that ask for a CLB billed by this spec.
func AskSpec(svc *corev1.Service, spec string) []Edit {
	edits := []Edit{With(svc, ccm.ChargeSpec, spec)}
	if want, asked := ccm.Annotation(svc, ccm.ChargeType); asked && want != ccm.PayBySpec {
		edits = append(edits, Without(svc, ccm.ChargeType))
	}
	return edits
}

// Conversion returns the plan to change how the CLB is billed, which the text change describes and the edits ask for.
func Conversion(lb *ccm.Instance, finding, change say.Text, edits []Edit) remedy.Plan {
	p := remedy.Plan{
		Finding: finding,
		Note:    change.And("The cost changes, and the change cannot be undone."),
		Steps:   []remedy.Step{Convert{Annotate: Together(edits...).(Annotate), LB: lb.ID}},
	}
	if n := len(lb.CLB.Ports); n > 0 {
		p.Risk = remedy.High
		p.Note = p.Note.And("The traffic of %s over its %s is interrupted for 10 to 30 seconds.", lb.ID, say.Count(n, "listener"))
	} else {
		p.Note = p.Note.And("%s has no listener, so no traffic is interrupted.", lb.ID)
	}
	return p
}

// ByLCU returns the plan that makes a Service without a load balancer ask for a CLB billed by LCU.
func ByLCU(svc *corev1.Service, finding say.Text) remedy.Plan {
	return remedy.Plan{
		Finding: finding,
		Risk:    remedy.Medium, // it costs differently
		Note: say.F("A CLB that is billed by LCU costs according to its traffic, and can never be billed by specification.").
			And("CCM %s and newer ask for such a CLB without the annotation.", ccm.FirstPayByLCU()),
		Steps: []remedy.Step{Together(AskLCU(svc)...)},
	}
}
