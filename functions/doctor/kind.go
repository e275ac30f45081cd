package doctor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// kind looks for Services without a load balancer, or with one of another kind than is meant.
var kind = &doctor.Check{
	ID:       "kind",
	Doc:      page("kind"),
	Needs:    []doctor.Part{doctor.Services},
	Manifest: true,
	Find: func(s *doctor.Snapshot, r *doctor.Report) {
		for i := range s.Services {
			if svc := &s.Services[i]; svc.DeletionTimestamp == nil {
				l := kindLook{r, svc}
				l.find()
			}
		}
	},
}

// typeAnnotation works only with the feature gate LoadBalancerTypeAnnotation, off by default (pkg/controller/helper/service_utils.go, from v2.10.0).
const typeAnnotation = ccm.Prefix + "type"

// ourClass matches classes by which people mean Alibaba Cloud's controller.
var ourClass = regex.New(`(?i)^(?:nlb|clb|slb)$|alibaba|alicloud|aliyun`)

type kindLook struct {
	report *doctor.Report
	svc    *corev1.Service
}

func (l kindLook) add(severity doctor.Severity, key string, text, do say.Text) {
	l.report.Add(doctor.Finding{Severity: severity, About: about(l.svc), Key: key, Text: text, Do: do})
}

func (l kindLook) find() {
	svc := l.svc
	var ours, names []string // the annotations of the controller, and how people call them
	known := ccm.Known()
	for _, key := range sorted(svc.Annotations) {
		if short, _ := known.Short(key); short != "" {
			ours, names = append(ours, key), append(names, short)
		}
	}
	class := svc.Spec.LoadBalancerClass
	switch {
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		if len(ours) > 0 && !slices.Contains(svc.Finalizers, ccm.CLBFinalizer) && !slices.Contains(svc.Finalizers, ccm.NLBFinalizer) {
			l.unread(ours, names)
		}
		return
	case class != nil && !ccm.NLB(svc):
		if len(ours) == 0 && !ourClass().MatchString(*class) {
			return // another controller's Service
		}
		l.add(doctor.Critical, "loadBalancerClass",
			say.F("No controller of Alibaba Cloud serves the Service: the loadBalancerClass %s is not known to it.", ccm.Quote(*class)),
			say.F("For an NLB the class is %s; for a CLB the Service has none. The class of a Service cannot be changed: delete the Service and create it again.",
				ccm.NLBClass))
		return
	}
	if _, ok := svc.Annotations[typeAnnotation]; ok && class == nil {
		l.add(doctor.Warning, "type", say.F("The annotation %s is read only with the feature gate LoadBalancerTypeAnnotation, "+
			"which is off by default: the Service gets a CLB.", typeAnnotation).And("With the gate, any value but nlb leaves the Service without a load balancer."),
			say.F("For an NLB set spec.loadBalancerClass to %s when the Service is created, and remove the annotation: %s.", ccm.NLBClass, remove(svc, typeAnnotation)))
	}
	if key := ccm.LeftBy(svc); key != "" && class == nil {
		l.add(doctor.Info, "class", say.F("The annotation %s makes the controller ignore the Service.", key),
			say.F("Remove it if the Service needs a load balancer."))
		return
	}
	l.id()
}

func (l kindLook) unread(keys, names []string) {
	svc, typ := l.svc, cmp.Or(l.svc.Spec.Type, corev1.ServiceTypeClusterIP)
	typed := say.F(`If the Service should have a load balancer: kubectl -n %s patch service %s --type=merge -p '{"spec":{"type":"LoadBalancer"}}'.`,
		svc.Namespace, svc.Name)
	if svc.UID == "" {
		typed = say.F("If the Service should have a load balancer, set spec.type to LoadBalancer in the manifest.")
	}
	l.add(doctor.Warning, "type",
		say.F("The Service is of type %s, but has %s for a load balancer: %s.", typ, say.Count(len(names), "annotation"), say.List(names, shown)).
			And("They have no effect: only Services of type LoadBalancer get listeners."), typed.And("If not: %s.", remove(svc, keys...)))
}

func (l kindLook) id() {
	id := value(l.svc, ccm.BalancerID)
	network := ccm.NLB(l.svc)
	switch {
	case id == "":
	case strings.HasPrefix(id, "alb-"):
		l.add(doctor.Critical, "id", say.F("The annotation id names the ALB %s, which no Service can use: ALBs belong to Ingresses.", ccm.Quote(id)),
			say.F("Name a CLB or an NLB: %s. Or use an AlbConfig and an Ingress.", set(l.svc, ccm.BalancerID)))
	case strings.HasPrefix(id, "nlb-") && !network:
		l.add(doctor.Critical, "id", say.F("The annotation id names the NLB %s, but without the loadBalancerClass %s the controller "+
			"looks for a CLB and does not find it.",
			ccm.Quote(id), ccm.NLBClass),
			say.F("Set spec.loadBalancerClass to %s when the Service is created, or name a CLB: %s.", ccm.NLBClass, set(l.svc, ccm.BalancerID)))
	case strings.HasPrefix(id, "lb-") && network:
		l.add(doctor.Critical, "id", say.F("The annotation id names the CLB %s, but with the loadBalancerClass %s the controller "+
			"looks for an NLB and does not find it.",
			ccm.Quote(id), ccm.NLBClass),
			say.F("Leave out spec.loadBalancerClass, or name an NLB: %s.", set(l.svc, ccm.BalancerID)))
	}
}
