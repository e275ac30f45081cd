package ccm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// The role of the control plane nodes is the controller's only if neither ServiceAccount, Pod nor add-on names one. Another counts only if
// every source that names one names it.
func TestOneRole(t *testing.T) {
	t.Parallel()
	const own = "own" // what a source names; empty: nothing; unclear: something that cannot be determined
	const unclear = "?"
	env := func(list ...corev1.EnvVar) []naming {
		return ofEnvironment(corev1.PodSpec{Containers: []corev1.Container{{}, {Env: list}}}, say.F("the Pod %s", "p"))
	}
	type source map[string][][]naming // by what it says
	sources := []source{
		{"": {nil}, own: {{namingOf("own", nil)}}, "other": {{namingOf("other", nil)}}, unclear: {{namingOf("a b", nil)}, {namingOf("acs:ram::1:user/own", nil)}}},
		{
			"":      {env(), env(corev1.EnvVar{Name: roleVariable}), env(corev1.EnvVar{Name: "ROLE", Value: "other"})},
			own:     {env(corev1.EnvVar{Name: roleVariable, Value: "acs:ram::123:role/own"})},
			"other": {env(corev1.EnvVar{Name: roleVariable, Value: "acs:ram::123:role/other"})},
			unclear: {
				env(corev1.EnvVar{Name: roleVariable, ValueFrom: &corev1.EnvVarSource{}}), env(corev1.EnvVar{Name: roleVariable, Value: "acs:ram::123:role/"}),
				ofEnvironment(corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{}}}}}, nil),
			},
		},
		{
			"": {
				ofConfig(""), ofConfig(" "), ofConfig("{}"), ofConfig(`{"CPU":"2","clusterRole":"system:ccm"}`), ofConfig(`{"EnableRRSA":"false","RamRoleName":""}`),
				ofConfig(`{"RRSA":{"enable":false,"list":[null,"off",0]}}`),
			},
			own: {
				ofConfig(`{"RamRoleName":"own"}`), ofConfig(`{"rrsa":{"enable":true,"role_arn":"acs:ram::1:role/own"}}`), ofConfig(`{"x":["acs:ram::1:role/own"]}`),
				ofConfig(`{"EnableRRSA":"true","rrsa-role-name":"own"}`),
			},
			"other": {ofConfig(`{"a":{"ramRole":"other"}}`)},
			unclear: {ofConfig(`{"EnableRRSA":"true"}`), ofConfig("rrsa: on"), ofConfig(`{"RoleName":"a b"}`), ofConfig(`{"rrsa":{"enabled":1}}`)},
		},
	}
	for account, ofAccount := range sources[0] {
		for pod, ofPod := range sources[1] {
			for addon, ofAddon := range sources[2] {
				want := ""
				for _, said := range []string{account, pod, addon} {
					switch {
					case said == "" || said == want:
					case want == "":
						want = said
					default:
						want = unclear
					}
				}
				for _, a := range ofAccount {
					for _, p := range ofPod {
						for _, c := range ofAddon {
							one, unsure := oneOf(append(append(append([]naming{}, a...), p...), c...))
							got := one.role
							if len(unsure) > 0 {
								got = unclear
							}
							if got != want || len(unsure) > 0 && one.role != "" {
								t.Errorf("account %q, Pod %q, add-on %q: got %q (%s), want %q", account, pod, addon, got, unsure, want)
							}
						}
					}
				}
			}
		}
	}
}
