package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// A server is the API server of a cluster. It is asked by plain HTTP, since objects of
// any kind go there as they stand in a file.
type server struct {
	client *http.Client
	base   *url.URL
	kinds  map[string]map[string]resource // by apiVersion and kind, as far as they were asked for
}

// A resource is where objects of a kind lie.
type resource struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
}

func connect(config *rest.Config) (*server, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the cluster: %w", err)
	}
	return &server{client: client, base: base, kinds: map[string]map[string]resource{}}, nil
}

// A refusal is what the API server says against a request.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

// is reports whether an error is a refusal with the code.
func is(err error, code int) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == code
}

// ask makes a request and decodes the answer.
func (s *server) ask(ctx context.Context, method, path string, query url.Values, body []byte, answer any) error {
	u := s.base.JoinPath(path)
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	reply, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	if reply.StatusCode >= 300 {
		var status struct{ Message string }
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = reply.Status
		}
		return &refusal{reply.StatusCode, status.Message}
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	return nil
}

// path returns where an object lies.
func (s *server) path(ctx context.Context, o object) (string, error) {
	version := o.text("apiVersion")
	under := "/apis/" + version
	if !strings.Contains(version, "/") {
		under = "/api/" + version
	}
	if s.kinds[version] == nil {
		var list struct{ Resources []resource }
		err := s.ask(ctx, http.MethodGet, under, nil, nil, &list)
		switch {
		case is(err, http.StatusNotFound):
			return "", fmt.Errorf("the cluster does not know %s: install what brings it, such as Knative", version)
		case err != nil:
			return "", fmt.Errorf("ask for the kinds of %s: %w", version, err)
		}
		s.kinds[version] = map[string]resource{}
		for _, r := range list.Resources {
			if !strings.Contains(r.Name, "/") {
				s.kinds[version][r.Kind] = r
			}
		}
	}
	r, ok := s.kinds[version][o.text("kind")]
	if !ok {
		return "", fmt.Errorf("the cluster knows no %s in %s", o.text("kind"), version)
	}
	if r.Namespaced {
		under += "/namespaces/" + o.text("metadata", "namespace")
	}
	return under + "/" + r.Name + "/" + o.text("metadata", "name"), nil
}

// apply applies an object, or asks what would come of it, and returns it as it is then.
func (s *server) apply(ctx context.Context, path string, o object, dry, force bool) (object, error) {
	query := url.Values{"fieldManager": {"lbremedy-deploy"}, "fieldValidation": {"Strict"}}
	if dry {
		query.Set("dryRun", "All")
	}
	if force {
		query.Set("force", "true")
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var then object
	if err := s.ask(ctx, http.MethodPatch, path, query, body, &then); err != nil {
		return nil, err
	}
	return then, nil
}

// deploy says of each object what would change, and changes it if that is asked for.
// It asks about all before it changes the first.
func deploy(ctx context.Context, s *server, objects []object, doIt, force bool, out io.Writer) error {
	type change struct {
		path string
		o    object
	}
	var changes []change
	var errs []error
	made := map[string]bool{} // namespaces that this very call makes
	same := 0
	said := map[string]bool{} // of kinds that are not known: once for all objects of it
	for _, o := range objects {
		path, err := s.path(ctx, o)
		if err != nil {
			if !said[err.Error()] {
				said[err.Error()] = true
				errs = append(errs, fmt.Errorf("%s: %w", o, err))
			}
			continue
		}
		var now object
		err = s.ask(ctx, http.MethodGet, path, nil, nil, &now)
		isNew := is(err, http.StatusNotFound)
		if err != nil && !isNew {
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
			continue
		}
		if isNew && made[o.text("metadata", "namespace")] {
			fmt.Fprintf(out, "+ %s\n", o) // nobody can be asked before the namespace is there
			changes = append(changes, change{path, o})
			continue
		}
		then, err := s.apply(ctx, path, o, true, force)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
			continue
		}
		if isNew {
			if o.text("kind") == "Namespace" {
				made[o.text("metadata", "name")] = true
			}
			fmt.Fprintf(out, "+ %s\n", o)
			changes = append(changes, change{path, o})
			continue
		}
		lines := differ("", bare(now), bare(then))
		if len(lines) == 0 {
			same++
			continue
		}
		fmt.Fprintf(out, "~ %s\n", o)
		for _, l := range lines {
			fmt.Fprintf(out, "    %s\n", l)
		}
		changes = append(changes, change{path, o})
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("nothing was changed:\n%w", err)
	}
	if !doIt {
		fmt.Fprintf(out, "%d objects would change, %d are as they should be. Nothing was done.\n", len(changes), same)
		return nil
	}
	for i, c := range changes {
		if _, err := s.apply(ctx, c.path, c.o, false, force); err != nil {
			return fmt.Errorf("%s: %w (%d of %d changes were made; call again to go on)", c.o, err, i, len(changes))
		}
	}
	fmt.Fprintf(out, "%d objects changed, %d were as they should be.\n", len(changes), same)
	return nil
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
