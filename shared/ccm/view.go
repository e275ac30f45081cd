// Package ccm holds what the cloud controller manager is known to do: how it finds a load
// balancer and names what it makes, which nodes and Pods it takes for backends, what a
// full sync changes, which values it takes and which RAM actions its releases call.
//
// A fact stands where it is used, with the file of the controller's source that it was
// read in (github.com/kubernetes/cloud-provider-alibaba-cloud, v2.14.0 unless it says
// otherwise). What needs to read asks a View; all else is a function of what was read.
// Nothing here plans or writes.
package ccm

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// A View is one Service with what can be read about it: the cluster and the account that
// it lives in. What a question about the whole cluster asks for needs no Service.
type View struct {
	Cluster string          // ID
	Service *corev1.Service // as it is now
	Cloud   *cloud.Reader
	Kube    *kube.Cluster
}
