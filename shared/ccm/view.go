// Package ccm describes what the cloud controller manager does: how it finds a load balancer and names what it makes, which nodes and Pods
// become backends, what a full sync changes, which values it accepts and which RAM actions its releases call. Begin with View, and with
// service.go for annotations.
//
// Each fact names the file of the controller's source (github.com/kubernetes/cloud-provider-alibaba-cloud, v2.14.0 unless another release is
// named; clbv1 and nlbv2 are in pkg/controller/service, helper is in pkg/controller). Functions that read are methods of a View; all others
// depend only on their arguments. The package never plans or writes.
package ccm

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// A View is one Service with readers of its cluster and account. Questions about the whole cluster need no Service.
type View struct {
	Cluster string          // ID
	Service *corev1.Service // as it is now
	Cloud   *cloud.Reader
	Kube    *kube.Cluster
}
