package deploy

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// definitions returns the definitions of kinds as controller-gen derives them from the Go types of a package.
func definitions(t *testing.T, of string, kinds ...string) (out []*unstructured.Unstructured) {
	t.Helper()
	roots, err := loader.LoadRoots(of)
	if err != nil {
		t.Fatal(err)
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		t.Fatal(err)
	}
	p := &crd.Parser{Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{}}
	crd.AddKnownTypes(p)
	for _, root := range roots {
		p.NeedPackage(root)
		for _, kind := range kinds {
			gk := schema.GroupKind{Group: p.GroupVersions[root].Group, Kind: kind}
			p.NeedCRDFor(gk, nil)
			made := p.CustomResourceDefinitions[gk]
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&made)
			if err != nil {
				t.Fatal(err)
			}
			delete(object, "status")
			out = append(out, &unstructured.Unstructured{Object: object})
		}
	}
	return out
}
