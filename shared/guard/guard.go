// Package guard defines which edits of a Service the guard stops. infra/gen makes a ValidatingAdmissionPolicy of these rules. Begin
// with Rules and Conditions.
//
// A rule sees the Service before and after the edit, and neither the load balancer nor the version of the controller. It recognizes
// the controller's Services by the finalizer, the load balancer's label and the address.
//
// The guard must never block the controller. No rule asks for its user, which is kube-system/cloud-controller-manager in the cluster
// and another where ACK runs it. The controller writes labels and address through services/status, which the policy does not check,
// and removes them before the finalizer (pkg/controller/service/clbv1/service_controller.go, nlbv2/nlb_controller.go and
// pkg/controller/helper/finalizer.go, v2.1.0 to v2.14.0).
//
// A rule cannot see ACK's own deletion protection of Services: the constraint ACKServicesDeleteProtection of the component for
// security policies lists names in a separate object, and the component refuses the deletion itself
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-updateresourcesdeleteprotection,
// https://www.alibabacloud.com/help/doc-detail/359819.html). ACKResourceDeletionProtection uses a label, which a rule can see.
package guard

import (
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	// Policy is the name of the ValidatingAdmissionPolicy and of its binding.
	Policy = "lbremedy-guard"
	// Allow is the annotation of a Service that lifts the guard from it and says why.
	Allow = "lbremedy.io/allow-edit"
	// Protect is the label for protection from deletion in the example of ACK's policy library.
	Protect = "policy.alibabacloud.com/delete-protection"
	// Patterns is where the chart inserts the namespaces of doctor.protect, as regular expressions, into the generated policy.
	Patterns = "lbremedy_protect"
	longest  = 256 // characters of the reason
)

// Reason reports whether the value of the annotation Allow lifts the guard.
func Reason(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && len([]rune(value)) <= longest
}

// A Rule is one kind of edit that the guard stops.
type Rule struct {
	Edit    say.Text
	Stops   string   // CEL expression, true for such an edit
	Effect  say.Text // what the edit would cause
	Instead say.Text // what to do instead
}

var allowed = say.F("To do this all the same, say why in the annotation %s.", Allow)

// Message returns the text that is shown to whoever makes the edit.
func (r Rule) Message() say.Text { return r.Effect.Then(r.Instead).Then(allowed) }

// A Variable is a named part of the rules.
type Variable struct{ Name, Expression string }

// Conditions returns what must hold for the guard to check an edit: the controller manages the Service, no annotation lifts the guard,
// and the edit is not lbremedy's own, which its own admission policy limits to what its classes declare.
func Conditions() []Variable {
	return []Variable{
		{"served", `oldObject.metadata.?finalizers.orValue([]).exists(f, f.startsWith('service.k8s.alibaba/'))`},
		{"others", `!request.userInfo.username.matches('^system:serviceaccount:[^:]+:lbremedy-')`},
		{"unexplained", fmt.Sprintf(`!(request.operation == 'DELETE' ? oldObject : object).metadata.?annotations[?'%s'].orValue('')`+
			`.trim().matches('^(?s:.{1,%d})$')`, Allow, longest)},
	}
}

// Variables returns the common parts of the rules.
func Variables() []Variable {
	return []Variable{
		{"update", `request.operation == 'UPDATE'`},
		{"was", `oldObject.metadata.?annotations.orValue({})`},
		{"now", `variables.update ? object.metadata.?annotations.orValue({}) : {}`},
		{"finalizers", `oldObject.metadata.?finalizers.orValue([]).filter(f, f.startsWith('service.k8s.alibaba/'))`},
		{"kept", `variables.update ? object.metadata.?finalizers.orValue([]) : []`},
		{"balancer", fmt.Sprintf(`oldObject.metadata.?labels[?'%s'].orValue('')`, ccm.BalancerLabel)},
		// A label or an address shows that the controller has a load balancer.
		{"balanced", `variables.balancer != '' || oldObject.?status.?loadBalancer.?ingress.orValue([]).size() > 0`},
		{"deleting", `has(oldObject.metadata.deletionTimestamp)`},
		{"live", `variables.update && variables.balanced && !variables.deleting && oldObject.spec.type == 'LoadBalancer'`},
		{"network", fmt.Sprintf(`oldObject.spec.?loadBalancerClass.orValue('') == '%s'`, ccm.NLBClass)},
		{"id", value("was", ccm.BalancerID, "")},
		{"next", value("now", ccm.BalancerID, "")},
		{"patterns", Patterns},
		// Deletions by the namespace or the garbage collector must not be blocked halfway.
		{"swept", `has(namespaceObject.metadata.deletionTimestamp) || request.userInfo.username in ['system:kube-controller-manager',` +
			` 'system:serviceaccount:kube-system:generic-garbage-collector', 'system:serviceaccount:kube-system:namespace-controller']`},
	}
}

func value(in, short, missing string) string {
	return fmt.Sprintf(`variables.%s[?'%s'].or(variables.%s[?'%s']).orValue('%s')`, in, ccm.Prefix+short, in, ccm.LegacyPrefix+short, missing)
}

// TypeChange and Move are rules that the doctor also applies to manifests.
var (
	TypeChange = Rule{
		Edit:   say.F("The type changes from LoadBalancer, and the controller created the load balancer."),
		Stops:  `variables.live && variables.id == '' && object.spec.type != 'LoadBalancer' && ` + value("now", ccm.Preserve, "") + ` == ''`,
		Effect: say.F("The controller deletes the load balancer of the Service, and its address is lost."),
		Instead: say.F("To keep both, set the annotation %s to true before you change the type, with CCM %s or newer.",
			ccm.Prefix+ccm.Preserve, ccm.FirstPreserve()),
	}
	Move = Rule{
		Edit: say.F("The annotation %s changes to another load balancer than the one in the label %s.", ccm.BalancerID, ccm.BalancerLabel),
		// An annotation that had no effect may be removed.
		Stops: `variables.live && variables.next != variables.id && variables.next != variables.balancer` +
			` && !(variables.next == '' && variables.id != variables.balancer)`,
		Effect: say.F("The controller lets go of the load balancer that the Service has, and neither updates nor deletes it any more.").
			And("As long as the Service has its address, every full sync fails."),
		Instead: say.F("To move to another load balancer, create a second Service with its ID, move the traffic, and delete this one."),
	}
)

// Rules returns the rules.
func Rules() []Rule {
	rules := []Rule{TypeChange, Move, {
		Edit:   say.F("A finalizer of the controller is removed before the controller has let go of the load balancer."),
		Stops:  `variables.update && variables.balanced && !variables.finalizers.all(f, f in variables.kept)`,
		Effect: say.F("Nothing deletes the load balancer when the Service goes: it stays, and is paid for."),
		Instead: say.F("The controller removes its finalizer itself when the load balancer is gone. If a deletion does not end, the Events of the Service say why.").
			And("If you replace the Service, keep its finalizers, or use kubectl apply."),
	}, {
		Edit: say.F("The label %s changes by hand.", ccm.BalancerLabel),
		Stops: fmt.Sprintf(`variables.live && variables.balancer != '' && object.metadata.?labels[?'%s'].orValue('') != variables.balancer`,
			ccm.BalancerLabel),
		Effect:  say.F("Until the next full sync nothing on the Service says which load balancer it has."),
		Instead: say.F("Leave the label to the controller. If you replace the Service, keep its labels, or use kubectl apply."),
	}}
	for _, network := range []bool{false, true} {
		for _, f := range ccm.FixedAnnotations(network) {
			rules = append(rules, fixed(f, network))
		}
	}
	return append(rules, Rule{
		Edit: say.F("A protected Service is deleted: it has the label %s=true, or is in a namespace of doctor.protect.", Protect),
		Stops: fmt.Sprintf(`request.operation == 'DELETE' && variables.balanced && !variables.deleting && !variables.swept`+
			` && (oldObject.metadata.?labels[?'%s'].orValue('') == 'true' || variables.patterns.exists(p, request.namespace.matches(p)))`, Protect),
		Effect:  say.F("The Service is protected. With it goes the load balancer that the controller created for it, and the address is lost."),
		Instead: say.F("To keep both, set the annotation %s to true first, with CCM %s or newer.", ccm.Prefix+ccm.Preserve, ccm.FirstPreserve()),
	})
}

// fixed returns the rule of an annotation whose value is fixed at creation. The controller ignores case for NLBs.
func fixed(f ccm.Fixed, network bool) Rule {
	was, now, kind, which := value("was", f.Name, f.Made), value("now", f.Name, f.Unset), "CLB", "!variables.network"
	if network {
		was, now, kind, which = was+".lowerAscii()", now+".lowerAscii()", "NLB", "variables.network"
	}
	stops := fmt.Sprintf(`!(%s in ['', %s])`, now, was)
	edit := say.F("%s: the annotation %s changes (%s).", kind, f.Name, f.What)
	if f.List {
		// The first part of an element is its zone.
		zones := `.split(',').map(z, z.split(':')[0].trim())`
		stops = fmt.Sprintf(`%s != '' && !%s.all(z, z in %s)`, was, was+zones, now+zones)
		edit = say.F("%s: the annotation %s loses a part (%s).", kind, f.Name, f.What)
	}
	return Rule{
		Edit: edit, Instead: f.Instead,
		Effect: say.F("The annotation %s sets the %s of a new %s.", f.Name, f.What, kind).Then(f.Effect),
		Stops:  `variables.live && object.spec.type == 'LoadBalancer' && ` + which + ` && ` + stops,
	}
}
