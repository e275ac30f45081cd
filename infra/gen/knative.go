package main

import (
	"bytes"
	"fmt"
	"slices"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Where the plain manifests put things. The chart has values in place of them.
const (
	namespace = "lbremedy"
	// registry can't be anybody's: RFC 6761 keeps the name from resolving. Who forgets
	// to name a registry pulls nothing, rather than what a stranger has put there.
	registry = "registry.invalid/lbremedy"
	// version stands for the tag of the images, which infra/deploy sets. There is no image
	// of that tag, and none of another is meant.
	version = "VERSION"
	// keys stands for the engine's public keys, which infra/deploy sets.
	keys = "ENGINE-KEYS"
)

// A placing says how one class's manifests are written: with fixed names, or with
// the expressions of a chart.
type placing struct {
	Class, Name, Namespace string
	Image, Role            string // of the RAM role
	IfRole, End            string // around the annotation that names the RAM role
	Limits, Annotations    string // of the function, as YAML in one line
	Heap                   string // the line with GOMEMLIMIT, below the limit
	System                 bool   // whether the class reads parts of the controller
	Env, At, Under         string // of the chart: what values add, as variables, mounts and volumes
	Keys                   string // public keys of the engine
	Pulled                 string // of the chart: the Secrets that images are pulled with
}

// What a function needs, from the measurements of infra/knative/README.md.
const (
	functionResources = `{requests: {cpu: 20m, memory: 32Mi}, limits: {cpu: "1", memory: 96Mi}}`
	functionScaling   = `{autoscaling.knative.dev/min-scale: "0", autoscaling.knative.dev/max-scale: "5", ` +
		`autoscaling.knative.dev/scale-to-zero-pod-retention-period: 2m}`
	functionHeap = `- {name: GOMEMLIMIT, value: 80MiB}`
)

// image returns what names the image of a class in the manifests that need no chart.
func image(class string) string { return registry + "/" + class + ":" + version }

// plain returns how a class is placed in the manifests that need no chart.
func plain(r *remedy.Remedy) placing {
	name := roleOf(r)
	return placing{
		Class: r.Class, Name: name, Namespace: namespace, Keys: keys, Image: image(r.Class), Role: name,
		Limits: functionResources, Annotations: functionScaling, Heap: functionHeap,
		System: slices.ContainsFunc(inSystem, func(g grant.Grant) bool { return slices.Contains(r.Grants(), g) }),
	}
}

// charted returns how every class is placed in the chart, which loops over their IDs.
func charted() placing {
	return placing{
		Class: "{{ $class }}", Name: "lbremedy-{{ $class }}", Namespace: "{{ $.Release.Namespace }}", Keys: `{{ join "," $.Values.knative.engineKeys }}`,
		Image:  `{{ include "lbremedy.image" (list $ $class) }}`,
		Role:   "{{ $.Values.rrsa.rolePrefix }}{{ $class }}",
		IfRole: "{{- if $.Values.rrsa.enabled }}", End: "{{- end }}",
		Limits: "{{ toJson $.Values.knative.resources }}", Annotations: "{{ toJson $.Values.knative.scaling }}",
		Heap:   heap("$.Values.knative", 8),
		Env:    `{{- with include "lbremedy.env" (list $ $.Values.knative) }}{{ . | nindent 8 }}{{ end }}`,
		At:     `{{- with include "lbremedy.mounts" (list $ $.Values.knative) }}{{ printf "volumeMounts:\n%s" . | nindent 8 }}{{ end }}`,
		Under:  `{{- with include "lbremedy.volumes" (list $ $.Values.knative) }}{{ printf "volumes:\n%s" . | nindent 6 }}{{ end }}`,
		Pulled: pulled,
	}
}

// heap returns the line in the chart that derives GOMEMLIMIT from the limit that the values give: five sixths of it, as in
// the manifests that need no chart.
func heap(values string, deep int) string {
	return fmt.Sprintf(`{{- with include "lbremedy.heap" (list %[1]s %[1]s.resources 834) }}{{ . | nindent %[2]d }}{{ end }}`, values, deep)
}

// pulled is the line in the chart that says which Secrets a Service of Knative pulls its image with. What the values say
// of where Pods run it has not: Knative takes that only behind flags of its own.
const pulled = `{{- with $.Values.image.pullSecrets }}{{ printf "imagePullSecrets: %s" (toJson .) | nindent 6 }}{{ end }}`

// knative returns the manifests of Knative, by name: for all classes in one place
// each, and as templates of the chart.
func knative(all []*remedy.Remedy) (map[string][]byte, error) {
	services := bytes.NewBufferString(generated)
	write := func(to *bytes.Buffer, t *template.Template, p placing) error {
		if err := t.Execute(to, p); err != nil {
			return fmt.Errorf("render the %s of %s: %w", t.Name(), p.Class, err)
		}
		return nil
	}
	classes := make([]string, len(all))
	for i, r := range all {
		classes[i] = r.Class
		if err := write(services, serviceTemplate, plain(r)); err != nil {
			return nil, err
		}
	}
	names, err := yaml.Marshal(classes)
	if err != nil {
		return nil, fmt.Errorf("write the list of classes: %w", err)
	}
	chart := bytes.NewBufferString("{{- /* " + generated[2:len(generated)-1] + " */}}\n{{- if eq .Values.functions \"knative\" }}\n" +
		"{{- range $class := include \"lbremedy.classes\" . | fromYamlArray }}\n")
	if err := write(chart, serviceTemplate, charted()); err != nil {
		return nil, err
	}
	chart.WriteString("{{- end }}\n{{- end }}\n")
	wide, limited := bytes.NewBufferString(generated), bytes.NewBufferString(generated)
	for _, r := range all {
		if err := write(wide, wideTemplate, plain(r)); err != nil {
			return nil, err
		}
		if err := write(limited, limitedTemplate, plain(r)); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{
		"infra/knative/bindings.yaml":            wide.Bytes(),
		"infra/knative/namespaced.yaml":          limited.Bytes(),
		"infra/knative/services.yaml":            services.Bytes(),
		"infra/cluster/classes.yaml":             append([]byte(generated), names...),
		"infra/cluster/templates/functions.yaml": chart.Bytes(),
	}, nil
}

// Helm reads expressions between double braces, so that ours stand in brackets.
func manifest(name, text string) *template.Template {
	return template.Must(template.New(name).Delims("[[", "]]").Parse(text))
}

// The ServiceAccount of a function, with its RAM role.
const accountText = `---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: function, lbremedy.io/class: [[.Class]]}
  [[- with .IfRole]]
  [[.]][[end]]
  annotations: {pod-identity.alibabacloud.com/role-name: [[printf "%q" .Role]]}
  [[- if .IfRole]]
  [[.End]][[end]]
`

// The Service is reachable inside the cluster alone. It keeps nothing between two calls, so
// that instances may come and go; a call takes at most 75 s, and the platform's limit stands
// above that. The engine's keys are public.
var serviceTemplate = manifest("Service", accountText+`---
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels:
    networking.knative.dev/visibility: cluster-local
    app.kubernetes.io/part-of: lbremedy
    app.kubernetes.io/component: function
    lbremedy.io/class: [[.Class]]
spec:
  template:
    metadata:
      labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: function, lbremedy.io/class: [[.Class]]}
      annotations: [[.Annotations]]
    spec:
      serviceAccountName: [[.Name]]
      containerConcurrency: 32
      timeoutSeconds: 90
      enableServiceLinks: false
      [[- with .Pulled]]
      [[.]][[end]]
      containers:
      - name: function
        image: [[.Image]]
        ports: [{name: http1, containerPort: 8080}]
        envFrom: [{configMapRef: {name: lbremedy}}]
        env:
        [[.Heap]]
        - {name: LBREMEDY_ENGINE_KEYS, value: "[[.Keys]]"}
        [[- with .Env]]
        [[.]][[end]]
        startupProbe: {httpGet: {path: /health/liveness, port: 8080}, periodSeconds: 1, timeoutSeconds: 3, failureThreshold: 300}
        readinessProbe: {httpGet: {path: /health/readiness}, periodSeconds: 2, timeoutSeconds: 3}
        livenessProbe: {httpGet: {path: /health/liveness}, periodSeconds: 20, timeoutSeconds: 3}
        resources: [[.Limits]]
        securityContext:
          runAsNonRoot: true
          runAsUser: 65532
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
          seccompProfile: {type: RuntimeDefault}
        [[- with .At]]
        [[.]][[end]]
      [[- with .Under]]
      [[.]][[end]]
`)

// Who may do what: each function in the whole cluster.
var wideTemplate = manifest("binding", `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: [[.Name]]}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: [[.Name]]}
subjects: [{kind: ServiceAccount, name: [[.Name]], namespace: [[.Namespace]]}]
`)

// Or each function in the namespace "default" alone, and of the rest of the cluster
// what it can't do without.
var limitedTemplate = manifest("limited binding", `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: [[.Name]].cluster}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: [[.Name]].cluster}
subjects: [{kind: ServiceAccount, name: [[.Name]], namespace: [[.Namespace]]}]
[[- if .System]]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: [[.Name]].system, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: [[.Name]].system}
subjects: [{kind: ServiceAccount, name: [[.Name]], namespace: [[.Namespace]]}]
[[- end]]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: [[.Name]], namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: [[.Name]]}
subjects: [{kind: ServiceAccount, name: [[.Name]], namespace: [[.Namespace]]}]
`)
