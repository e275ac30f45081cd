package main

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// An API server confirms that the doctor's role may get the ingress controller's Deployment, and no other.
func TestOneDeployment(t *testing.T) {
	text, err := roles(holders(functions.All))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	for doc := range strings.SplitSeq(string(text), "---\n") {
		if strings.Contains(doc, "name: lbremedy-doctor\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), &role); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := kube.New(cluster.Join(t).As(t, "gen-test-doctor", role.Rules))
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) error { _, err := c.Deployment(t.Context(), ccm.IngressNamespace, name); return err }
	if err := get(ccm.IngressController); err != nil && !errors.Is(err, kube.ErrNotFound) {
		t.Error(err)
	}
	if err := get("coredns"); !errors.Is(err, kube.ErrDenied) {
		t.Errorf("another Deployment: %v", err)
	}
	of := kube.Review{Group: "apps", Resource: "deployments", Verb: "get", Namespace: ccm.IngressNamespace}
	one := of
	one.Name = ccm.IngressController
	for review, want := range map[*kube.Review]bool{&of: false, &one: true} {
		if got, err := c.MayI(t.Context(), *review); err != nil || got != want {
			t.Errorf("%+v: %t, %v; want %t", *review, got, err, want)
		}
	}
}
