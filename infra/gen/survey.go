package main

import (
	"bytes"
	"fmt"
	"text/template"

	"github.com/lbremedy/lbremedy/shared/stream"
)

// surveyTitle is what the survey does, for those who read a list of functions.
const surveyTitle = "What will fail, or has failed without a word"

// What the survey has where nobody says otherwise. It looks once an hour, at a minute at
// which fewer others begin than at the full one. 5,000 Services with 500 load balancers
// took 51 seconds and 166 MB resident in BenchmarkSurvey; 300 MB are what it is held to.
const (
	surveySchedule  = `"17 * * * *"`
	surveyResources = `{requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 384Mi}}`
	surveyMemory    = "320MiB" // of GOMEMLIMIT, below the limit
	surveyScaling   = `{autoscaling.knative.dev/min-scale: "0", autoscaling.knative.dev/max-scale: "1"}`
)

// A timed says how the survey's manifests are written: as a placing, and when it runs.
type timed struct {
	placing
	Schedule        string // as YAML in one line
	Memory          string
	Pull            string // whether an image is fetched that is there
	RRSA, At, Under string // of the chart: the role without the webhook, as variables, a mount and a volume
	Placed          string // of the chart: where the Pod may run
}

// plainSurvey returns how the survey is placed in the manifests that need no chart.
func plainSurvey() timed {
	const name = "lbremedy-" + surveyClass
	return timed{
		placing: placing{
			Class: surveyClass, Name: name, Inbox: stream.InboxOf(surveyClass), Namespace: namespace, Image: registry + "/" + surveyClass + ":latest", Role: name,
			Limits: surveyResources, Annotations: surveyScaling, Component: surveyClass,
		},
		Schedule: surveySchedule, Memory: surveyMemory, Pull: "IfNotPresent",
	}
}

// chartedSurvey returns how the survey is placed in the chart.
func chartedSurvey() timed {
	t := plainSurvey()
	t.Namespace = "{{ .Release.Namespace }}"
	t.Image = `{{ include "lbremedy.image" (list $ "survey") }}`
	t.Role = "{{ .Values.rrsa.rolePrefix }}survey"
	t.IfRole, t.End = "{{- if .Values.rrsa.enabled }}", "{{- end }}"
	t.Limits = "{{ toJson .Values.survey.resources }}"
	t.Schedule = "{{ .Values.survey.schedule | quote }}"
	t.Pull = "{{ .Values.image.pullPolicy }}"
	t.RRSA = `{{- with include "lbremedy.rrsa" (list $ "survey") }}{{ . | nindent 12 }}{{ end }}`
	t.At = `{{- with include "lbremedy.rrsa.mount" (list $) }}{{ . | nindent 12 }}{{ end }}`
	t.Under = `{{- with include "lbremedy.rrsa.volume" (list $) }}{{ . | nindent 10 }}{{ end }}`
	t.Placed = `{{- with include "lbremedy.placed" . }}{{ . | nindent 10 }}{{ end }}`
	return t
}

// surveys adds the manifests of the survey: plain ones for each way in which a timer
// calls it, and one template of the chart for both.
func surveys(out map[string][]byte) error {
	ways := []struct {
		by string
		t  *template.Template
	}{{"cronjob", cronTemplate}, {"pingsource", pingTemplate}}
	chart := bytes.NewBufferString("{{- /* " + generated[2:len(generated)-1] + " */}}\n{{- if and .Values.survey.enabled (eq .Values.mode \"courier\") }}\n")
	if err := surveyAccount.Execute(chart, chartedSurvey()); err != nil {
		return fmt.Errorf("render the survey: %w", err)
	}
	for _, way := range ways {
		plain := bytes.NewBufferString(generated)
		for _, t := range []*template.Template{surveyAccount, wideTemplate, way.t} {
			if err := t.Execute(plain, plainSurvey()); err != nil {
				return fmt.Errorf("render the survey: %w", err)
			}
		}
		out["infra/knative/survey-"+way.by+".yaml"] = plain.Bytes()
		fmt.Fprintf(chart, "{{- if eq .Values.survey.by %q }}\n", way.by)
		if way.t == pingTemplate {
			chart.WriteString("{{- if ne .Values.functions.platform \"knative\" }}\n" +
				"{{- fail \"survey.by: a PingSource calls a Service of Knative: set functions.platform to knative, or survey.by to cronjob\" }}\n{{- end }}\n")
		}
		if err := way.t.Execute(chart, chartedSurvey()); err != nil {
			return fmt.Errorf("render the survey: %w", err)
		}
		chart.WriteString("{{- end }}\n")
	}
	chart.WriteString("{{- end }}\n")
	out["infra/cluster/templates/survey.yaml"] = chart.Bytes()
	return nil
}

var surveyAccount = manifest("ServiceAccount of the survey", accountText)

// A Job runs the program once. It fails if the cluster could not be surveyed, and never
// for what was found: that stands in the journal. A survey ends by ten minutes; one that
// failed at once is tried once more, and then by the next Job.
var cronTemplate = manifest("CronJob", `---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: survey, lbremedy.io/class: survey}
spec:
  schedule: [[.Schedule]]
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 3
  jobTemplate:
    metadata:
      labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: survey, lbremedy.io/class: survey}
    spec:
      backoffLimit: 1
      activeDeadlineSeconds: 900
      template:
        metadata:
          labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: survey, lbremedy.io/class: survey}
        spec:
          restartPolicy: Never
          serviceAccountName: [[.Name]]
          enableServiceLinks: false
          [[- with .Placed]]
          [[.]][[end]]
          securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
          containers:
          - name: survey
            image: [[.Image]]
            imagePullPolicy: [[.Pull]]
            args: [--once]
            envFrom: [{configMapRef: {name: lbremedy}}]
            env:
            - {name: GOMEMLIMIT, value: [[.Memory]]}
            - {name: LBREMEDY_NATS_NKEY, value: /var/run/lbremedy/seed}
            - {name: LBREMEDY_NATS_CA, value: /var/run/lbremedy/ca.crt}
            - {name: LBREMEDY_NATS_INBOX, value: [[printf "%q" .Inbox]]}
            [[- with .RRSA]]
            [[.]][[end]]
            resources: [[.Limits]]
            securityContext:
              runAsNonRoot: true
              runAsUser: 65532
              allowPrivilegeEscalation: false
              readOnlyRootFilesystem: true
              capabilities: {drop: [ALL]}
              seccompProfile: {type: RuntimeDefault}
            volumeMounts:
            - {name: secrets, mountPath: /var/run/lbremedy, readOnly: true}
            [[- with .At]]
            [[.]][[end]]
          volumes:
          - name: secrets
            projected:
              sources:
              - secret: {name: lbremedy-nats-survey, items: [{key: seed, path: seed}]}
              - secret: {name: lbremedy-nats-ca, items: [{key: ca.crt, path: ca.crt}]}
          [[- with .Under]]
          [[.]][[end]]
`)

// A PingSource shows no token, so that the survey asks for none: whoever reaches the
// Service can make it look, and not write. A survey may take ten minutes, which is as
// long as Knative lets a request take where nobody has changed it, and the answer comes
// at its end.
var pingTemplate = manifest("PingSource", `---
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels: {networking.knative.dev/visibility: cluster-local, app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: survey, lbremedy.io/class: survey}
spec:
  template:
    metadata:
      labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: survey, lbremedy.io/class: survey}
      annotations: [[.Annotations]]
    spec:
      serviceAccountName: [[.Name]]
      containerConcurrency: 1
      timeoutSeconds: 600
      responseStartTimeoutSeconds: 600
      enableServiceLinks: false
      containers:
      - name: survey
        image: [[.Image]]
        ports: [{name: http1, containerPort: 8080}]
        envFrom: [{configMapRef: {name: lbremedy}}]
        env:
        - {name: GOMEMLIMIT, value: [[.Memory]]}
        - {name: LBREMEDY_NATS_NKEY, value: /var/run/lbremedy/seed}
        - {name: LBREMEDY_NATS_CA, value: /var/run/lbremedy/ca.crt}
        - {name: LBREMEDY_NATS_INBOX, value: [[printf "%q" .Inbox]]}
        readinessProbe: {httpGet: {path: /health/readiness}, periodSeconds: 5, timeoutSeconds: 3}
        livenessProbe: {httpGet: {path: /health/liveness}, periodSeconds: 20, timeoutSeconds: 3}
        resources: [[.Limits]]
        securityContext:
          runAsNonRoot: true
          runAsUser: 65532
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
          seccompProfile: {type: RuntimeDefault}
        volumeMounts: [{name: secrets, mountPath: /var/run/lbremedy, readOnly: true}]
      volumes:
      - name: secrets
        projected:
          sources:
          - secret: {name: lbremedy-nats-survey, items: [{key: seed, path: seed}]}
          - secret: {name: lbremedy-nats-ca, items: [{key: ca.crt, path: ca.crt}]}
---
apiVersion: sources.knative.dev/v1
kind: PingSource
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: survey, lbremedy.io/class: survey}
spec:
  schedule: [[.Schedule]]
  sink: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: [[.Name]]}}
`)
