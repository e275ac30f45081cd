package ccm_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// The beginning of an Event tells the write; the request that the API server names counts if it is one of the controller's.
func TestKubeWriteOf(t *testing.T) {
	const forbidden = `x is forbidden: User "u" cannot `
	for message, want := range map[string]string{
		"Error adding finalizer: x":                                    "patch services",
		"Error updating pod readiness gates for service [shop/web]: x": "patch pods/status",
		"Error updating pod readiness gates for service [shop/web]: " + forbidden + `get resource "pods" in API group "" in the namespace`:   "get pods",
		"Error adding service hash: shop/web failed to add service hash:, error: x":                                                          "patch services/status",
		"Error updating load balancer status: x":                                                                                             "patch services/status",
		"Error removing load balancer status: timed out waiting for the condition":                                                           "patch services/status",
		"Error removing service hash: x":                                                                                                     "patch services/status",
		"Error removing load balancer finalizer: " + forbidden + `delete resource "secrets" in API group "" in the namespace "kube-system"`:  "patch services",
		"Error removing load balancer finalizer: " + forbidden + `patch resource "pods" in API group "apps" in the namespace "kube-system"`:  "patch services",
		"Error syncing load balancer []: Message: " + forbidden + `patch resource "services" in API group "" in the namespace "kube-system"`: "",
	} {
		got, ok := ccm.KubeWriteOf(message)
		if text := got.String(); ok != (want != "") || ok && text != want {
			t.Errorf("%q: got %q, %t, want %q", message, text, ok, want)
		}
	}
}
