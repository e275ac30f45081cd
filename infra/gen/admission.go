package main

import (
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// admission returns the ValidatingAdmissionPolicy, with its binding, for what RBAC can't express: a class's ServiceAccount may change in a
// Service only what the class declares, and may not create or delete Services. That of "lbremedy up" may change what any class declares.
//
// It applies only to ServiceAccounts whose names begin with lbremedy-, in any namespace. One that is not a class's, such as the
// exporter's, may change nothing in a Service.
//
// Fields are compared by exclusion: new fields of a later Kubernetes are refused without a change here. If the policy can't be evaluated,
// it refuses (failurePolicy Fail), but only these ServiceAccounts: the match conditions need only the user's name. It needs Kubernetes
// 1.30, the first version with admissionregistration.k8s.io/v1.
//
// The names are in the policy because querying RBAC through CEL's authorizer costs 350,000 of an expression's 1,000,000.
//
// A class that only a declaration describes has a policy of its own, for its own ServiceAccount: see inCluster.
func admission(all []*remedy.Remedy) ([]byte, error) {
	return admissionOf("lbremedy", []admissionv1.MatchCondition{
		{Name: "lbremedy", Expression: `request.userInfo.username.matches('^system:serviceaccount:[^:]+:lbremedy-')`},
		{Name: "built-in", Expression: fmt.Sprintf(`!request.userInfo.username.matches('^system:serviceaccount:[^:]+:lbremedy-%s')`, cli.DeclaredPrefix)},
	}, all)
}

// admissionOf returns the policy of this name for the users that meet the conditions.
func admissionOf(name string, of []admissionv1.MatchCondition, all []*remedy.Remedy) ([]byte, error) {
	policy := judging(name, admissionv1.Fail, resources([]string{""}, "services", "services/status"),
		admissionv1.Create, admissionv1.Update, admissionv1.Delete)
	policy.Spec.MatchConditions = of
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
		// Only the target port of a port may change.
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

func others(now, was string, except ...string) string {
	var names []string
	for _, e := range except {
		names = append(names, quote(e))
	}
	list := "[" + strings.Join(names, ", ") + "]"
	return fmt.Sprintf(`!variables.update ? [] : %[1]s.filter(k, !(k in %[3]s) && !(k in %[2]s && %[1]s[k] == %[2]s[k]))`+
		` + %[2]s.filter(k, !(k in %[3]s) && !(k in %[1]s))`, now, was, list)
}

func refuse(unless, message string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: unless, Reason: new(metav1.StatusReasonForbidden),
		Message:           "lbremedy may not do this to a Service",
		MessageExpression: `'the class ' + variables.class + ` + message,
	}
}

// quote returns a CEL string. Our texts contain only escapes that Go and CEL share.
func quote(s string) string { return strconv.Quote(s) }
