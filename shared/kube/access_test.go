package kube_test

import (
	"errors"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
)

func TestLookingBefore(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	made := makeService(t, j, ns, "web")
	admin := open(t, j.Config)
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: []string{"get"}}
	reader := open(t, j.As(t, "kube-test-looker", []rbacv1.PolicyRule{rule}))
	for _, tt := range []struct {
		c      *kube.Cluster
		review kube.Review
		want   bool
	}{
		{reader, kube.Review{Resource: "services", Verb: "get"}, true},
		{reader, kube.Review{Resource: "services", Subresource: "status", Verb: "get"}, true},
		{reader, kube.Review{Resource: "services", Verb: "patch"}, false},
		{reader, kube.Review{Group: "apps", Resource: "daemonsets", Verb: "list", Namespace: "kube-system"}, false},
		{reader, kube.Review{User: "admin", Groups: []string{"system:masters"}, Resource: "services", Verb: "patch"}, false},
		{admin, kube.Review{Resource: "services", Verb: "patch"}, true},
	} {
		if got, err := tt.c.MayI(ctx, tt.review); err != nil || got != tt.want {
			t.Errorf("%+v: %t, %v; want %t", tt.review, got, err, tt.want)
		}
	}

	if at, err := reader.Clock(ctx); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("the clock of the API server shows %v, %v", at, err)
	}
	nowhere := rest.CopyConfig(j.Config)
	nowhere.Host = "https://127.0.0.1:1"
	if at, err := open(t, nowhere).Clock(ctx); !errors.Is(err, kube.ErrUnavailable) || !at.IsZero() {
		t.Errorf("without a server: %v, %v", at, err)
	}

	value := "x"
	try := func(c *kube.Cluster, version string) error {
		_, err := kube.NewWriter(c).Dry().PatchService(ctx, ns, "web", version, kube.ServicePatch{Annotations: map[string]*string{"tried": &value}})
		return err
	}
	if err := try(admin, made.ResourceVersion); err != nil {
		t.Error(err)
	}
	if err := try(admin, "1"); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("of an old version: %v", err)
	}
	if err := try(reader, made.ResourceVersion); !errors.Is(err, kube.ErrDenied) {
		t.Errorf("of a reader: %v", err)
	}
	if got, err := admin.Service(ctx, ns, "web"); err != nil || got.ResourceVersion != made.ResourceVersion || got.Annotations["tried"] != "" {
		t.Errorf("something was written: %+v, %v", got, err)
	}
}
