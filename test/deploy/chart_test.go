package deploy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	servingconfig "knative.dev/serving/pkg/apis/config"
	"sigs.k8s.io/yaml"
)

func render(values map[string]any, namespace string) (map[string]string, error) {
	chart, err := loader.Load(filepath.Join(root, "infra/cluster"))
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "lbremedy", Namespace: namespace, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.RenderWithContext(context.Background(), chart, all)
}

func objects(t *testing.T, values map[string]any, namespace string) []*unstructured.Unstructured {
	t.Helper()
	files, err := render(values, namespace)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for _, doc := range documents([]byte(files[name])) {
			o := new(unstructured.Unstructured)
			if err := strict(doc, &o.Object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			id := strings.Join([]string{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
			if seen[id] {
				t.Errorf("%s: %s is there twice", name, id)
			}
			seen[id] = true
			out = append(out, o)
		}
	}
	return out
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestChart: a real API server accepts the chart's objects for several values, under the strictest Pod security standard.
func TestChart(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files of values, %v", len(files), err)
	}
	c := join(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			namespace := c.namespace(t)
			apply := func(o *unstructured.Unstructured) error { return c.dryRun(t.Context(), o) }
			taken, elsewhere := 0, map[string]int{}
			for _, o := range objects(t, readValues(t, file), namespace) {
				what := o.GetKind() + " " + o.GetName()
				text, err := yaml.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				known, err := checkKnative(text)
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				spec, isPod := podOf(o)
				if isPod {
					if err := apply(pod(namespace, spec)); err != nil {
						t.Errorf("a Pod of %s: %v", what, err)
					}
				}
				if known || o.GroupVersionKind().Group == "monitoring.coreos.com" {
					elsewhere[o.GetKind()]++
					continue
				}
				if err := apply(o); err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				taken++
			}
			if taken < 10 {
				t.Errorf("the API server took %d objects, want more", taken)
			}
			t.Logf("the API server took %d objects; of other kinds were %v", taken, elsewhere)
		})
	}

	// Invalid objects are rejected, which shows that accepting means something.
	t.Run("wrong", func(t *testing.T) {
		namespace := c.namespace(t)
		all := objects(t, readValues(t, "testdata/up.yaml"), namespace)
		i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
		for name, wrong := range map[string]func(map[string]any){
			"unknown field": func(o map[string]any) { o["spec"].(map[string]any)["replica"] = int64(1) },
			"other selector": func(o map[string]any) {
				o["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
			},
		} {
			o := all[i].DeepCopy()
			wrong(o.Object)
			if err := c.dryRun(t.Context(), o); err == nil {
				t.Errorf("%s: it was taken", name)
			}
		}
		spec, _ := podOf(all[i])
		delete(spec, "securityContext")
		if err := c.dryRun(t.Context(), pod(namespace, spec)); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
			t.Errorf("a Pod that may run as root: got %v", err)
		}
	})
}

// TestIdentities: a real API server accepts the cluster identities of functions on Function Compute.
func TestIdentities(t *testing.T) {
	c := join(t)
	namespace := c.namespace(t)
	for _, doc := range documents(manifest(t, "infra/fc/identities.yaml")) {
		o := new(unstructured.Unstructured)
		if err := strict(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.GetNamespace() != "" {
			o.SetNamespace(namespace)
		}
		if err := c.dryRun(t.Context(), o); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// TestIdentitiesBesideChart: step 7 of the Function Compute page applies no object that the chart can also create: Helm would
// reject objects that it did not create, or lose parts of its own.
func TestIdentitiesBesideChart(t *testing.T) {
	roles := regexp.MustCompile(`(?m)^roles\(\) .*$`).Find(manifest(t, "infra/fc/README.md"))
	shell := exec.Command("sh", "-c", string(roles)+"\nroles")
	shell.Dir = root
	applied, err := shell.Output()
	if err != nil {
		t.Fatalf("%s: %v", roles, err)
	}
	key := func(kind, name string) string { return kind + " " + name }
	made, bound := map[string]bool{}, map[string]bool{}
	for _, doc := range slices.Concat(documents(applied), documents(manifest(t, "infra/fc/identities.yaml"))) {
		o := new(unstructured.Unstructured)
		if err := strict(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		made[key(o.GetKind(), o.GetName())] = true
		if role, ok, _ := unstructured.NestedString(o.Object, "roleRef", "name"); ok {
			bound[role] = true
		}
	}
	if len(bound) < 30 {
		t.Errorf("%d roles are bound", len(bound))
	}
	for role := range bound {
		if !made[key("ClusterRole", role)] {
			t.Errorf("the ClusterRole %s is bound, and nobody makes it", role)
		}
	}
	var on map[string]any
	if err := yaml.Unmarshal([]byte("{console: {enabled: true}, probe: {enabled: true}, rbac: {chat: true}}"), &on); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, loader.MergeMaps(readValues(t, "testdata/fc.yaml"), on), "lbremedy") {
		if made[key(o.GetKind(), o.GetName())] {
			t.Errorf("the chart makes the %s %s, too", o.GetKind(), o.GetName())
		}
	}
}

// A server is the sandbox's API server. Tests write only namespaces and otherwise use dry runs, so they do not disturb other tests.
type server struct {
	config  *rest.Config
	mapper  meta.RESTMapper
	dynamic dynamic.Interface
}

func join(t *testing.T) *server {
	t.Helper()
	file, _, _ := strings.Cut(os.Getenv("LBREMEDY_SANDBOX"), string(filepath.ListSeparator))
	if file == "" {
		t.Fatal("LBREMEDY_SANDBOX names no API server: run these tests with bin/sandbox run -- go test ./..., as make test does")
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := restmapper.GetAPIGroupResources(discovered)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{config: config, mapper: restmapper.NewDiscoveryRESTMapper(found), dynamic: objects}
}

func (c *server) namespace(t *testing.T) string {
	t.Helper()
	name := "t-" + strings.ToLower(rand.Text()[:10])
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"},
	}}}
	if _, err := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
		Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return name
}

func (c *server) dryRun(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "lbremedy-test", FieldValidation: metav1.FieldValidationStrict,
		Force: new(true)}
	resource := c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		_, err = resource.Patch(ctx, o.GetName(), types.ApplyPatchType, data, options)
		return err
	}
	if o.GetNamespace() == "" {
		return fmt.Errorf("it names no namespace")
	}
	_, err = resource.Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, data, options)
	return err
}

func podOf(o *unstructured.Unstructured) (map[string]any, bool) {
	if o.GetKind() != "Deployment" && o.GroupVersionKind().Group != "serving.knative.dev" {
		return nil, false
	}
	spec, ok, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	return spec, ok && err == nil
}

// pod returns a Pod with a spec, without the fields that only Knative knows.
func pod(namespace string, spec map[string]any) *unstructured.Unstructured {
	spec = runtime.DeepCopyJSON(spec)
	delete(spec, "containerConcurrency")
	delete(spec, "timeoutSeconds")
	delete(spec, "responseStartTimeoutSeconds")
	for _, container := range spec["containers"].([]any) {
		for _, probe := range []string{"readinessProbe", "livenessProbe"} {
			if p, ok := container.(map[string]any)[probe].(map[string]any); ok {
				get := p["httpGet"].(map[string]any)
				if get["port"] == nil {
					get["port"] = int64(8080) // Knative sets it, except for startup probes
				}
			}
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "one", "namespace": namespace}, "spec": spec,
	}}
}

func TestValues(t *testing.T) {
	for name, tt := range map[string]struct{ base, values, want string }{
		"unknown value":     {"up", "{modes: up}", "modes"},
		"unknown below":     {"up", "{up: {replica: 2}}", "replica"},
		"other functions":   {"up", "{functions: openfaas}", "functions"},
		"a courier":         {"up", "{mode: courier}", "mode"},
		"no cluster":        {"up", "{cluster: ''}", "cluster"},
		"no registry":       {"up", "{image: {registry: ''}}", "image.registry"},
		"no tag":            {"up", "{image: {tag: ''}}", "image.tag"},
		"a missing digest":  {"knative", "{image: {tag: '', digests: {exporter: 'sha256:" + strings.Repeat("0", 64) + "'}}}", "image.tag"},
		"bad digest":        {"up", "{image: {digests: {lbremedy: latest}}}", "digests"},
		"bad namespace":     {"up", "{rbac: {namespaces: [Shop]}}", "namespaces"},
		"no replica":        {"fc", "{up: {replicas: 0}}", "replicas"},
		"several on a disk": {"up", "{up: {replicas: 2}}", "up.replicas: several need a NATS that they share"},
		"no NATS":           {"fc", "{nats: {url: ''}}", "up.replicas"},
		"other NATS":        {"fc", "{nats: {url: 'http://nats'}}", "url"},
		"no routes":         {"up", "{functions: fc}", "routes: say where the functions are"},
		"another's routes":  {"knative", "{routes: {default: {url: 'http://a'}}}", "routes: the chart writes them itself unless functions is fc"},
		"unused routes":     {"up", "{routes: {default: {url: 'http://a'}}}", "routes: the chart writes them itself unless functions is fc"},
		"a route's field":   {"fc", "{routes: {routes: {busy: {url: 'http://a', auth: {fc: true}}}}}", "auth"},
		"no keys":           {"knative", "{knative: {engineKeys: []}}", "knative.engineKeys: name the public key"},
		"a secret as key":   {"knative", "{knative: {engineKeys: ['-----BEGIN PRIVATE KEY-----']}}", "engineKeys"},
		"no Secret":         {"knative", "{engineKey: {secret: ''}}", "secret"},
		"no account":        {"up", "{rrsa: {provider: 'acs:ram::1:oidc-provider/x'}}", "rrsa.account"},
		"no CIDR":           {"up", "{networkPolicy: {openAPI: {cidrs: [anywhere]}}}", "cidrs"},
		"no CIDR of NATS":   {"up", "{networkPolicy: {nats: {cidrs: [nats.example.com]}}}", "cidrs"},
		"no writers":        {"up", "{rbac: {eventWriters: {mode: Deny}}}", "rbac.eventWriters"},
		"other writers":     {"up", "{rbac: {eventWriters: {mode: Refuse, users: [ccm]}}}", "mode"},
		"no user":           {"up", "{rbac: {eventWriters: {mode: Warn, users: ['']}}}", "users"},
		"a bad account":     {"up", "{rbac: {eventWriters: {mode: Warn, serviceAccounts: [ccm]}}}", "serviceAccounts"},
		"no guard's mode":   {"up", "{guard: refuse}", "guard"},
		"no exception":      {"up", "{guardExcept: [Shop]}", "guardExcept"},
		"no size":           {"up", "{nats: {streams: {journal: {size: much}}}}", "size"},
		"a small size":      {"up", "{nats: {streams: {journal: {size: 63Ki}}}}", "size"},
		"an age of zero":    {"up", "{nats: {streams: {journal: {age: 0d}}}}", "age"},
		"no age":            {"up", "{nats: {streams: {dead: {age: '30'}}}}", "age"},
		"no such stream":    {"up", "{nats: {streams: {cases: {size: 1Gi}}}}", "cases"},
		"no rate":           {"up", "{up: {budget: {rate: 0}}}", "rate"},
		"other interval":    {"up", "{doctor: {every: hourly}}", "every"},
		"too often":         {"up", "{doctor: {every: 4m}}", "every"},
		"probed too often":  {"up", "{probe: {every: 2m}}", "every"},
		"no memory":         {"up", "{console: {resources: {limits: {memory: much}}}}", "memory"},
		"no memory of up":   {"up", "{up: {resources: {limits: {memory: 1 Gi}}}}", "memory"},
		"no policy's mode":  {"up", "{policy: {mode: fixx}}", "mode"},
		"no policy's risk":  {"fc", "{policy: {mode: fix, risk: lowish}}", "risk"},
		"no policy's rule":  {"up", "{policy: {rules: [{namespace: [a], mode: fix}]}}", "namespace"},
		"no such class":     {"up", "{policy: {classes: {tag-mising: {mode: fix}}}}", "tag-mising"},
		"no such sink":      {"up", "{policy: {tell: [{name: e, kind: pager}]}}", "kind"},
		"no share":          {"up", "{policy: {budgets: {share: 120%}}}", "share"},
		"no freeze":         {"up", "{policy: {freezes: [{name: a, from: '9', until: '10:00'}]}}", "from"},
		"tokens in clear":   {"up", "{console: {enabled: true, url: 'http://lbremedy.example.com'}}", "url"},
		"another loopback":  {"up", "{console: {enabled: true, url: 'http://localhost:8383'}}", "url"},
		"a console's path":  {"up", "{console: {enabled: true, url: 'https://example.com/lbremedy'}}", "url"},
		"a post in clear":   {"up", "{eventBridge: {url: 'http://lbremedy.example.com/events'}}", "url"},
		"no class of ours":  {"chosen", "{knative: {classes: [tag-mising]}}", "knative.classes: there is no class tag-mising"},
		"two authorities":   {"chosen", "{certificateAuthorities: {secret: ca}}", "certificateAuthorities"},
		"no mount path":     {"chosen", "{up: {volumeMounts: [{name: more}]}}", "mountPath"},
		"other annotation":  {"knative", "{knative: {scaling: {min-scale: '0'}}}", "scaling"},
	} {
		t.Run(name, func(t *testing.T) {
			values := readValues(t, "testdata/"+tt.base+".yaml")
			var more map[string]any
			if err := yaml.Unmarshal([]byte(tt.values), &more); err != nil {
				t.Fatal(err)
			}
			if _, err := render(loader.MergeMaps(values, more), "lbremedy"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPages: the chart accepts the values and policies on the installation pages, with variables replaced by the pages' values.
func TestPages(t *testing.T) {
	var (
		export = regexp.MustCompile(`(?m)^export ([A-Z_]+)=(\S+)`)
		file   = regexp.MustCompile(`(?ms)^cat >(values|policy)\.yaml <<'?EOF'?\n(.*?)^EOF$`)
	)
	for page, account := range map[string]string{"cluster": "lbremedy-up", "knative": "lbremedy-engine", "fc": "lbremedy-engine"} {
		text, err := os.ReadFile(filepath.Join(root, "infra", page, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		set := map[string]string{}
		expand := func(s string) string { return os.Expand(s, func(name string) string { return set[name] }) }
		for _, m := range export.FindAllStringSubmatch(string(text), -1) {
			set[m[1]] = expand(m[2])
		}
		values := map[string]any{}
		for _, m := range file.FindAllStringSubmatch(string(text), -1) {
			into := &values
			if m[1] == "policy" {
				into = &map[string]any{}
				values["policy"] = into
			}
			if err := yaml.UnmarshalStrict([]byte(expand(m[2])), into); err != nil {
				t.Fatalf("%s: %s.yaml: %v", page, m[1], err)
			}
		}
		if values["policy"] == nil || values["image"] == nil {
			t.Fatalf("%s: the page writes %v", page, values)
		}
		values["policy"] = *values["policy"].(*map[string]any)
		values["image"].(map[string]any)["tag"] = "v1" // from digests.yaml
		if !slices.ContainsFunc(objects(t, values, "lbremedy"), func(o *unstructured.Unstructured) bool {
			spec, ok := podOf(o)
			return ok && o.GetKind() == "Deployment" && spec["serviceAccountName"] == account
		}) {
			t.Errorf("%s: the chart makes nothing that runs as %s of the page's values", page, account)
		}
	}
}

// TestSTS: all programs call STS inside the region's VPC, unless the values say otherwise.
func TestSTS(t *testing.T) {
	for _, file := range []string{"up", "knative"} {
		for _, vpc := range []bool{true, false} {
			values := readValues(t, "testdata/"+file+".yaml")
			values["cloud"] = map[string]any{"vpc": vpc}
			all := objects(t, values, "lbremedy")
			i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
				return o.GetKind() == "ConfigMap" && o.GetName() == "lbremedy"
			})
			data, _, _ := unstructured.NestedStringMap(all[i].Object, "data")
			enabled, region := data["ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED"], data["ALIBABA_CLOUD_STS_REGION"]
			if (enabled == "true") != vpc || (region == "cn-hangzhou") != vpc {
				t.Errorf("%s, inside the VPC %v: %v", file, vpc, data)
			}
			for _, o := range all {
				spec, ok := podOf(o)
				if !ok {
					continue
				}
				for _, c := range spec["containers"].([]any) {
					if text, err := json.Marshal(c); err != nil || !bytes.Contains(text, []byte(`"envFrom":[{"configMapRef":{"name":"lbremedy"}}]`)) {
						t.Errorf("%s: %s is not told: %s, %v", file, o.GetName(), text, err)
					}
				}
			}
		}
	}
}

// TestChosen: each program and function has the values' variables, volumes, certificate authorities and Secrets, and only the
// chosen classes: a class without a function has neither rights nor a route.
func TestChosen(t *testing.T) {
	chosen := readValues(t, "testdata/chosen.yaml")
	one := readValues(t, "testdata/up.yaml")
	one["up"], one["certificateAuthorities"] = chosen["up"], map[string]any{"secret": "company-ca"}
	for name, tt := range map[string]struct {
		values map[string]any
		pods   []string
	}{
		"chosen":  {chosen, []string{"busy", "console", "tag-missing", "up"}},
		"one Pod": {one, []string{"up"}},
	} {
		var pods []string
		for _, o := range objects(t, tt.values, "lbremedy") {
			for _, class := range []string{"quota", "zone-shortage"} {
				if strings.HasPrefix(o.GetName(), "lbremedy-"+class) {
					t.Errorf("%s: %s %s is of a class that was not chosen", name, o.GetKind(), o.GetName())
				}
			}
			if routes, ok, _ := unstructured.NestedString(o.Object, "data", "routes.yaml"); ok &&
				(strings.Contains(routes, "default:") || strings.Count(routes, "url:") != 2 || !strings.Contains(routes, "tag-missing: {url:")) {
				t.Errorf("%s: the routes are\n%s", name, routes)
			}
			spec, ok := podOf(o)
			if !ok {
				continue
			}
			pods = append(pods, strings.TrimPrefix(o.GetName(), "lbremedy-"))
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			wants := []string{`{"name":"SSL_CERT_DIR","value":"/var/run/lbremedy-authorities"}`, `"mountPath":"/var/run/lbremedy-authorities"`, `"company-ca"`,
				`"HTTPS_PROXY"`, `"mountPath":"/etc/more"`, `{"configMap":{"name":"more"},"name":"more"}`}
			if o.GetName() == "lbremedy-console" {
				wants = wants[:3]
			}
			function := o.GetKind() != "Deployment"
			if name != "one Pod" {
				wants = append(wants, `"imagePullSecrets":[{"name":"pull"}]`)
			}
			if name != "one Pod" && !function {
				wants = append(wants, `"name":"seed-of-`, `"name":"nats-authority"`, `{"name":"LBREMEDY_NATS","value":"tls://nats.lbremedy.svc:4222"}`)
			}
			if name != "one Pod" && o.GetName() == "lbremedy-up" {
				wants = append(wants, `"--routes=/etc/lbremedy/routes.yaml"`, `"secret":{"items":[{"key":"private.pem","path":"engine.pem"}],"secretName":"my-engine"}`)
			}
			if function && (bytes.Contains(text, []byte("NATS")) || bytes.Contains(text, []byte(`"secret`))) {
				t.Errorf("%s: the function %s has a secret:\n%s", name, o.GetName(), text)
			}
			for _, want := range wants {
				if !bytes.Contains(text, []byte(want)) {
					t.Errorf("%s: %s lacks %s:\n%s", name, o.GetName(), want, text)
				}
			}
		}
		if slices.Sort(pods); !slices.Equal(pods, tt.pods) {
			t.Errorf("%s: there are %v, want %v", name, pods, tt.pods)
		}
	}
}

// TestProbes: a ready Pod is probed within two seconds, and a starting one is not killed.
func TestProbes(t *testing.T) {
	checked := 0
	for _, file := range []string{"up-console", "knative", "limited"} {
		for _, o := range objects(t, readValues(t, "testdata/"+file+".yaml"), "lbremedy") {
			spec, ok := podOf(o)
			if !ok {
				continue
			}
			for _, c := range spec["containers"].([]any) {
				var probes struct {
					Startup, Readiness, Liveness struct {
						HTTPGet                         struct{ Path string }
						PeriodSeconds, FailureThreshold int
					}
				}
				text, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(`Probe":`), []byte(`":`)), &probes); err != nil {
					t.Fatal(err)
				}
				start, ready := probes.Startup, probes.Readiness
				if start.PeriodSeconds*start.FailureThreshold < 300 || start.PeriodSeconds > 1 || start.HTTPGet.Path != probes.Liveness.HTTPGet.Path ||
					ready.PeriodSeconds < 1 || ready.PeriodSeconds > 2 {
					t.Errorf("%s: the probes of %s are %+v", file, o.GetName(), probes)
				}
				checked++
			}
		}
	}
	if checked < 70 {
		t.Errorf("%d containers were looked at", checked)
	}
}

// TestInitialScale: functions start with zero instances if the values say so and Knative allows it, which is not its default.
func TestInitialScale(t *testing.T) {
	allows := servingconfig.FromContextOrDefaults(t.Context())
	scaler := *allows.Autoscaler
	scaler.AllowZeroInitialScale = true
	allows.Autoscaler = &scaler
	values := readValues(t, "testdata/knative.yaml")
	values["knative"].(map[string]any)["scaling"] = map[string]any{"autoscaling.knative.dev/initial-scale": "0"}
	functions := 0
	for _, o := range objects(t, values, "lbremedy") {
		if o.GroupVersionKind().Group != "serving.knative.dev" {
			continue
		}
		functions++
		scaling, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
		if scaling["autoscaling.knative.dev/initial-scale"] != "0" || scaling["autoscaling.knative.dev/min-scale"] != "0" {
			t.Errorf("%s scales by %v", o.GetName(), scaling)
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := checkKnative(text); err == nil || !strings.Contains(err.Error(), "initial-scale=0 not allowed by cluster") {
			t.Errorf("%s without leave: %v", o.GetName(), err)
		}
		if _, err := checkKnativeIn(servingconfig.ToContext(t.Context(), allows), text); err != nil {
			t.Errorf("%s: %v", o.GetName(), err)
		}
	}
	if functions < 30 {
		t.Errorf("there are %d functions", functions)
	}
}

func TestLeast(t *testing.T) {
	for _, text := range []string{"{doctor: {every: 5m}}", "{doctor: {every: 1h0m}}", "{doctor: {every: 10m}}", "{probe: {every: 3m}}", "{probe: {every: 2h}}",
		"{nats: {streams: {dead: {size: 64Ki, age: 1h}, journal: {size: 100Ki}, failures: {size: 1Mi}}}}"} {
		var more map[string]any
		if err := yaml.Unmarshal([]byte(text), &more); err != nil {
			t.Fatal(err)
		}
		if _, err := render(loader.MergeMaps(readValues(t, "testdata/up.yaml"), more), "lbremedy"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestStreams: up gets exactly the sizes and ages of streams in the values.
func TestStreams(t *testing.T) {
	args := func(more string) []string {
		t.Helper()
		values := readValues(t, "testdata/up.yaml")
		var with map[string]any
		if err := yaml.Unmarshal([]byte(more), &with); err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, loader.MergeMaps(values, with), "lbremedy") {
			if o.GetKind() != "Deployment" || o.GetName() != "lbremedy-up" {
				continue
			}
			var rooms []string
			spec, _ := podOf(o)
			for _, arg := range spec["containers"].([]any)[0].(map[string]any)["args"].([]any) {
				if text := arg.(string); strings.Contains(text, "-size=") || strings.Contains(text, "-age=") {
					rooms = append(rooms, text)
				}
			}
			return rooms
		}
		t.Fatal("there is no up")
		return nil
	}
	if got := args("{}"); len(got) > 0 {
		t.Errorf("by default up is told %q", got)
	}
	want := []string{"--dead-age=12h", "--failures-size=512Mi", "--journal-size=4Gi", "--journal-age=90d"}
	if diff := cmp.Diff(want, args("{nats: {streams: {journal: {size: 4Gi, age: 90d}, failures: {size: 512Mi}, dead: {age: 12h}}}}")); diff != "" {
		t.Error(diff)
	}
}

// TestMemory: GOMEMLIMIT follows each program's memory limit, which is larger for one Pod with the doctor; explicit values win.
func TestMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		base, values string
		want         map[string]string // limit and GOMEMLIMIT by Deployment or Knative Service, and container
	}{
		"one Pod":      {"up", "{console: {enabled: true}}", map[string]string{"lbremedy-up/up": "256Mi 200MiB", "lbremedy-up/console": "384Mi 320MiB"}},
		"doctor":       {"up", "{doctor: {enabled: true}}", map[string]string{"lbremedy-up/up": "512Mi 400MiB"}},
		"limit":        {"up", "{doctor: {enabled: true}, up: {resources: {limits: {memory: 1.5Gi}}}}", map[string]string{"lbremedy-up/up": "1.5Gi 1201MiB"}},
		"default kept": {"up", "{up: {resources: {limits: {cpu: 2}}}}", map[string]string{"lbremedy-up/up": "256Mi 200MiB"}},
		"bytes":        {"up", "{up: {resources: {limits: {memory: 536870912}}}}", map[string]string{"lbremedy-up/up": "536870912 400MiB"}},
		"no limit":     {"up", "{up: {resources: {limits: {memory: null}}}}", map[string]string{"lbremedy-up/up": "- -"}},
		"by hand":      {"up", "{up: {env: [{name: GOMEMLIMIT, value: 100MiB}]}}", map[string]string{"lbremedy-up/up": "256Mi 100MiB"}},
		"programs":     {"fc", "{console: {enabled: true}}", map[string]string{"lbremedy-up/up": "256Mi 200MiB", "lbremedy-console/console": "384Mi 320MiB"}},
		"functions":    {"knative", "{knative: {resources: {limits: {memory: 192Mi}}}}", map[string]string{"lbremedy-busy/function": "192Mi 160MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			var more map[string]any
			if err := yaml.Unmarshal([]byte(tt.values), &more); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, o := range objects(t, loader.MergeMaps(readValues(t, "testdata/"+tt.base+".yaml"), more), "lbremedy") {
				spec, ok := podOf(o)
				if !ok {
					continue
				}
				for _, one := range spec["containers"].([]any) {
					container := one.(map[string]any)
					heap := "-"
					for _, v := range container["env"].([]any) {
						if v := v.(map[string]any); v["name"] == "GOMEMLIMIT" {
							heap = fmt.Sprint(v["value"])
						}
					}
					limit, found, err := unstructured.NestedFieldNoCopy(container, "resources", "limits", "memory")
					if err != nil || !found {
						limit = "-"
					}
					got[o.GetName()+"/"+container["name"].(string)] = fmt.Sprint(limit, " ", heap)
				}
			}
			for what, want := range tt.want {
				if got[what] != want {
					t.Errorf("%s has %q, want %q", what, got[what], want)
				}
			}
		})
	}
}

// TestNotes: Helm's notes never call a policy harmless that may write.
func TestNotes(t *testing.T) {
	for name, tt := range map[string]struct{ values, want string }{
		"nothing is written": {"{}", "It observes: it says what it would do, and writes nothing."},
		"a NATS outside":     {"{nats: {url: 'nats://nats:4222'}}", "It observes: it says what it would do, and writes nothing."},
		"a rule that fixes":  {"{policy: {mode: observe, rules: [{namespaces: [sandbox], mode: fix}]}}", "The policy of the values is in force: "},
		"both":               {"{nats: {url: 'nats://nats:4222'}, policy: {rules: [{namespaces: [sandbox], mode: fix}]}}", "The policy of the values is in force: "},
		"functions":          {"{functions: fc, routes: {routes: {busy: {url: 'http://a'}}}, policy: {mode: fix}}", "Functions read and write for some classes."},
	} {
		t.Run(name, func(t *testing.T) {
			var more map[string]any
			if err := yaml.Unmarshal([]byte(tt.values), &more); err != nil {
				t.Fatal(err)
			}
			files, err := render(loader.MergeMaps(readValues(t, "testdata/up.yaml"), more), "lbremedy")
			if err != nil {
				t.Fatal(err)
			}
			says := files["lbremedy/templates/NOTES.txt"]
			if !strings.Contains(says, tt.want) || strings.Contains(says, `"observe" is its mode`) ||
				strings.Contains(says, "It observes") != strings.HasPrefix(tt.want, "It observes") {
				t.Errorf("it says %s", says)
			}
		})
	}
}

// TestEventWriters: the values determine who may write Events in the controller's name; without them, nothing is created.
func TestEventWriters(t *testing.T) {
	find := func(file string) map[string]map[string]any {
		found := map[string]map[string]any{}
		for _, o := range objects(t, readValues(t, file), "lbremedy") {
			if o.GetName() == "lbremedy-event-writers" {
				found[o.GetKind()] = o.Object
			}
		}
		return found
	}
	if found := find("testdata/up.yaml"); len(found) > 0 {
		t.Errorf("by default there are %v", slices.Sorted(maps.Keys(found)))
	}
	for file, want := range map[string][]any{"testdata/up-shared.yaml": {"Deny"}, "testdata/fc.yaml": {"Warn", "Audit"}} {
		found := find(file)
		if len(found) != 2 {
			t.Fatalf("%s: there are %v", file, slices.Sorted(maps.Keys(found)))
		}
		variables := []any{
			map[string]any{"name": "users", "expression": `["ccm","it's \"me\"","system:serviceaccount:kube-system:cloud-controller-manager"]`},
			map[string]any{"name": "groups", "expression": `["controllers"]`},
		}
		if diff := cmp.Diff(variables, found["ValidatingAdmissionPolicy"]["spec"].(map[string]any)["variables"]); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		spec := found["ValidatingAdmissionPolicyBinding"]["spec"].(map[string]any)
		if diff := cmp.Diff(want, spec["validationActions"]); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// TestNamespaces: the limited variant writes only in the named namespaces, with all rights that classes need there.
func TestNamespaces(t *testing.T) {
	rules := map[string][]rbacv1.PolicyRule{}
	var wide, local []string
	all := objects(t, readValues(t, "testdata/up-shared.yaml"), "lbremedy")
	for _, o := range all {
		switch o.GetKind() {
		case "ClusterRole":
			role := new(rbacv1.ClusterRole)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			rules[role.Name] = role.Rules
		case "ClusterRoleBinding":
			wide = append(wide, o.GetName())
		case "RoleBinding":
			local = append(local, o.GetNamespace()+"/"+o.GetName())
		}
	}
	for _, role := range wide {
		for _, rule := range rules[role] {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s may %s %v in the whole cluster", role, verb, rule.Resources)
				}
			}
		}
	}
	slices.Sort(local)
	if diff := cmp.Diff([]string{
		"default/lbremedy-up", "kube-public/lbremedy-up", "kube-system/lbremedy-up.system", "lbremedy/lbremedy-policy",
	}, local); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lbremedy-doctor", "lbremedy-up.doctor", "lbremedy-up.cluster", "lbremedy-test"}, wide); diff != "" {
		t.Errorf("bindings of the whole cluster (-want +got):\n%s", diff)
	}
}

// TestGuard: the guard is enforced as and where the values say, and knows the namespaces that the policy protects.
func TestGuard(t *testing.T) {
	for _, tt := range []struct{ base, values, actions, except, protect string }{
		{"up", "{}", "[Warn Audit]", "[]", "[]"},
		{"up", "{guard: warn, guardExcept: [a, b]}", "[Warn Audit]", "[a b]", "[]"},
		{"up-shared", "{}", "[Deny Audit]", "[sandbox lbremedy-probe]", `["^prod-.*$","^shop-.$"]`},
		{"up", "{guard: 'off'}", "", "", ""},
		{"up", "{guard: off}", "", "", ""},
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(tt.values), &values); err != nil {
			t.Fatal(err)
		}
		var actions, except, protect string
		for _, o := range objects(t, loader.MergeMaps(readValues(t, "testdata/"+tt.base+".yaml"), values), "lbremedy") {
			switch {
			case o.GetName() != "lbremedy-guard":
			case o.GetKind() == "ValidatingAdmissionPolicyBinding":
				list, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "validationActions")
				actions, except = fmt.Sprint(list), "[]"
				selected, _, _ := unstructured.NestedSlice(o.Object, "spec", "matchResources", "namespaceSelector", "matchExpressions")
				for _, e := range selected {
					except = fmt.Sprint(e.(map[string]any)["values"])
				}
			default:
				list, _, _ := unstructured.NestedSlice(o.Object, "spec", "variables")
				for _, v := range list {
					if v := v.(map[string]any); v["name"] == "patterns" {
						protect = fmt.Sprint(v["expression"])
					}
				}
			}
		}
		if actions != tt.actions || except != tt.except || protect != tt.protect {
			t.Errorf("%s with %s: %s, except %s, protects %s; want %s, %s, %s", tt.base, tt.values, actions, except, protect, tt.actions, tt.except, tt.protect)
		}
	}
}

// TestRightsElsewhere: installations that bind rights without the chart get the admission policy, not the ClusterRoles: values are independent.
func TestRightsElsewhere(t *testing.T) {
	generated := map[string]bool{}
	for _, doc := range documents(manifest(t, "infra/cluster/rbac.yaml")) {
		var role rbacv1.ClusterRole
		if err := strict(doc, &role); err != nil {
			t.Fatal(err)
		}
		generated[role.Name] = true
	}
	for _, file := range []string{"up-console", "up-shared", "knative"} {
		for _, create := range []bool{true, false} {
			values := loader.MergeMaps(readValues(t, "testdata/"+file+".yaml"), map[string]any{
				"rbac":  map[string]any{"create": create, "admission": !create, "chat": true},
				"probe": map[string]any{"enabled": true},
			})
			values["rbac"].(map[string]any)["namespaces"] = []any{}
			admission, roles := 0, 0
			for _, o := range objects(t, values, "lbremedy") {
				switch {
				case o.GetKind() == "ValidatingAdmissionPolicy" && o.GetName() == "lbremedy":
					admission++
				case o.GetKind() == "ClusterRole" && generated[o.GetName()]:
					roles++
				}
			}
			if (admission == 0) != create || (roles > 0) != create {
				t.Errorf("%s, rbac.create %t and rbac.admission %t: %d admission policies, %d ClusterRoles", file, create, !create, admission, roles)
			}
		}
	}
}

// TestPolicy: the values' policy is in one ConfigMap, which only the engine may get by name and nobody may write.
func TestPolicy(t *testing.T) {
	c := join(t)
	for base, account := range map[string]string{"up-console": "lbremedy-up", "knative": "lbremedy-engine"} {
		namespace := c.namespace(t)
		values := loader.MergeMaps(readValues(t, "testdata/"+base+".yaml"), map[string]any{"rbac": map[string]any{"create": true}})
		allowed := map[string]any{"mode": "observe", "rules": []any{map[string]any{"namespaces": []any{"sandbox"}, "mode": "fix"}}}
		values["policy"] = allowed
		accounts := map[string]bool{}
		var flags int
		for _, o := range objects(t, values, namespace) {
			switch o.GetKind() {
			case "ConfigMap":
				if o.GetName() != "lbremedy-policy" {
					break
				}
				data, _, err := unstructured.NestedStringMap(o.Object, "data")
				var got map[string]any
				if err := errors.Join(err, yaml.UnmarshalStrict([]byte(data["policy.yaml"]), &got)); err != nil || len(data) != 1 {
					t.Fatalf("%v: %v", err, data)
				}
				if diff := cmp.Diff(allowed, got); diff != "" {
					t.Errorf("%s: -want +got\n%s", base, diff)
				}
			case "Deployment":
				text, err := json.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				flags += strings.Count(string(text), `"--policy=configmap:`+namespace+`/lbremedy-policy"`)
			case "ServiceAccount":
				accounts[o.GetName()] = true
			case "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
				text, err := json.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				if o.GetName() != "lbremedy-policy" && (bytes.Contains(text, []byte(`"configmaps"`)) || bytes.Contains(text, []byte(`"*"`))) {
					t.Errorf("%s: %s %s gives rights on ConfigMaps", base, o.GetKind(), o.GetName())
				}
			}
			if o.GetName() == "lbremedy-policy" {
				c.create(t, o)
			}
		}
		if flags != 1 || !accounts[account] {
			t.Errorf("%s: %d flags name the ConfigMap; the accounts are %v", base, flags, accounts)
		}
		other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": "other", "namespace": namespace}}}
		c.create(t, other)
		for name := range accounts {
			maps := c.as(t, "system:serviceaccount:"+namespace+":"+name).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).
				Namespace(namespace)
			get := func(of string) error { _, err := maps.Get(t.Context(), of, metav1.GetOptions{}); return err }
			for late := time.Now().Add(time.Minute); name == account; { // the API server sees a Role a moment later
				if err := get("lbremedy-policy"); err == nil {
					break
				} else if time.Now().After(late) {
					t.Fatalf("%s: %s may not read the policy: %v", base, name, err)
				}
			}
			_, list := maps.List(t.Context(), metav1.ListOptions{})
			_, patch := maps.Patch(t.Context(), "lbremedy-policy", types.MergePatchType, []byte(`{"data":{"policy.yaml":"mode: fix"}}`), metav1.PatchOptions{})
			_, create := maps.Create(t.Context(), other, metav1.CreateOptions{})
			refused := map[string]error{
				"get another one": get("other"), "list": list, "patch": patch, "create": create,
				"delete": maps.Delete(t.Context(), "lbremedy-policy", metav1.DeleteOptions{}),
			}
			if name != account {
				refused["get"] = get("lbremedy-policy")
			}
			for doing, err := range refused {
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s: %s may %s: %v", base, name, doing, err)
				}
			}
		}
	}
}

func (c *server) create(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	kind := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil {
		_, err = c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

func (c *server) as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = user
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestEngine: with functions for all classes, up may write neither to Services nor to the cloud. If one class is left, up has all rights.
func TestEngine(t *testing.T) {
	for name, tt := range map[string]struct{ base, values, account string }{
		"one Pod":         {"up", "{}", "lbremedy-up"},
		"Knative":         {"knative", "{}", "lbremedy-engine"},
		"some on Knative": {"knative", "{knative: {classes: [busy]}}", "lbremedy-up"},
		"FC":              {"fc", "{}", "lbremedy-engine"},
		"some on FC":      {"up", "{functions: fc, routes: {routes: {busy: {url: 'https://a'}}}}", "lbremedy-up"},
		"with a doctor":   {"fc", "{doctor: {enabled: true}, rbac: {chat: true}, probe: {enabled: true}}", "lbremedy-engine"},
	} {
		t.Run(name, func(t *testing.T) {
			var more map[string]any
			if err := yaml.Unmarshal([]byte(tt.values), &more); err != nil {
				t.Fatal(err)
			}
			writes, roles, account := map[string]bool{}, map[string][]rbacv1.PolicyRule{}, ""
			var bound []string
			for _, o := range objects(t, loader.MergeMaps(readValues(t, "testdata/"+tt.base+".yaml"), more), "lbremedy") {
				switch o.GetKind() {
				case "Deployment":
					spec, _ := podOf(o)
					if o.GetName() == "lbremedy-up" {
						account, _ = spec["serviceAccountName"].(string)
					}
				case "ClusterRole":
					role := new(rbacv1.ClusterRole)
					if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
						t.Fatal(err)
					}
					roles[role.Name] = role.Rules
				case "ClusterRoleBinding", "RoleBinding":
					subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
					if subjects[0].(map[string]any)["name"] == tt.account {
						role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
						bound = append(bound, role)
					}
				case "ServiceAccount":
					if o.GetName() == tt.account && o.GetAnnotations()["pod-identity.alibabacloud.com/role-name"] != tt.account {
						t.Errorf("its RAM role is %v", o.GetAnnotations())
					}
				}
			}
			for _, role := range bound {
				for _, rule := range roles[role] {
					for _, verb := range rule.Verbs {
						if !slices.Contains([]string{"get", "list", "watch"}, verb) {
							writes[rule.Resources[0]] = true
						}
					}
				}
			}
			if account != tt.account || !slices.Contains(bound, tt.account) {
				t.Errorf("it runs as %s, bound to %v, want %s", account, bound, tt.account)
			}
			if writes["services"] != (tt.account == "lbremedy-up") || !writes["events"] {
				t.Errorf("it writes %v", slices.Sorted(maps.Keys(writes)))
			}
		})
	}
}

// TestConsole: the console may only read, with the doctor's rights and NATS's user console. With NATS in up's Pod, it is a container there.
func TestConsole(t *testing.T) {
	for base, want := range map[string]struct {
		in      string // Deployment
		account string
		texts   []string
		not     []string
	}{
		"up-console": {"lbremedy-up", "lbremedy-up", []string{
			`"--url=http://127.0.0.1:8383"`, `"mountPath":"/var/lib/lbremedy","name":"state","readOnly":true`,
		}, []string{"nats-console"}},
		"up-shared": {"lbremedy-console", "lbremedy-doctor", []string{
			`"--url=https://lbremedy.example.com"`, `"--tls-cert=/var/run/lbremedy-tls/tls.crt"`, `"secretName":"lbremedy-tls"`, `"scheme":"HTTPS"`,
			`"lbremedy-nats-console"`, `acs:ram::123456:role/lbremedy-doctor`,
		}, []string{"/var/lib/lbremedy"}},
		"chosen": {"lbremedy-console", "lbremedy-doctor", []string{`"--login"`, `"scheme":"HTTP"`, `"seed-of-console"`}, []string{"lbremedy-tls"}},
	} {
		t.Run(base, func(t *testing.T) {
			have := map[string]*unstructured.Unstructured{}
			for _, o := range objects(t, readValues(t, "testdata/"+base+".yaml"), "lbremedy") {
				have[o.GetKind()+" "+o.GetName()] = o
			}
			for _, name := range []string{
				"Deployment " + want.in, "Service lbremedy-console", "ServiceAccount " + want.account, "ClusterRole lbremedy-doctor",
				"ClusterRoleBinding " + strings.Replace(want.account, "-up", "-up.doctor", 1), "NetworkPolicy " + want.in,
			} {
				if have[name] == nil {
					t.Fatalf("there is no %s", name)
				}
			}
			role := new(rbacv1.ClusterRole)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have["ClusterRole lbremedy-doctor"].Object, role); err != nil {
				t.Fatal(err)
			}
			reviews := []string{"localsubjectaccessreviews", "subjectaccessreviews"} // creating these changes nothing
			for _, r := range role.Rules {
				for _, verb := range r.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) && !slices.Contains(reviews, r.Resources[0]) {
						t.Errorf("it may %s %v", verb, r.Resources)
					}
				}
			}
			spec, _, _ := unstructured.NestedMap(have["Deployment "+want.in].Object, "spec", "template", "spec")
			if spec["serviceAccountName"] != want.account {
				t.Errorf("it runs as %v, want %s", spec["serviceAccountName"], want.account)
			}
			containers, _, _ := unstructured.NestedSlice(spec, "containers")
			i := slices.IndexFunc(containers, func(c any) bool { return c.(map[string]any)["name"] == "console" })
			if i < 0 {
				t.Fatalf("%s has no console", want.in)
			}
			var volumes any
			if want.in == "lbremedy-console" {
				volumes = spec["volumes"]
			}
			text, err := json.Marshal(map[string]any{"container": containers[i], "volumes": volumes})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range want.texts {
				if !bytes.Contains(text, []byte(w)) {
					t.Errorf("it lacks %s:\n%s", w, text)
				}
			}
			for _, w := range want.not {
				if bytes.Contains(text, []byte(w)) {
					t.Errorf("it has %s:\n%s", w, text)
				}
			}
			policy, err := json.Marshal(have["NetworkPolicy "+want.in].Object)
			if err != nil {
				t.Fatal(err)
			}
			if opened := bytes.Contains(policy, []byte(`"ports":[{"port":8383,"protocol":"TCP"}]`)); opened != (base == "up-shared") {
				t.Errorf("who reaches it: %s", policy)
			}
		})
	}
	for _, o := range objects(t, readValues(t, "testdata/up.yaml"), "lbremedy") {
		if text, err := json.Marshal(o.Object); err != nil || bytes.Contains(text, []byte("console")) {
			t.Errorf("without console.enabled: %s, %v", text, err)
		}
	}
}

// TestNetwork: no Pod reaches the metadata service of its node, which would give it the node's role.
func TestNetwork(t *testing.T) {
	for _, o := range objects(t, readValues(t, "testdata/knative.yaml"), "lbremedy") {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		text, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte(`"cidr":"0.0.0.0/0"`)); n != bytes.Count(text, []byte(`"except":["100.100.100.200/32"]`)) {
			t.Errorf("%s lets all addresses be reached", o.GetName())
		}
	}
}

// TestNetworkOfNATS: an external NATS is reached at the values' address, and only at its port.
func TestNetworkOfNATS(t *testing.T) {
	for file, want := range map[string]string{
		"up-shared": `"ports":[{"port":4223,"protocol":"TCP"}],"to":[{"ipBlock":{"cidr":"10.1.0.0/16"}},{"ipBlock":{"cidr":"10.2.0.3/32"}}]`,
		"chosen":    `"ports":[{"port":4222,"protocol":"TCP"}],"to":[{"namespaceSelector"`,
	} {
		reach := map[string]bool{}
		for _, o := range objects(t, readValues(t, "testdata/"+file+".yaml"), "lbremedy") {
			if o.GetKind() != "NetworkPolicy" {
				continue
			}
			text, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			reach[o.GetName()] = bytes.Contains(text, []byte(want))
		}
		for name, reaches := range reach {
			if reaches != (name == "lbremedy-up" || name == "lbremedy-console") {
				t.Errorf("%s, %s: it reaches NATS: %t", file, name, reaches)
			}
		}
	}
}

// TestRoutes: the chart's routes match the schema of the routes file, which contains nothing else.
func TestRoutes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "shared/event/schema/routes.v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]map[string]any{
		"up": nil,
		"fc": {"default": map[string]any{"invoke": map[string]any{
			"function": "lbremedy-{class}", "account": "123456", "region": "cn-hangzhou", "internal": true,
		}}},
		"knative": {"default": map[string]any{"url": "http://lbremedy-{class}.healing.svc.cluster.local"}},
		"chosen": {"routes": map[string]any{
			"busy":        map[string]any{"url": "http://lbremedy-{class}.healing.svc.cluster.local"},
			"tag-missing": map[string]any{"url": "http://lbremedy-{class}.healing.svc.cluster.local"},
		}},
	} {
		var got map[string]any
		for _, o := range objects(t, readValues(t, "testdata/"+file+".yaml"), "healing") {
			routes, found, err := unstructured.NestedString(o.Object, "data", "routes.yaml")
			if err != nil || !found {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(routes), &got); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, routes)
			}
			if err := util.ValidateAgainstSingleSchema(common.Values(got), text); err != nil {
				t.Errorf("%s: %v\n%s", file, err, routes)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestDeclarations checks that lbremedy up reads declarations from the ConfigMap of the values, and from nowhere without one.
func TestDeclarations(t *testing.T) {
	for _, name := range []string{"", "owners"} {
		values := readValues(t, "testdata/fc.yaml")
		values["declarations"] = map[string]any{"configMap": name}
		for _, o := range objects(t, values, "lbremedy") {
			if o.GetKind() != "Deployment" || o.GetName() != "lbremedy-up" {
				continue
			}
			text, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{`"--declarations=/etc/lbremedy-declarations"`,
				`{"mountPath":"/etc/lbremedy-declarations","name":"declarations","readOnly":true}`,
				`{"configMap":{"name":"owners"},"name":"declarations"}`} {
				if bytes.Contains(text, []byte(part)) != (name != "") {
					t.Errorf("with %q: is %s there?", name, part)
				}
			}
		}
	}
}

// TestProbe: only with probes, the prober may create Events and read a Service in the namespace of their Service without load balancer.
func TestProbe(t *testing.T) {
	for file, who := range map[string]string{"testdata/up.yaml": "lbremedy-up", "testdata/fc.yaml": "lbremedy-engine"} {
		for _, probed := range []bool{false, true} {
			values := readValues(t, file)
			values["probe"] = map[string]any{"enabled": probed, "every": "30m", "classes": []any{"busy", "quota"}}
			var found, args []string
			for _, o := range objects(t, values, "lbremedy") {
				if o.GetKind() == "Deployment" && o.GetName() == "lbremedy-up" {
					containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
					if err != nil {
						t.Fatal(err)
					}
					for _, arg := range containers[0].(map[string]any)["args"].([]any) {
						if strings.HasPrefix(arg.(string), "--probe") {
							args = append(args, arg.(string))
						}
					}
				}
				if o.GetName() != "lbremedy-probe" {
					continue
				}
				found = append(found, o.GetKind())
				switch o.GetKind() {
				case "Service":
					if kind, _, _ := unstructured.NestedString(o.Object, "spec", "type"); kind != "ClusterIP" {
						t.Errorf("%s: the Service of the probes is of type %s", file, kind)
					}
				case "ClusterRole":
					rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
					want := []any{
						map[string]any{"apiGroups": []any{""}, "resources": []any{"events"}, "verbs": []any{"create"}},
						map[string]any{"apiGroups": []any{""}, "resources": []any{"services"}, "verbs": []any{"get"}},
					}
					if diff := cmp.Diff(want, rules); diff != "" {
						t.Errorf("%s: %s", file, diff)
					}
				case "RoleBinding":
					subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
					if err != nil || len(subjects) != 1 || subjects[0].(map[string]any)["name"] != who || o.GetNamespace() != "lbremedy" {
						t.Errorf("%s: in %s it is bound to %v, %v", file, o.GetNamespace(), subjects, err)
					}
				}
			}
			slices.Sort(found)
			var wantFound, wantArgs []string
			if probed {
				wantFound = []string{"ClusterRole", "RoleBinding", "Service"}
				wantArgs = []string{"--probe=30m", "--probe-namespace=lbremedy", "--probe-classes=busy,quota"}
			}
			if !slices.Equal(found, wantFound) || !slices.Equal(args, wantArgs) {
				t.Errorf("%s: probes %t make %v, with %v", file, probed, found, args)
			}
		}
	}
}

// With the address of a target, EventBridge posts Events to lbremedy up, with the token from a Secret.
func TestEventBridge(t *testing.T) {
	for _, url := range []string{"", "https://lbremedy.example.com/events?cluster=c1"} {
		values := readValues(t, "testdata/knative.yaml")
		values["eventBridge"] = map[string]any{"url": url}
		var found []string
		for _, o := range objects(t, values, "lbremedy") {
			text, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{`"--from-http-url=` + url + `"`, `"--from-http=:8090"`,
				`"LBREMEDY_FROM_HTTP_TOKEN","valueFrom":{"secretKeyRef":{"key":"token","name":"lbremedy-eventbridge"}`,
				`"port":80,"targetPort":8090`, `"ports":[{"port":8090,"protocol":"TCP"}]`} {
				if bytes.Contains(text, []byte(part)) {
					found = append(found, o.GetKind()+" "+o.GetName())
				}
			}
		}
		var want []string
		if url != "" {
			want = []string{"Deployment lbremedy-up", "Deployment lbremedy-up", "Deployment lbremedy-up", "NetworkPolicy lbremedy-up", "Service lbremedy-events"}
		}
		slices.Sort(found)
		if !slices.Equal(found, want) {
			t.Errorf("with %q: %q", url, found)
		}
	}
}

// Only with chats may the notifying program create Approvals, and impersonate their authors.
func TestChat(t *testing.T) {
	for file, who := range map[string]string{"testdata/up.yaml": "lbremedy-up", "testdata/fc.yaml": "lbremedy-engine"} {
		for _, chat := range []bool{false, true} {
			values := readValues(t, file)
			rbac, ok := values["rbac"].(map[string]any)
			if !ok {
				rbac = map[string]any{}
			}
			rbac["chat"] = chat
			values["rbac"] = rbac
			var found []string
			for _, o := range objects(t, values, "lbremedy") {
				if o.GetName() != "lbremedy-chat" {
					continue
				}
				found = append(found, o.GetKind())
				if o.GetKind() != "ClusterRoleBinding" {
					continue
				}
				subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
				if err != nil || len(subjects) != 1 || subjects[0].(map[string]any)["name"] != who {
					t.Errorf("%s: it is bound to %v, %v", file, subjects, err)
				}
			}
			if want := map[bool][]string{true: {"ClusterRole", "ClusterRoleBinding"}}[chat]; !slices.Equal(found, want) {
				t.Errorf("%s: chat %t makes %v", file, chat, found)
			}
		}
	}
}

// Everything of "helm test" is a hook, which Helm makes for the test and removes after it. Its Pod may read Approvals and their admission
// policies, or has no token at all.
func TestHelmTest(t *testing.T) {
	read := func(group, resource, verb string) any {
		return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{verb}}
	}
	const admission = "admissionregistration.k8s.io"
	rights := []any{read(admission, "validatingadmissionpolicies", "get"), read(admission, "validatingadmissionpolicybindings", "get"),
		read("lbremedy.io", "approvals", "list")}
	for more, kinds := range map[string][]string{
		"{}": {"ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "NetworkPolicy", "Pod", "ServiceAccount"},
		"{rbac: {approvals: false}, networkPolicy: {enabled: false}}": {"Pod", "ServiceAccount"},
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(more), &values); err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, o := range objects(t, loader.MergeMaps(readValues(t, "testdata/up.yaml"), values), "lbremedy") {
			hook, ours := o.GetAnnotations()["helm.sh/hook"], o.GetLabels()["app.kubernetes.io/component"] == "test"
			if hook == "" && !ours {
				continue
			}
			found = append(found, o.GetKind())
			if gone := o.GetAnnotations()["helm.sh/hook-delete-policy"]; hook != "test" || !ours || gone != "before-hook-creation,hook-succeeded" {
				t.Errorf("%s: %s %s is the hook %q, deleted %q", more, o.GetKind(), o.GetName(), hook, gone)
			}
			if first := o.GetAnnotations()["helm.sh/hook-weight"] == "-1"; first == (o.GetKind() == "Pod") {
				t.Errorf("%s: %s %s is made before the Pod: %t", more, o.GetKind(), o.GetName(), first)
			}
			switch o.GetKind() {
			case "ClusterRole":
				if diff := cmp.Diff(rights, o.Object["rules"]); diff != "" {
					t.Errorf("%s: rights (-want +got):\n%s", more, diff)
				}
			case "Pod":
				spec := o.Object["spec"].(map[string]any)
				args := fmt.Sprint(spec["containers"].([]any)[0].(map[string]any)["args"])
				if asks := more == "{}"; spec["automountServiceAccountToken"] != asks || strings.Contains(args, "--approvals") != asks ||
					!strings.Contains(args, "preflight --running=http://lbremedy-up.lbremedy.svc:8080") {
					t.Errorf("%s: its Pod runs %s, with a token: %v", more, args, spec["automountServiceAccountToken"])
				}
			}
		}
		if slices.Sort(found); !slices.Equal(found, kinds) {
			t.Errorf("%s: helm test makes %v, want %v", more, found, kinds)
		}
	}
}

// Two releases of the chart can share a cluster: cluster-wide objects have the name of the release, or belong to the first one.
func TestTwoReleases(t *testing.T) {
	values := func() map[string]any { return readValues(t, "testdata/up-shared.yaml") }
	wide := func(namespace string, values map[string]any) (out []string) {
		for _, o := range objects(t, values, namespace) {
			if o.GetNamespace() != namespace {
				out = append(out, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
		return out
	}
	second := values()
	maps.Copy(second, map[string]any{"fullnameOverride": "staging", "guard": "off"})
	second["rbac"] = map[string]any{"namespaces": second["rbac"].(map[string]any)["namespaces"], "approvals": false, "admission": false}
	first, other := wide("lbremedy", values()), wide("staging", second)
	if len(other) < 3 {
		t.Fatalf("the second release has %q", other)
	}
	for _, o := range other {
		if slices.Contains(first, o) {
			t.Errorf("both releases have %s", o)
		}
	}
}

// Each object has the labels by which tools group objects, and values reach each Pod.
func TestLabels(t *testing.T) {
	for _, file := range []string{"up", "up-console", "up-shared", "knative", "fc"} {
		values := readValues(t, "testdata/"+file+".yaml")
		maps.Copy(values, map[string]any{
			"nameOverride": "healer", "podLabels": map[string]any{"team": "network"}, "podAnnotations": map[string]any{"example.com/a": "b"},
		})
		for _, o := range objects(t, values, "lbremedy") {
			what := file + ": " + o.GetKind() + " " + o.GetName()
			shared := strings.Contains(what, "ValidatingAdmissionPolicy") || o.GetKind() == "CustomResourceDefinition" || o.GetName() == "lbremedy-approver"
			if labels := o.GetLabels(); !shared {
				for key, want := range map[string]string{"name": "healer", "instance": "lbremedy", "managed-by": "Helm", "part-of": "lbremedy"} {
					if got := labels["app.kubernetes.io/"+key]; got != want {
						t.Errorf("%s has the label %s=%q, want %q", what, key, got, want)
					}
				}
			}
			if _, isPod := podOf(o); !isPod {
				continue
			}
			meta, _, err := unstructured.NestedMap(o.Object, "spec", "template", "metadata")
			if err != nil {
				t.Fatal(err)
			}
			pod := unstructured.Unstructured{Object: map[string]any{"metadata": meta}}
			if pod.GetLabels()["team"] != "network" || pod.GetAnnotations()["example.com/a"] != "b" || pod.GetLabels()["app.kubernetes.io/name"] != "healer" {
				t.Errorf("%s: its Pods have the labels %v and the annotations %v", what, pod.GetLabels(), pod.GetAnnotations())
			}
		}
	}
}
