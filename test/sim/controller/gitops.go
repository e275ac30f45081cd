package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

// GitOps is an actor that enforces manifests: it reverts changes as soon as it sees them. Kube and Want are required.
type GitOps struct {
	Kube *rest.Config

	// Want are the manifests, with namespace and name. Only their annotations and spec count.
	Want []*corev1.Service

	// Strict removes load balancer annotations that the manifest lacks, like an actor that once owned them.
	Strict bool

	Log *slog.Logger // nil: none
}

// Run enforces the manifests until ctx ends, and then returns nil. It returns an error if the cluster cannot be read.
func (g GitOps) Run(ctx context.Context) error {
	config := rest.CopyConfig(g.Kube)
	config.UserAgent, config.QPS = "gitops", -1
	kube, err := kubernetes.New(config)
	if err != nil {
		return fmt.Errorf("run GitOps actor: %w", err)
	}
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	want := map[cache.ObjectName]*corev1.Service{}
	informers := map[string]*kubernetes.Informers{}
	for _, svc := range g.Want {
		want[cache.MetaObjectToName(svc)] = svc
		informers[svc.Namespace] = kube.Informers(svc.Namespace, "")
	}
	see := func(o any) {
		svc := o.(*corev1.Service)
		if m := want[cache.MetaObjectToName(svc)]; m != nil {
			g.putBack(ctx, kube, m, svc)
		}
	}
	for _, i := range informers {
		h := cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }}
		if _, err := i.Services().AddEventHandler(h); err != nil {
			return fmt.Errorf("run GitOps actor: %w", err)
		}
		i.Start(ctx)
	}
	<-ctx.Done()
	for _, i := range informers {
		i.Wait()
	}
	return nil
}

func (g GitOps) putBack(ctx context.Context, kube *kubernetes.Client, manifest, svc *corev1.Service) {
	annotations := map[string]any{}
	for k, v := range manifest.Annotations {
		if now, ok := svc.Annotations[k]; !ok || now != v {
			annotations[k] = v
		}
	}
	for k := range svc.Annotations {
		ours := strings.HasPrefix(k, prefix) || strings.HasPrefix(k, legacyPrefix)
		if _, ok := manifest.Annotations[k]; g.Strict && ours && !ok {
			annotations[k] = nil
		}
	}
	change := map[string]any{}
	if len(annotations) > 0 {
		change["metadata"] = map[string]any{"annotations": annotations}
	}
	if spec, ok := plain(manifest.Spec).(map[string]any); ok && !holds(plain(svc.Spec), spec) {
		change["spec"] = spec
	}
	if len(change) == 0 || svc.DeletionTimestamp != nil {
		return
	}
	patch, err := json.Marshal(change)
	if err == nil {
		_, err = kube.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "gitops"})
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		g.Log.Error("put back", "namespace", svc.Namespace, "service", svc.Name, "error", err)
	}
}

func plain(part any) any {
	b, err := json.Marshal(part)
	if err != nil {
		panic("controller: a Service that cannot be written: " + err.Error())
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		panic("controller: a Service that cannot be read: " + err.Error())
	}
	return withoutEmpty(v)
}

// holds reports whether whole contains part. Lists are compared by index.
func holds(whole, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		for k, v := range part {
			ok = ok && holds(w[k], v)
		}
		return ok
	case []any:
		w, ok := whole.([]any)
		ok = ok && len(w) == len(part)
		for i, v := range part {
			ok = ok && holds(w[i], v)
		}
		return ok
	}
	return whole == part
}
