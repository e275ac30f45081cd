package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

// openPodIdentity does what ACK's add-on ack-pod-identity-webhook does according to its documentation: in labelled namespaces,
// Pods whose ServiceAccount names a RAM role get a token for it, and the variables by which Alibaba Cloud's SDK finds both.
func openPodIdentity(ctx context.Context, dir string, kube *kubernetes.Client) (io.Closer, error) {
	pki := filepath.Join(dir, "run/pki")
	cert, err := tls.LoadX509KeyPair(filepath.Join(pki, "cloud.crt"), filepath.Join(pki, "cloud.key"))
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the webhook: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the authority of the webhook: %w", err)
	}
	at := net.JoinHostPort(address, "9443")
	listener, err := tls.Listen("tcp", at, &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		return nil, fmt.Errorf("listen as the webhook of Pods' identities: %w", err)
	}
	server := &http.Server{Handler: podIdentity(kube), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go server.Serve(listener)
	err = apply(ctx, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: ack-pod-identity-webhook}
webhooks:
- name: pod-identity.alibabacloud.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: "https://`+at+`/", caBundle: `+base64.StdEncoding.EncodeToString(ca)+`}
  namespaceSelector: {matchLabels: {pod-identity.alibabacloud.com/injection: "on"}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
`)
	return server, err
}

func podIdentity(kube *kubernetes.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		patch, err := identify(r.Context(), kube, review.Request)
		switch {
		case err != nil:
			review.Response.Allowed = false
			review.Response.Result = &metav1.Status{Message: err.Error()}
		case patch != nil:
			kind := admissionv1.PatchTypeJSONPatch
			review.Response.PatchType, review.Response.Patch = &kind, patch
		}
		review.Request = nil
		json.NewEncoder(w).Encode(review)
	}
}

func identify(ctx context.Context, kube *kubernetes.Client, r *admissionv1.AdmissionRequest) ([]byte, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(r.Object.Raw, &pod); err != nil {
		return nil, err
	}
	sa, err := kube.CoreV1().ServiceAccounts(r.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	role := sa.Annotations["pod-identity.alibabacloud.com/role-name"]
	if role == "" {
		return nil, nil
	}
	const volume, folder = "rrsa-oidc-token", "/var/run/secrets/ack.alibabacloud.com/rrsa-tokens"
	lifetime := int64(3600)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: "sts.aliyuncs.com", ExpirationSeconds: &lifetime, Path: "token",
		}}},
	}}})
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: folder, ReadOnly: true})
		c.Env = append(c.Env,
			corev1.EnvVar{Name: "ALIBABA_CLOUD_ROLE_ARN", Value: "acs:ram::" + accountID + ":role/" + role},
			corev1.EnvVar{Name: "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", Value: "acs:ram::" + accountID + ":oidc-provider/" + provider},
			corev1.EnvVar{Name: "ALIBABA_CLOUD_OIDC_TOKEN_FILE", Value: folder + "/token"})
	}
	type object = map[string]any
	return json.Marshal([]object{
		{"op": "add", "path": "/spec/volumes", "value": pod.Spec.Volumes}, {"op": "replace", "path": "/spec/containers", "value": pod.Spec.Containers},
	})
}
