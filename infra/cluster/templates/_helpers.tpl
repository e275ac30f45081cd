{{- /* The image of a program or class: (list $ name). */}}
{{- define "lbremedy.image" -}}
{{- $ := index . 0 }}{{ $name := index . 1 }}{{ $registry := required "image.registry: name the registry that holds the images" $.Values.image.registry }}
{{- with index $.Values.image.digests $name }}{{ $registry }}/{{ $name }}@{{ . }}{{ else }}{{ $registry }}/{{ $name }}:{{ required "image.tag: name the version of the images, or add -f bin/images/digests.yaml" $.Values.image.tag }}{{ end }}
{{- end }}

{{- /* The prefix of cluster-scoped names, so that two releases can live in one cluster. Inside a namespace names are fixed: the
admission policies know the ServiceAccounts by theirs. */}}
{{- define "lbremedy.fullname" -}}
{{- .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-lbremedy" .Release.Name) (contains "lbremedy" .Release.Name)) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- define "lbremedy.scoped" -}}
{{- include "lbremedy.fullname" (index . 0) }}{{ trimPrefix "lbremedy" (index . 1) }}
{{- end }}

{{- /* The labels that select the Pods of the release, and of a program: (list $ name). They never change. */}}
{{- define "lbremedy.release" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "lbremedy.selector" -}}
{{ include "lbremedy.release" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* The labels of an object: (list $ name). */}}
{{- define "lbremedy.labels" -}}
{{ include "lbremedy.selector" . }}
app.kubernetes.io/part-of: lbremedy
{{- with (index . 0).Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* A ClusterRole of a file, under the name of this release: (list $ role). */}}
{{- define "lbremedy.role" -}}
{{- $ := index . 0 }}{{ $role := deepCopy (index . 1) }}
{{- $_ := set $role "metadata" (dict "name" (include "lbremedy.scoped" (list $ $role.metadata.name)) "labels" (include "lbremedy.labels" (list $ "rbac") | fromYaml)) }}
{{- toYaml $role }}
{{- end }}

{{- /* What the values say of where Pods run, and of their images. */}}
{{- define "lbremedy.placed" -}}
{{- $lines := list }}
{{- with .Values.priorityClassName }}{{ $lines = append $lines (printf "priorityClassName: %s" .) }}{{ end }}
{{- with .Values.image.pullSecrets }}{{ $lines = append $lines (printf "imagePullSecrets: %s" (toJson .)) }}{{ end }}
{{- with .Values.nodeSelector }}{{ $lines = append $lines (printf "nodeSelector: %s" (toJson .)) }}{{ end }}
{{- with .Values.tolerations }}{{ $lines = append $lines (printf "tolerations: %s" (toJson .)) }}{{ end }}
{{- join "\n" $lines }}
{{- end }}

{{- /* What the Pods of all programs have in common: (list $ name account). */}}
{{- define "lbremedy.pod" -}}
{{- $ := index . 0 -}}
serviceAccountName: {{ index . 2 }}
enableServiceLinks: false
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- with include "lbremedy.placed" $ }}
{{ . }}
{{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {{ include "lbremedy.selector" . | fromYaml | toJson }}}}
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {{ include "lbremedy.selector" . | fromYaml | toJson }}}}
{{- end }}

{{- /* The container of lbremedy up, without variables and mounts. */}}
{{- define "lbremedy.container" -}}
image: {{ include "lbremedy.image" (list . "lbremedy") }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
ports: [{name: http, containerPort: 8080}]
envFrom: [{configMapRef: {name: lbremedy}}]
# It answers once it has connected: until then nobody asks whether it is ready, and for five minutes nobody ends it.
startupProbe: {httpGet: {path: /healthz, port: http}, initialDelaySeconds: 1, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 300}
livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 20, timeoutSeconds: 5}
readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 2, timeoutSeconds: 5}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{- /* A memory limit in bytes. */}}
{{- define "lbremedy.bytes" -}}
{{- $text := ternary . (printf "%d" (int64 .)) (kindIs "string" .) }}
{{- $unit := regexFind "[A-Za-z]*$" $text }}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- mulf (trimSuffix $unit $text | float64) (get $units $unit) | int64 }}
{{- end }}

{{- /* GOMEMLIMIT, so many thousandths of the memory limit: (list values resources thousandths). The rest is for what is no heap,
which the kernel counts, too. What env of the values says has the last word. */}}
{{- define "lbremedy.heap" -}}
{{- $named := false }}
{{- range index . 0 | dig "env" list }}{{ if eq .name "GOMEMLIMIT" }}{{ $named = true }}{{ end }}{{ end }}
{{- $limit := index . 1 | default dict | dig "limits" "memory" "" }}
{{- if and $limit (not $named) -}}
- {name: GOMEMLIMIT, value: {{ div (mul (include "lbremedy.bytes" $limit | int64) (index . 2)) 1048576000 }}MiB}
{{- end }}
{{- end }}

{{- /* The variables of NATS, for a program that uses one: (list $ user). */}}
{{- define "lbremedy.nats" -}}
- {name: LBREMEDY_NATS, value: {{ (index . 0).Values.nats.url | quote }}}
- {name: LBREMEDY_NATS_NKEY, value: /var/run/lbremedy/seed}
- {name: LBREMEDY_NATS_CA, value: /var/run/lbremedy/ca.crt}
{{- end }}
{{- define "lbremedy.nats.sources" -}}
- secret: {name: {{ (index . 0).Values.nats.seedPrefix }}{{ index . 1 }}, items: [{key: seed, path: seed}]}
- secret: {name: {{ (index . 0).Values.nats.caSecret }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}

{{- /* The Pod's RAM role without the webhook, in the way of the webhook: (list $ name). */}}
{{- define "lbremedy.rrsa" -}}
{{- $ := index . 0 }}
{{- if and $.Values.rrsa.enabled $.Values.rrsa.provider -}}
- {name: ALIBABA_CLOUD_ROLE_ARN, value: "acs:ram::{{ required "rrsa.account: name the account of the roles" $.Values.rrsa.account }}:role/{{ $.Values.rrsa.rolePrefix }}{{ index . 1 }}"}
- {name: ALIBABA_CLOUD_OIDC_PROVIDER_ARN, value: {{ $.Values.rrsa.provider | quote }}}
- {name: ALIBABA_CLOUD_OIDC_TOKEN_FILE, value: /var/run/secrets/ack.alibabacloud.com/rrsa-tokens/token}
{{- end }}
{{- end }}
{{- define "lbremedy.rrsa.mount" -}}
{{- $ := index . 0 }}
{{- if and $.Values.rrsa.enabled $.Values.rrsa.provider -}}
- {name: rrsa, mountPath: /var/run/secrets/ack.alibabacloud.com/rrsa-tokens, readOnly: true}
{{- end }}
{{- end }}
{{- define "lbremedy.rrsa.volume" -}}
{{- $ := index . 0 }}
{{- if and $.Values.rrsa.enabled $.Values.rrsa.provider -}}
- {name: rrsa, projected: {sources: [{serviceAccountToken: {audience: sts.aliyuncs.com, expirationSeconds: 3600, path: token}}]}}
{{- end }}
{{- end }}

{{- /* What the values add to a container and its Pod, and the certificate authorities: (list $ values). */}}
{{- define "lbremedy.env" -}}
{{- $lines := list }}
{{- with (index . 0).Values.certificateAuthorities }}
{{- if or .configMap .secret }}{{ $lines = append $lines "- {name: SSL_CERT_DIR, value: /var/run/lbremedy-authorities}" }}{{ end }}
{{- end }}
{{- with index . 1 | dig "env" list }}{{ $lines = append $lines (toYaml .) }}{{ end }}
{{- join "\n" $lines }}
{{- end }}
{{- define "lbremedy.mounts" -}}
{{- $lines := list }}
{{- with (index . 0).Values.certificateAuthorities }}
{{- if or .configMap .secret }}{{ $lines = append $lines "- {name: authorities, mountPath: /var/run/lbremedy-authorities, readOnly: true}" }}{{ end }}
{{- end }}
{{- with index . 1 | dig "volumeMounts" list }}{{ $lines = append $lines (toYaml .) }}{{ end }}
{{- join "\n" $lines }}
{{- end }}
{{- define "lbremedy.volumes" -}}
{{- $lines := list }}
{{- with (index . 0).Values.certificateAuthorities }}
{{- if and .configMap .secret }}{{ fail "certificateAuthorities: name a ConfigMap or a Secret, not both" }}{{ end }}
{{- with .configMap }}{{ $lines = append $lines (printf "- {name: authorities, configMap: {name: %s}}" .) }}{{ end }}
{{- with .secret }}{{ $lines = append $lines (printf "- {name: authorities, secret: {secretName: %s}}" .) }}{{ end }}
{{- end }}
{{- with index . 1 | dig "volumes" list }}{{ $lines = append $lines (toYaml .) }}{{ end }}
{{- join "\n" $lines }}
{{- end }}

{{- /* The classes that are Services of Knative, as a YAML list. */}}
{{- define "lbremedy.classes" -}}
{{- $all := .Files.Get "classes.yaml" | fromYamlArray }}
{{- range $class := .Values.knative.classes }}
{{- if not (has $class $all) }}{{ fail (printf "knative.classes: there is no class %s" $class) }}{{ end }}
{{- end }}
{{- .Values.knative.classes | default $all | sortAlpha | uniq | toYaml }}
{{- end }}

{{- /* The routes file, or empty. */}}
{{- define "lbremedy.routes" -}}
{{- if eq .Values.functions "fc" }}
{{- if not .Values.routes }}{{ fail "routes: say where the functions are" }}{{ end }}
{{- toYaml .Values.routes }}
{{- else if .Values.routes }}{{ fail "routes: the chart writes them itself unless functions is fc" }}
{{- else if eq .Values.functions "knative" }}
{{- if not .Values.knative.engineKeys }}{{ fail "knative.engineKeys: name the public key that lbremedy keys prints" }}{{ end }}
{{- $route := printf "{url: \"http://lbremedy-{class}.%s.svc.cluster.local\"}" .Release.Namespace }}
{{- if .Values.knative.classes -}}
routes:
  {{- range $class := include "lbremedy.classes" . | fromYamlArray }}
  {{ $class }}: {{ $route }}
  {{- end }}
{{- else -}}
default: {{ $route }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The ServiceAccount of lbremedy up. Where functions handle all classes, it writes neither to Services nor to the cloud. */}}
{{- define "lbremedy.account" -}}
{{- $routes := include "lbremedy.routes" . | fromYaml }}
{{- $local := false }}
{{- range $class := .Files.Get "classes.yaml" | fromYamlArray }}
{{- if not (or (hasKey $routes "default") (hasKey (get $routes "routes" | default dict) $class)) }}{{ $local = true }}{{ end }}
{{- end }}
{{- ternary "lbremedy-up" "lbremedy-engine" $local }}
{{- end }}

{{- /* Where the console runs: in the Pod with the NATS, in one of its own, or empty. */}}
{{- define "lbremedy.console.place" -}}
{{- if .Values.console.enabled }}{{ ternary "beside" "apart" (not .Values.nats.url) }}{{ end }}
{{- end }}

{{- /* The container of the console, without variables and mounts. */}}
{{- define "lbremedy.console" -}}
{{- $url := .Values.console.url | default "http://127.0.0.1:8383" -}}
{{- $probe := dict "path" "/healthz" "port" "console" "scheme" (ternary "HTTPS" "HTTP" (ne .Values.console.tlsSecret "")) -}}
image: {{ include "lbremedy.image" (list . "lbremedy") }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
- console
- --login
- --listen=:8383
- --url={{ $url }}
{{- if .Values.console.tlsSecret }}
- --tls-cert=/var/run/lbremedy-tls/tls.crt
- --tls-key=/var/run/lbremedy-tls/tls.key
{{- end }}
ports: [{name: console, containerPort: 8383}]
envFrom: [{configMapRef: {name: lbremedy}}]
startupProbe: {httpGet: {{ toJson $probe }}, initialDelaySeconds: 1, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 300}
livenessProbe: {httpGet: {{ toJson $probe }}, periodSeconds: 20, timeoutSeconds: 5}
readinessProbe: {httpGet: {{ toJson $probe }}, periodSeconds: 2, timeoutSeconds: 5}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
resources: {{ toJson .Values.console.resources }}
{{- end }}
{{- define "lbremedy.console.mount" -}}
{{- if .Values.console.tlsSecret -}}
- {name: tls, mountPath: /var/run/lbremedy-tls, readOnly: true}
{{- end }}
{{- end }}
{{- define "lbremedy.console.volume" -}}
{{- if .Values.console.tlsSecret -}}
- {name: tls, secret: {secretName: {{ .Values.console.tlsSecret }}}}
{{- end }}
{{- end }}

{{- /* The nodes' metadata service gives out their RAM role to whoever asks. */}}
{{- define "lbremedy.outside" -}}
- to: [{{ range $i, $cidr := .cidrs }}{{ if $i }}, {{ end }}{ipBlock: {cidr: {{ $cidr }}{{ if eq $cidr "0.0.0.0/0" }}, except: [100.100.100.200/32]{{ end }}}}{{ end }}]
  ports: [{{ range $i, $port := .ports }}{{ if $i }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{ end }}]
{{- end }}
