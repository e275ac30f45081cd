package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"

	"github.com/lbremedy/lbremedy/shared/stream"
)

// doctorTitle is what the doctor does, for those who read a list of functions.
const doctorTitle = "What will fail, or has failed without an Event"

// What the doctor has where nobody says otherwise. It runs once an hour, at a minute at
// which fewer others begin than at the full one. 5,000 Services with 500 load balancers
// took 51 seconds and 166 MB resident in BenchmarkRun; 300 MB are what it is held to.
const (
	doctorSchedule  = `"17 * * * *"`
	doctorResources = `{requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 384Mi}}`
	doctorHeap      = `- {name: GOMEMLIMIT, value: 320MiB}`
	doctorScaling   = `{autoscaling.knative.dev/min-scale: "0", autoscaling.knative.dev/max-scale: "1"}`
)

// A timed says how the doctor's manifests are written: as a placing, and when it runs.
type timed struct {
	placing
	Schedule string // as YAML in one line
	Pull     string // whether an image is fetched that is there
	Placed   string // of the chart: where the Pod may run
}

// plainDoctor returns how the doctor is placed in the manifests that need no chart.
func plainDoctor() timed {
	const name = "lbremedy-" + doctorClass
	return timed{
		placing: placing{
			Class: doctorClass, Name: name, Inbox: stream.InboxOf(doctorClass), Namespace: namespace, Image: image(doctorClass), Role: name,
			Limits: doctorResources, Annotations: doctorScaling, Heap: doctorHeap, Component: doctorClass,
		},
		Schedule: doctorSchedule, Pull: "IfNotPresent",
	}
}

// chartedDoctor returns how the doctor is placed in the chart, with its container so deep.
func chartedDoctor(deep int) timed {
	t := plainDoctor()
	t.Namespace = "{{ .Release.Namespace }}"
	t.Image = `{{ include "lbremedy.image" (list $ "doctor") }}`
	t.Role = "{{ .Values.rrsa.rolePrefix }}doctor"
	t.IfRole, t.End = "{{- if .Values.rrsa.enabled }}", "{{- end }}"
	t.Limits, t.Heap = "{{ toJson .Values.doctor.resources }}", heap(".Values.doctor", deep)
	t.Schedule = "{{ .Values.doctor.schedule | quote }}"
	t.Pull = "{{ .Values.image.pullPolicy }}"
	// The role without the webhook, and what values add.
	add := func(role, of, more string, deep int) string {
		return fmt.Sprintf("{{- with include \"lbremedy.%[1]s\" (list $%[2]s) }}{{ . | nindent %[4]d }}{{ end }}\n%[5]s"+
			"{{- with include \"lbremedy.%[3]s\" (list $ .Values.doctor) }}{{ . | nindent %[4]d }}{{ end }}", role, of, more, deep, strings.Repeat(" ", deep))
	}
	t.Env = add("rrsa", ` "doctor"`, "env", deep)
	t.At = add("rrsa.mount", "", "mounts", deep)
	t.Under = add("rrsa.volume", "", "volumes", deep-2)
	t.Secrets = fmt.Sprintf(`{{- include "lbremedy.nats.sources" (list $ "doctor") | nindent %d }}`, deep+2)
	t.Pulled = pulled
	t.Placed = `{{- with include "lbremedy.placed" . }}{{ . | nindent 10 }}{{ end }}`
	return t
}

// doctorManifests adds the manifests of the doctor: plain ones for each way in which a timer
// calls it, and one template of the chart for both.
func doctorManifests(out map[string][]byte) error {
	ways := []struct {
		by   string
		t    *template.Template
		deep int
	}{{"cronjob", cronTemplate, 12}, {"pingsource", pingTemplate, 8}}
	chart := bytes.NewBufferString("{{- /* " + generated[2:len(generated)-1] + " */}}\n{{- if include \"lbremedy.doctor.account\" . }}\n")
	if err := doctorAccount.Execute(chart, chartedDoctor(12)); err != nil {
		return fmt.Errorf("render the doctor: %w", err)
	}
	chart.WriteString("{{- end }}\n{{- if and .Values.doctor.enabled (eq .Values.mode \"courier\") }}\n")
	for _, way := range ways {
		plain := bytes.NewBufferString(generated)
		for _, t := range []*template.Template{doctorAccount, wideTemplate, way.t} {
			if err := t.Execute(plain, plainDoctor()); err != nil {
				return fmt.Errorf("render the doctor: %w", err)
			}
		}
		out["infra/knative/doctor-"+way.by+".yaml"] = plain.Bytes()
		fmt.Fprintf(chart, "{{- if eq .Values.doctor.by %q }}\n", way.by)
		if way.t == pingTemplate {
			chart.WriteString("{{- if ne .Values.functions.platform \"knative\" }}\n" +
				"{{- fail \"doctor.by: a PingSource calls a Service of Knative: set functions.platform to knative, or doctor.by to cronjob\" }}\n{{- end }}\n")
		}
		if err := way.t.Execute(chart, chartedDoctor(way.deep)); err != nil {
			return fmt.Errorf("render the doctor: %w", err)
		}
		chart.WriteString("{{- end }}\n")
	}
	chart.WriteString("{{- end }}\n")
	out["infra/cluster/templates/doctor.yaml"] = chart.Bytes()
	return nil
}

var doctorAccount = manifest("ServiceAccount of the doctor", accountText)

// A Job runs the program once. It fails if the cluster could not be checked, and never
// for what was found: that stands in the journal. A run ends within ten minutes; one that
// failed at once is tried once more, and then by the next Job.
var cronTemplate = manifest("CronJob", `---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: doctor, lbremedy.io/class: doctor}
spec:
  schedule: [[.Schedule]]
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 3
  jobTemplate:
    metadata:
      labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: doctor, lbremedy.io/class: doctor}
    spec:
      backoffLimit: 1
      activeDeadlineSeconds: 900
      template:
        metadata:
          labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: doctor, lbremedy.io/class: doctor}
        spec:
          restartPolicy: Never
          serviceAccountName: [[.Name]]
          enableServiceLinks: false
          [[- with .Placed]]
          [[.]][[end]]
          securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
          containers:
          - name: doctor
            image: [[.Image]]
            imagePullPolicy: [[.Pull]]
            args: [--once]
            envFrom: [{configMapRef: {name: lbremedy}}]
            env:
            [[.Heap]]
            - {name: LBREMEDY_NATS_NKEY, value: /var/run/lbremedy/seed}
            - {name: LBREMEDY_NATS_CA, value: /var/run/lbremedy/ca.crt}
            - {name: LBREMEDY_NATS_INBOX, value: [[printf "%q" .Inbox]]}
            [[- with .Env]]
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
              [[- with .Secrets]]
              [[.]][[else]]
              - secret: {name: lbremedy-nats-doctor, items: [{key: seed, path: seed}]}
              - secret: {name: lbremedy-nats-ca, items: [{key: ca.crt, path: ca.crt}]}
              [[- end]]
          [[- with .Under]]
          [[.]][[end]]
`)

// A PingSource shows no token, so that the doctor asks for none: whoever reaches the
// Service can make it look, and not write. A run may take ten minutes, which is as
// long as Knative lets a request take where nobody has changed it, and the answer comes
// at its end.
var pingTemplate = manifest("PingSource", `---
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels:
    networking.knative.dev/visibility: cluster-local
    app.kubernetes.io/part-of: lbremedy
    app.kubernetes.io/component: doctor
    lbremedy.io/class: doctor
spec:
  template:
    metadata:
      labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: doctor, lbremedy.io/class: doctor}
      annotations: [[.Annotations]]
    spec:
      serviceAccountName: [[.Name]]
      containerConcurrency: 1
      timeoutSeconds: 600
      responseStartTimeoutSeconds: 600
      enableServiceLinks: false
      [[- with .Pulled]]
      [[.]][[end]]
      containers:
      - name: doctor
        image: [[.Image]]
        ports: [{name: http1, containerPort: 8080}]
        envFrom: [{configMapRef: {name: lbremedy}}]
        env:
        [[.Heap]]
        - {name: LBREMEDY_NATS_NKEY, value: /var/run/lbremedy/seed}
        - {name: LBREMEDY_NATS_CA, value: /var/run/lbremedy/ca.crt}
        - {name: LBREMEDY_NATS_INBOX, value: [[printf "%q" .Inbox]]}
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
        volumeMounts:
        - {name: secrets, mountPath: /var/run/lbremedy, readOnly: true}
        [[- with .At]]
        [[.]][[end]]
      volumes:
      - name: secrets
        projected:
          sources:
          [[- with .Secrets]]
          [[.]][[else]]
          - secret: {name: lbremedy-nats-doctor, items: [{key: seed, path: seed}]}
          - secret: {name: lbremedy-nats-ca, items: [{key: ca.crt, path: ca.crt}]}
          [[- end]]
      [[- with .Under]]
      [[.]][[end]]
---
apiVersion: sources.knative.dev/v1
kind: PingSource
metadata:
  name: [[.Name]]
  namespace: [[.Namespace]]
  labels: {app.kubernetes.io/part-of: lbremedy, app.kubernetes.io/component: doctor, lbremedy.io/class: doctor}
spec:
  schedule: [[.Schedule]]
  sink: {ref: {apiVersion: serving.knative.dev/v1, kind: Service, name: [[.Name]]}}
`)
