package main

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventWriters returns the ValidatingAdmissionPolicy that lets only named identities write Events in the controller's name: an Event
// makes lbremedy look, and anybody who may create Events may claim any component.
//
// It covers what the exporter takes for the controller's: Events of its components, in any of the four fields that can name one, and
// Events about a Service without a component. Updates count too: they can give an Event a new text.
//
// The chart replaces the two variables' values by the allowed users and groups. A parameter would be neater, but an API server that
// doesn't find it, as for a while after a policy was recreated, would refuse the controller's own Events.
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
