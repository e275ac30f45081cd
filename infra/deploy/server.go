package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// A server is the API server of a cluster.
type server struct {
	client dynamic.Interface
	kinds  discovery.DiscoveryInterfaceWithContext
}

func connect(config *rest.Config) (*server, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // one request at a time; the server limits by itself
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the kinds of the cluster: %w", err)
	}
	return &server{client, kinds}, nil
}

// at returns what reads and applies objects of the kind, in the namespace, of this one.
func (s *server) at(mapper meta.RESTMapper, o object) (dynamic.ResourceInterface, error) {
	kind := schema.FromAPIVersionAndKind(o.text("apiVersion"), o.text("kind"))
	m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err) && kind.Group != "":
		return nil, fmt.Errorf("the cluster knows no %s of %s: install what brings it, such as Knative", kind.Kind, kind.GroupVersion())
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the cluster knows no %s of %s", kind.Kind, kind.GroupVersion())
	case err != nil:
		return nil, fmt.Errorf("find where objects of %s lie: %w", kind.GroupVersion(), err)
	case m.Scope.Name() == meta.RESTScopeNameNamespace:
		return s.client.Resource(m.Resource).Namespace(o.text("metadata", "namespace")), nil
	}
	return s.client.Resource(m.Resource), nil
}

// apply applies an object, or asks what would come of it, and returns it as it is then. A
// field that the API does not know is an error, which the client's own Apply can't ask for.
func apply(ctx context.Context, at dynamic.ResourceInterface, o object, dry, force bool) (object, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: "lbremedy-deploy", FieldValidation: metav1.FieldValidationStrict, Force: &force}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	then, err := at.Patch(ctx, o.text("metadata", "name"), types.ApplyPatchType, body, options)
	if err != nil {
		return nil, err
	}
	return then.Object, nil
}

// A change is an object that is to be made or altered, and by what it is reached.
type change struct {
	at dynamic.ResourceInterface
	o  object
}

// deploy says of each object what would change, and changes it if that is asked for.
//
// It asks about all before it changes the first. About one whose namespace or ServiceAccount
// is not there yet nobody can be asked: the API server refuses it, and so does Knative. Where
// it may change things, it makes those, then asks about the rest, and then changes the rest.
func deploy(ctx context.Context, s *server, objects []object, doIt, force bool, out io.Writer) error {
	groups, err := restmapper.GetAPIGroupResourcesWithContext(ctx, s.kinds)
	if err != nil {
		return fmt.Errorf("ask for the kinds of the cluster: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	var changes []change
	var errs []error
	missing := map[string]bool{} // what this very call makes
	asked := map[string]bool{}
	same := 0
	said := map[string]bool{} // of kinds that are not known: once for all objects of it
	for _, o := range objects {
		at, err := s.at(mapper, o)
		if err != nil {
			if !said[err.Error()] {
				said[err.Error()] = true
				errs = append(errs, fmt.Errorf("%s: %w", o, err))
			}
			continue
		}
		now, err := at.Get(ctx, o.text("metadata", "name"), metav1.GetOptions{})
		isNew := apierrors.IsNotFound(err)
		if err != nil && !isNew {
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
			continue
		}
		if isNew {
			missing[o.String()] = true
		}
		if o.waits(missing) {
			sign := "~"
			if isNew {
				sign = "+"
			}
			fmt.Fprintf(out, "%s %s\n", sign, o)
			changes = append(changes, change{at, o})
			continue
		}
		then, err := apply(ctx, at, o, true, force)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
			continue
		}
		asked[o.String()] = true
		if isNew {
			fmt.Fprintf(out, "+ %s\n", o)
			changes = append(changes, change{at, o})
			continue
		}
		lines := differ("", bare(now.Object), bare(then))
		if len(lines) == 0 {
			same++
			continue
		}
		fmt.Fprintf(out, "~ %s\n", o)
		for _, l := range lines {
			fmt.Fprintf(out, "    %s\n", l)
		}
		changes = append(changes, change{at, o})
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("nothing was changed:\n%w", err)
	}
	if !doIt {
		unasked := ""
		if n := len(changes) + same - len(asked); n > 0 {
			unasked = fmt.Sprintf(" About %d of them the cluster can be asked only when their namespace and ServiceAccount are there.", n)
		}
		fmt.Fprintf(out, "%d objects would change, %d are as they should be. Nothing was done.%s\n", len(changes), same, unasked)
		return nil
	}
	left, err := prepare(ctx, changes, missing, asked, force)
	if err != nil {
		return err
	}
	for i, c := range left {
		if _, err := apply(ctx, c.at, c.o, false, force); err != nil {
			return fmt.Errorf("%s: %w (%d of %d changes were made; call again to go on)", c.o, err, len(changes)-len(left)+i, len(changes))
		}
	}
	fmt.Fprintf(out, "%d objects changed, %d were as they should be.\n", len(changes), same)
	return nil
}

// prepare makes what others wait for until the API server has been asked about all, and
// returns the changes that are left.
func prepare(ctx context.Context, changes []change, missing, asked map[string]bool, force bool) ([]change, error) {
	made := 0
	for {
		var errs []error
		wanted := map[string]bool{}
		for _, c := range changes {
			switch {
			case asked[c.o.String()]:
			case c.o.waits(missing):
				for _, other := range c.o.needs() {
					wanted[other] = missing[other]
				}
			default:
				if _, err := apply(ctx, c.at, c.o, true, force); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", c.o, err))
				}
				asked[c.o.String()] = true
			}
		}
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("made were %d namespaces and ServiceAccounts, which stay, and nothing else was changed; call again to go on:\n%w", made, err)
		}
		if len(wanted) == 0 {
			return changes, nil
		}
		var left []change
		for _, c := range changes {
			name := c.o.String()
			if !wanted[name] || !asked[name] {
				left = append(left, c)
				continue
			}
			if _, err := apply(ctx, c.at, c.o, false, force); err != nil {
				return nil, fmt.Errorf("%s: %w (made were %d namespaces and ServiceAccounts, which stay; call again to go on)", c.o, err, made)
			}
			delete(missing, name)
			made++
		}
		changes = left
	}
}

// bare returns an object without what the API server writes into it.
func bare(o object) map[string]any {
	out := maps.Clone(map[string]any(o))
	delete(out, "status")
	meta, _ := out["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for _, k := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		delete(meta, k)
	}
	out["metadata"] = meta
	return out
}

// differ returns what differs between two values, one line each, by path.
func differ(path string, was, is any) []string {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	a, aok := was.(map[string]any)
	b, bok := is.(map[string]any)
	if aok && bok {
		keys := map[string]any{}
		maps.Copy(keys, a)
		maps.Copy(keys, b)
		var out []string
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, differ(path+"."+k, a[k], b[k])...)
		}
		return out
	}
	c, cok := was.([]any)
	d, dok := is.([]any)
	if cok && dok && len(c) == len(d) {
		var out []string
		for i := range c {
			out = append(out, differ(fmt.Sprintf("%s[%d]", path, i), c[i], d[i])...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s: %s -> %s", strings.TrimPrefix(path, "."), shown(was), shown(is))}
}

// shown returns a value as people read it.
func shown(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
