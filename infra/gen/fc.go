package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

type runtime struct {
	Name        string
	File        string // generated file, relative to the root
	Root        string // root of the repository, relative to the file
	Concurrency int    // invocations per instance
	HTTP        bool   // the program listens; otherwise the platform's SDK feeds it
}

// A call mostly waits for the cloud: an instance takes several. go1 feeds an instance one at a time.
var runtimes = []runtime{
	{Name: "custom.debian12", File: "s.yaml", Root: ".", Concurrency: 10, HTTP: true},
	{Name: "go1", File: "infra/fc/go1.yaml", Root: "../..", Concurrency: 1},
}

// onlyPublic products have no endpoint inside a VPC (see shared/cloud): functions that call them need internet access.
var onlyPublic = []string{"bss", "quotas", "workorder"}

type function struct {
	Class       string
	Title       string
	Internet    bool
	CPU         string
	Memory      int // MB
	Timeout     int // seconds
	Concurrency int
}

func functionsOf(all []*remedy.Remedy, rt runtime) []function {
	var out []function
	for _, r := range all {
		out = append(out, function{
			Class: r.Class, Title: r.Title(),
			Internet: slices.ContainsFunc(r.Grants(), func(g grant.Grant) bool { return slices.Contains(onlyPublic, g.Product()) }),
			CPU:      "0.1", Memory: 128, Timeout: 90, Concurrency: rt.Concurrency,
		})
	}
	return out
}

// identityTemplate is a function's identity in the cluster. It authenticates by its RAM role, as a user whose name ACK generates, and may
// only impersonate its class's ServiceAccount: RBAC and the admission policy apply as for a Pod, and no secret is stored.
var identityTemplate = template.Must(template.New("identity").Parse(`---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: lbremedy-{{.}}
  namespace: lbremedy
  labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: function, lbremedy.io/class: {{.}}}
automountServiceAccountToken: false
---
# What the RAM role of the class may do, bound in the namespace of the ServiceAccount alone.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lbremedy-{{.}}-as}
rules:
- {apiGroups: [""], resources: [serviceaccounts], verbs: [impersonate], resourceNames: ["lbremedy-{{.}}"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lbremedy-{{.}}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lbremedy-{{.}}}
subjects: [{kind: ServiceAccount, name: lbremedy-{{.}}, namespace: lbremedy}]
`))

func identities(all []*remedy.Remedy, out map[string][]byte) error {
	text := bytes.NewBufferString(generated)
	for _, r := range all {
		if err := identityTemplate.Execute(text, r.Class); err != nil {
			return fmt.Errorf("render the identity of %s: %w", r.Class, err)
		}
	}
	out["infra/fc/identities.yaml"] = text.Bytes()
	return nil
}

func deployments(all []*remedy.Remedy, out map[string][]byte) error {
	for _, rt := range runtimes {
		var text bytes.Buffer
		if err := deploymentTemplate.Execute(&text, map[string]any{"Runtime": rt, "Functions": functionsOf(all, rt)}); err != nil {
			return fmt.Errorf("render %s: %w", rt.File, err)
		}
		out[rt.File] = text.Bytes()
	}
	return nil
}

var deploymentTemplate = template.Must(template.New("s.yaml").Funcs(template.FuncMap{"text": yamlText}).Parse(generated + `#
# The functions on Function Compute 3.0, one for each class, for Serverless Devs: see infra/fc/README.md.
# What differs from one environment to the next is in vars, and comes from variables of the shell; those
# without a default have to be set. Runtime: {{.Runtime.Name}}.
edition: 3.0.0
name: ${env('LBREMEDY_FC_NAME', 'lbremedy')}
access: default
vars:
  # Functions and roles begin with it: choose another for each further cluster of an account.
  name: ${env('LBREMEDY_FC_NAME', 'lbremedy')}
  account: ${env('LBREMEDY_FC_ACCOUNT')}
  region: ${env('LBREMEDY_REGION')}
  cluster: ${env('LBREMEDY_CLUSTER')}
  # Where the zips are, seen from this file.
  zips: ${env('LBREMEDY_FC_ZIPS', '{{.Runtime.Root}}/bin/fc')}
  # Public keys of the engine, as "lbremedy keys" prints them, with commas between. They are not secret.
  engineKeys: ${env('LBREMEDY_ENGINE_KEYS')}
  # cs: each function fetches a temporary kubeconfig, and acts as the ServiceAccount lbremedy-<class> of this
  # namespace (infra/fc/identities.yaml). data: LBREMEDY_KUBECONFIG_DATA holds a kubeconfig.
  namespace: ${env('LBREMEDY_FC_NAMESPACE', 'lbremedy')}
  kubeconfigFrom: ${env('LBREMEDY_KUBECONFIG_FROM', 'cs')}
  kubeconfigData: ${env('LBREMEDY_KUBECONFIG_DATA', '')}
  # The API server has an address in the VPC of the cluster alone.
  network:
    vpcId: ${env('LBREMEDY_FC_VPC')}
    vSwitchIds:
    - ${env('LBREMEDY_FC_VSWITCH')}
    securityGroupId: ${env('LBREMEDY_FC_SECURITY_GROUP')}
  logs:
    project: ${env('LBREMEDY_FC_LOG_PROJECT')}
    logstore: ${env('LBREMEDY_FC_LOG_STORE', 'lbremedy')}
    enableRequestMetrics: true
    enableInstanceMetrics: true
    logBeginRule: None
  # Signed calls only, and none from the Internet.
  http:
    authType: function
    disableURLInternet: true
    methods:
    - POST
resources:
{{- $rt := .Runtime}}
{{- range .Functions}}
  {{.Class}}:
    component: ${env('LBREMEDY_FC_COMPONENT', 'fc3')}
    props:
      region: ${vars.region}
      functionName: ${vars.name}-{{.Class}}
      description: {{text .Title}}
      runtime: {{$rt.Name}}
      code: ${vars.zips}/{{.Class}}.zip
{{- if $rt.HTTP}}
      customRuntimeConfig:
        command:
        - ./bootstrap
        port: 9000
        healthCheckConfig:
          httpGetUrl: /health/liveness
          initialDelaySeconds: 0
          periodSeconds: 5
          timeoutSeconds: 2
          failureThreshold: 3
          successThreshold: 1
{{- else}}
      handler: bootstrap
{{- end}}
      cpu: {{.CPU}}
      memorySize: {{.Memory}}
      diskSize: 512
      timeout: {{.Timeout}}
      instanceConcurrency: {{.Concurrency}}
      internetAccess: {{.Internet}}
      role: acs:ram::${vars.account}:role/${vars.name}-{{.Class}}
      vpcConfig: ${vars.network}
      logConfig: ${vars.logs}
      environmentVariables:
        LBREMEDY_CLUSTER: ${vars.cluster}
        LBREMEDY_REGION: ${vars.region}
        LBREMEDY_CLOUD_VPC: 'true'
        LBREMEDY_KUBECONFIG_FROM: ${vars.kubeconfigFrom}
        LBREMEDY_KUBECONFIG_AS: system:serviceaccount:${vars.namespace}:lbremedy-{{.Class}}
        LBREMEDY_KUBECONFIG_DATA: ${vars.kubeconfigData}
        LBREMEDY_ENGINE_KEYS: ${vars.engineKeys}
      tags:
      - key: app
        value: lbremedy
      - key: class
        value: {{.Class}}
      triggers:
      - triggerName: http
        triggerType: http
        qualifier: LATEST
        triggerConfig: ${vars.http}
{{- end}}
`))

// yamlText returns a YAML string that its content can't end.
func yamlText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
