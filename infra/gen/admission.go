package main

import (
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// admission returns the ValidatingAdmissionPolicy that narrows what RBAC can't, with
// its binding, as YAML: of a Service, the ServiceAccount of a class changes what the
// class declares and nothing else, and it neither makes nor deletes one. The one of
// "lbremedy up" changes what any class declares.
//
// It looks at requests of ServiceAccounts whose names begin with lbremedy-, in any
// namespace; nobody else's are judged. One of them that is no class's, such as the
// exporter's, changes nothing of a Service.
//
// Fields are compared by exclusion: what a later version of Kubernetes adds to a
// Service is refused to the classes without this policy knowing it. What it can't
// evaluate it refuses (failurePolicy Fail), to those ServiceAccounts alone: the match
// conditions need nothing but the user's name. It asks for Kubernetes 1.30, the first
// version with admissionregistration.k8s.io/v1; on an older one it can't be installed.
//
// The names are in the policy and not in RBAC, to be asked for with the authorizer that
// CEL has: one such question costs 350,000 of the 1,000,000 that an expression may.
func admission(all []*remedy.Remedy) ([]byte, error) {
	policy := judging("lbremedy", admissionv1.Fail, resources([]string{""}, "services", "services/status"),
		admissionv1.Create, admissionv1.Update, admissionv1.Delete)
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{
		{Name: "lbremedy", Expression: `request.userInfo.username.matches('^system:serviceaccount:[^:]+:lbremedy-')`},
	}
	policy.Spec.Variables = []admissionv1.Variable{
		{Name: "class", Expression: `request.userInfo.username.split(':')[3].substring(9)`},
		{Name: "fields", Expression: choose(all, func(r *remedy.Remedy) []string {
			var out []string
			for _, f := range r.Fields() {
				out = append(out, string(f))
			}
			return out
		})},
		{Name: "keys", Expression: choose(all, (*remedy.Remedy).Keys)},
		{Name: "sets", Expression: fmt.Sprintf(`(%s in variables.fields ? variables.keys : []) + (%s in variables.fields ? [%s] : [])`,
			quote(string(remedy.SetField)), quote(string(remedy.MarkField)), quote(ccm.Resync))},
		{Name: "removes", Expression: fmt.Sprintf(`%s in variables.fields ? variables.keys : []`, quote(string(remedy.RemoveField)))},
		{Name: "update", Expression: `request.operation == 'UPDATE'`},
		{Name: "was", Expression: `variables.update && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}`},
		{Name: "now", Expression: `variables.update && has(object.metadata.annotations) ? object.metadata.annotations : {}`},
		{Name: "annotations", Expression: `variables.now.filter(k, !(k in variables.was && variables.was[k] == variables.now[k]) && !(k in variables.sets))` +
			` + variables.was.filter(k, !(k in variables.now) && !(k in variables.removes))`},
		{Name: "metadata", Expression: others("object.metadata", "oldObject.metadata", "annotations", "generation", "managedFields", "resourceVersion")},
		{Name: "spec", Expression: others("object.spec", "oldObject.spec", "ports")},
		{Name: "status", Expression: others("object.status", "oldObject.status", "loadBalancer")},
	}
	policy.Spec.Validations = []admissionv1.Validation{
		refuse(`variables.update`, `' may not ' + (request.operation == 'CREATE' ? 'make' : 'delete') + ' a Service'`),
		refuse(`variables.annotations.size() == 0`, `' may not change the annotation ' + variables.annotations.join(', ')`),
		refuse(`variables.metadata.size() == 0`, `' may not change metadata.' + variables.metadata[0]`),
		refuse(`variables.spec.size() == 0`, `' may not change spec.' + variables.spec[0]`),
		// Another target port is all that may be new of a port.
		refuse(fmt.Sprintf(`!variables.update || object.spec.ports == oldObject.spec.ports || %s in variables.fields`+
			` && object.spec.ports.size() == oldObject.spec.ports.size()`+
			` && object.spec.ports.all(p, oldObject.spec.ports.exists(o, p.port == o.port && p.protocol == o.protocol`+
			` && p.all(k, k == 'targetPort' || k in o && p[k] == o[k]) && o.all(k, k in p)))`, quote(string(remedy.PortsField))),
			`' may not change spec.ports so'`),
		refuse(`variables.status.size() == 0`, `' may not change status.' + variables.status[0]`),
		refuse(fmt.Sprintf(`!variables.update || object.status.loadBalancer == oldObject.status.loadBalancer || %s in variables.fields`+
			` && object.status.loadBalancer.size() == 0`, quote(string(remedy.StatusField))),
			`' may not change status.loadBalancer so'`),
	}
	return manifests(policy, denying(policy))
}

// choose returns the expression for what belongs to the class of the request: a list
// of words, empty for a class that writes nothing of a Service.
func choose(all []*remedy.Remedy, words func(*remedy.Remedy) []string) string {
	var rows []string
	for _, r := range all {
		if len(r.Fields()) == 0 {
			continue
		}
		var list []string
		for _, w := range words(r) {
			list = append(list, quote(w))
		}
		rows = append(rows, quote(r.Class)+": ["+strings.Join(list, ", ")+"]")
	}
	table := "{" + strings.Join(rows, ",\n") + "}"
	if len(rows) == 0 {
		return "['']"
	}
	return table + "[?variables.class].orValue([''])"
}

// others returns the expression for the names of the fields that differ between two
// objects, but for those that others may differ.
func others(now, was string, except ...string) string {
	var names []string
	for _, e := range except {
		names = append(names, quote(e))
	}
	list := "[" + strings.Join(names, ", ") + "]"
	return fmt.Sprintf(`!variables.update ? [] : %[1]s.filter(k, !(k in %[3]s) && !(k in %[2]s && %[1]s[k] == %[2]s[k]))`+
		` + %[2]s.filter(k, !(k in %[3]s) && !(k in %[1]s))`, now, was, list)
}

// refuse returns a validation whose message begins with the class.
func refuse(unless, message string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: unless, Reason: new(metav1.StatusReasonForbidden),
		Message:           "lbremedy may not do this to a Service",
		MessageExpression: `'the class ' + variables.class + ` + message,
	}
}

// quote returns a text of ours as a CEL string. Ours have nothing to escape but what Go has.
func quote(s string) string { return strconv.Quote(s) }
