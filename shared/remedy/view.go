package remedy

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
