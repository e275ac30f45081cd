package hands

import (
	"archive/zip"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// user is the identity of the sample in generated/kubernetes.yaml.
const user = "system:serviceaccount:lbremedy:lbremedy-x-owner-missing"

// TestDeclaredClass has lbremedy repair a Service with a class that it was not built with: a real admission webhook refuses the controller's
// writes; the exporter knows the class by its text; the engine calls the process in Python, which acts with the generated rights only.
func TestDeclaredClass(t *testing.T) {
	tb := operator.NewTestbed(t)
	granted(t, tb)
	services := tb.Kube.Client().CoreV1().Services(tb.Namespace)
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		_, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	requireOwner(t, tb)

	key, err := hand.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, cluster: tb.Kube, class: declared(t), key: key, id: "c-cli", as: user}
	startPython(t, w, w.proxy(t))
	text, err := os.ReadFile(sample + "/class.yaml")
	if err != nil {
		t.Fatal(err)
	}
	declarations := filepath.Dir(operator.Write(t, "owner.yaml", string(text)))
	engineKey := operator.Write(t, "engine.pem", string(key.PEM()))
	tb.Wants(t, 2, "", "give --routes and --engine-key as well", "up", "--declarations", declarations)
	tb.Wants(t, 2, "", "leads to the function of the class x-owner-missing", "up", "--declarations", declarations, "--engine-key", engineKey,
		"--routes", operator.Write(t, "routes.yaml", "routes: {busy: {url: 'http://127.0.0.1:1'}}\n"))
	u := tb.Up(t, "--listen", "127.0.0.1:0", "--declarations", declarations, "--engine-key", engineKey,
		"--routes", operator.Write(t, "routes.yaml", fmt.Sprintf("routes: {x-owner-missing: {url: %q}}\n", w.url)))
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "checkout"}, Annotations: map[string]string{
			operator.Annotation + "address-type": "intranet", operator.Annotation + "vswitch-id": "vsw-b",
		}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := services.Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := u.Until(t, func(r event.Record) bool { return r.Result == event.Planned })
	if got := r.Finding.String(); r.Class != "x-owner-missing" || got != "The annotation example.com/owner is missing, and the label team is checkout." {
		t.Errorf("class %s: %s", r.Class, got)
	}
	if n := w.writes.Load(); n != 0 {
		t.Errorf("in observe mode the hand writes %d times", n)
	}
	tb.Policy(t, fmt.Sprintf("rules: [{namespaces: [%q], classes: [x-owner-missing], mode: fix}]\n", tb.Namespace))
	u.Until(t, func(r event.Record) bool { return r.Result == event.Fixed })
	if got := tb.Annotations(t)[annotation]; got != "checkout" || w.writes.Load() != 1 {
		t.Errorf("the annotation is %q after %d writes", got, w.writes.Load())
	}
	tb.Wants(t, 0, "x-owner-missing", "", "policy", "show") // the engine reports what the policy may name
	tb.Wants(t, 2, "", `unknown class "x-owner-missing"`, "ls", "--class", "x-owner-missing")
	tb.Wants(t, 0, "fixed", "", "ls", "--class", "x-owner-missing", "--namespace", tb.Namespace, "--declarations", declarations)
	tb.Wants(t, 1, "remove annotation example.com/owner", "denied the request", "undo", tb.Namespace+"/web", "--declarations", declarations)
	u.End(t)
}

// granted applies the generated rights of the sample, and checks that they allow no more than the declaration.
func granted(t *testing.T, tb *operator.Testbed) {
	t.Helper()
	text, err := os.ReadFile(sample + "/generated/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	access, admission := tb.Kube.Client().RbacV1(), tb.Kube.Client().AdmissionregistrationV1()
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		var end func() error
		switch kind.Kind {
		case "ClusterRole":
			end, err = created[rbacv1.ClusterRole](t, doc, access.ClusterRoles())
		case "ClusterRoleBinding":
			end, err = created[rbacv1.ClusterRoleBinding](t, doc, access.ClusterRoleBindings())
		case "ValidatingAdmissionPolicy":
			end, err = created[registrationv1.ValidatingAdmissionPolicy](t, doc, admission.ValidatingAdmissionPolicies())
		case "ValidatingAdmissionPolicyBinding":
			end, err = created[registrationv1.ValidatingAdmissionPolicyBinding](t, doc, admission.ValidatingAdmissionPolicyBindings())
		default:
			continue // RBAC knows a user by name
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
	own := rest.CopyConfig(tb.Kube.Config)
	own.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := kubernetes.NewForConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	change := func(patch string) error {
		_, err := c.CoreV1().Services(tb.Namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	until(t, func() bool { return change(`{"metadata":{"annotations":{"example.com/owner":"a"}}}`) == nil })
	for _, no := range []string{
		`{"metadata":{"annotations":{"example.com/other":"a"}}}`, `{"metadata":{"labels":{"team":"a"}}}`, `{"spec":{"ports":[{"port":81}]}}`,
	} {
		until(t, func() bool { return apierrors.IsForbidden(change(no)) })
	}
}

// created creates the object in a document, and returns the function that deletes it.
func created[T any](t *testing.T, doc string, c client[T]) (end func() error, err error) {
	var of T
	if err := yaml.UnmarshalStrict([]byte(doc), &of); err != nil {
		return nil, err
	}
	made, err := c.Create(t.Context(), &of, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return func() error {
		return c.Delete(background, any(made).(metav1.Object).GetName(), metav1.DeleteOptions{})
	}, nil
}

// background outlives a test, for what it cleans up.
var background = context.Background()

type client[T any] interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// requireOwner has an admission webhook refuse changes of Services in the namespace that leave them without an owner.
func requireOwner(t *testing.T, tb *operator.Testbed) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		var svc corev1.Service
		err := json.NewDecoder(r.Body).Decode(&review)
		if err == nil {
			err = json.Unmarshal(review.Request.Object.Raw, &svc)
		}
		if err != nil {
			t.Error(err)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: svc.Annotations[annotation] != ""}
		if !review.Response.Allowed {
			review.Response.Result = &metav1.Status{Message: "a Service needs the annotation " + annotation, Code: http.StatusForbidden}
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	configurations := tb.Kube.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	name := "owners-" + tb.Namespace
	if _, err := configurations.Create(t.Context(), &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "owners.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
			ClientConfig: registrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": tb.Namespace}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Update},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services", "services/status"}},
			}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := configurations.Delete(background, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	until(t, func() bool { // the API server reads it a moment later
		_, err := tb.Kube.Client().CoreV1().Services(tb.Namespace).Patch(t.Context(), "inner", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`),
			metav1.PatchOptions{DryRun: []string{"All"}})
		return err != nil && strings.Contains(err.Error(), `admission webhook "owners.example.com" denied the request`)
	})
}

// until waits until something holds.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not come")
		}
	}
}

// TestFunctionCompute runs the sample from the files of its zip, as Function Compute does: it fetches a kubeconfig with the role of the
// invocation, once, and acts as the ServiceAccount of its class. Without the role it writes nothing.
func TestFunctionCompute(t *testing.T) {
	tb := operator.NewTestbed(t)
	granted(t, tb)
	kubeconfig, err := os.ReadFile(tb.Kube.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	account := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: clusterID, PrivateKubeconfig: string(kubeconfig)}})
	role, stranger := account.Client("role", "cs:DescribeClusterUserKubeconfig"), account.Client("stranger", "slb:DescribeLoadBalancers")
	folder := unpacked(t)
	key, err := hand.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, cluster: tb.Kube, class: declared(t), key: key}
	c := exec.Command("./bootstrap")
	c.Dir = folder
	c.Env = append(os.Environ(), "LBREMEDY_CLUSTER="+clusterID, "LBREMEDY_ENGINE_KEYS="+key.Public(), "FC_CUSTOM_LISTEN_PORT=0", "PYTHONDONTWRITEBYTECODE=1",
		"LBREMEDY_KUBECONFIG_FROM=cs", "LBREMEDY_KUBECONFIG_AS="+user, "LBREMEDY_REGION="+account.Region(), "LBREMEDY_CLOUD_ENDPOINT="+account.Addr(),
		"LBREMEDY_CLOUD_SCHEME=HTTP")
	w.run(t, c)
	about := w.service()
	h, _ := w.remote()
	o := hand.Order{About: about, Step: hand.Step{Kind: "annotate", Step: json.RawMessage(`{"set":{"example.com/owner":"checkout"}}`)}}
	as := func(who sim.Credentials) {
		w.headers = http.Header{"x-fc-access-key-id": {who.AccessKeyID}, "x-fc-access-key-secret": {who.Secret}, "x-fc-security-token": {who.Token}}
	}
	as(stranger)
	if a, err := h.Apply(t.Context(), o); !errors.Is(err, hand.ErrDenied) || a.State == hand.Done || w.value(about) != "" {
		t.Errorf("without the right to a kubeconfig it ends as %q: %v", a.State, err)
	}
	as(role)
	if a, err := h.Apply(t.Context(), o); err != nil || a.State != hand.Done || w.value(about) != "checkout" {
		t.Fatalf("it ends as %q: %v", a.State, err)
	}
	as(stranger) // it keeps the kubeconfig
	o.Service, err = tb.Kube.Client().CoreV1().Services(about.Service.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.Undo = true
	if a, err := h.Apply(t.Context(), o); err != nil || a.State != hand.Done || w.value(about) != "" {
		t.Errorf("the undo ends as %q: %v", a.State, err)
	}
}

// unpacked returns a folder with the files of the sample's zip, which is made as the page says.
func unpacked(t *testing.T) string {
	t.Helper()
	name, folder := filepath.Join(t.TempDir(), "hand.zip"), t.TempDir()
	c := exec.Command("python3", "-m", "zipfile", "-c", name, "bootstrap", "class.yaml", "hand.py", "engine.py", "cluster.py")
	c.Dir = sample
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		text, err := fs.ReadFile(z, f.Name)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, f.Name), text, f.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestPod checks that a real API server accepts the sample's manifests, with Pods in a namespace that enforces the strictest Pod security
// standard, and that the image holds what the class needs and is run by a user that is not root.
func TestPod(t *testing.T) {
	text, err := os.ReadFile(sample + "/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Join(t)
	ns := c.Namespace(t)
	networks, err := networkingclient.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(strings.ReplaceAll(string(text), "namespace: lbremedy", "namespace: "+ns), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Deployment":
			_, err = created[appsv1.Deployment](t, doc, c.Client().AppsV1().Deployments(ns))
			var d appsv1.Deployment
			if err := yaml.Unmarshal([]byte(doc), &d); err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
			pod.Name, pod.Spec.ServiceAccountName = "hand", "default"
			until(t, func() bool { // the controller of ServiceAccounts does not run here
				_, err := c.Client().CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
					metav1.CreateOptions{})
				return err == nil || apierrors.IsAlreadyExists(err)
			})
			if _, err := c.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
				t.Error(err)
			}
		case "Service":
			_, err = created[corev1.Service](t, doc, c.Client().CoreV1().Services(ns))
		case "NetworkPolicy":
			_, err = created[networkingv1.NetworkPolicy](t, doc, networks.NetworkPolicies(ns))
		default:
			t.Errorf("an object of kind %s is not known here", kind.Kind)
		}
		if err != nil {
			t.Error(err)
		}
	}
	image, err := os.ReadFile(sample + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"COPY class.yaml hand.py engine.py cluster.py ./", "USER 65532:65532"} {
		if !strings.Contains(string(image), "\n"+line+"\n") {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
}
