package main

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventWriters returns the ValidatingAdmissionPolicy that lets only named identities write
// Events in the controller's name, as YAML: an Event is what makes lbremedy look, and who
// may create Events in a namespace may claim any component.
//
// It judges what the exporter takes for the controller's: Events of one of its components
// in whichever of the four places a component can stand, and Events about a Service that
// name none. All others pass without being looked at. An update is judged too, since it
// can give another's Event a new text.
//
// Who may is for the chart to put in: users and groups take the place of what the two
// variables say here. A parameter of the policy would be neater, and an API server that
// misses one, as it does for a while after a policy was made anew, refuses the
// controller's own Events.
func eventWriters() ([]byte, error) {
	const (
		source     = `(has(object.source) && has(object.source.component) ? object.source.component : '')`
		reporting  = `(has(object.reportingComponent) ? object.reportingComponent : '')`
		deprecated = `(has(object.deprecatedSource) && has(object.deprecatedSource.component) ? object.deprecatedSource.component : '')`
		controller = `(has(object.reportingController) ? object.reportingController : '')`
		about      = `(has(object.involvedObject) ? object.involvedObject : has(object.regarding) ? object.regarding : {})`
	)
	components := fmt.Sprintf("[%s, %s, %s, %s]", source, reporting, deprecated, controller)
	policy := judging("lbremedy-event-writers", admissionv1.Fail, resources([]string{"", "events.k8s.io"}, "events"), admissionv1.Create, admissionv1.Update)
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{
		Name: "controller",
		Expression: fmt.Sprintf(`%[1]s.exists(c, c in ['service-controller', 'nlb-controller'])`+
			` || %[1]s.all(c, c == '') && has(%[2]s.kind) && %[2]s.kind == 'Service'`, components, about),
	}}
	policy.Spec.Variables = []admissionv1.Variable{
		{Name: "users", Expression: "lbremedy_users"},
		{Name: "groups", Expression: "lbremedy_groups"},
	}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: `request.userInfo.username in variables.users` +
			` || has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in variables.groups)`,
		Reason:            new(metav1.StatusReasonForbidden),
		Message:           "only the cloud controller manager may write Events in its name",
		MessageExpression: `request.userInfo.username + ' may not write Events in the name of the cloud controller manager; lbremedy-event-writers says who may'`,
	}}
	return manifests(policy)
}
