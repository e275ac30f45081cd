package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"html"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/operator"
)

var (
	looks   = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}}
	answers = rbacv1.PolicyRule{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}}
)

type team struct {
	*operator.Testbed
	*console
}

func (x *team) account(name string, rules ...rbacv1.PolicyRule) string {
	x.t.Helper()
	accounts, ctx := x.Kube.Client().CoreV1().ServiceAccounts(x.Namespace), x.t.Context()
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
	x.Kube.As(x.t, "system:serviceaccount:"+x.Namespace+":"+name, rules)
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	return token.Status.Token
}

func (x *team) other() *console {
	x.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return &console{x.t, x.base, "", &http.Client{Jar: jar}}
}

func (x *team) login(token string) *console {
	x.t.Helper()
	o := x.other()
	if page := o.post("/login", http.StatusOK, url.Values{"token": {token}, "to": {"/questions"}}); !strings.Contains(page, "<h1>Questions</h1>") {
		x.t.Fatalf("after the login: %s", page)
	}
	return o
}

func (x *console) status(path string) int {
	x.t.Helper()
	answer, err := x.browser.Get(x.base + path)
	if err != nil {
		x.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func (x *team) approvals() []kube.Approval {
	x.t.Helper()
	c, err := kube.New(x.Kube.Config)
	if err != nil {
		x.t.Fatal(err)
	}
	all, err := c.Approvals(x.t.Context(), x.Namespace)
	if err != nil {
		x.t.Fatal(err)
	}
	return all
}

// People log in with their own tokens and answer in their own name: the console itself has no rights in the cluster.
func TestLogin(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	proven := identity.Approvals(t, c)
	sc := operator.NewTestbedOn(t, c)
	u := sc.Up(t)
	asked := sc.Asks(t, u, "{needs: 2}")
	var ahead atomic.Int64
	call := sc.As(t, "console", nil)
	call.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	x := &team{sc, start(t, call, "--login")}
	service := sc.Namespace + "/web"
	ann, bob := x.account("ann", looks, answers), x.account("bob", looks, answers)

	stranger := x.other()
	for _, path := range []string{"/", "/questions", "/cases", "/live", "/answers?verdict=approve", "/nowhere", "/?key=x"} {
		if page := stranger.get(path, http.StatusUnauthorized); strings.Contains(page, service) || !strings.Contains(page, "<h1>Log in</h1>") {
			t.Errorf("%s tells a stranger: %s", path, page)
		}
	}
	stranger.post("/read", http.StatusUnauthorized, nil)
	for _, token := range []string{"", "nonsense", "a\nb", strings.Repeat("a", 20<<10), ann[:len(ann)-4] + "AAAA"} {
		if page := stranger.post("/login", http.StatusUnauthorized, url.Values{"token": {token}}); !strings.Contains(page, "does not accept this token") {
			t.Errorf("%.20q: %s", token, page)
		}
	}
	page := stranger.post("/login", http.StatusForbidden, url.Values{"token": {x.account("eve", answers)}})
	if !strings.Contains(page, "to list the Services of all namespaces") {
		t.Errorf("eve gets in: %s", page)
	}
	x.do(stranger.browser, http.MethodPost, "/login", http.StatusForbidden, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	// A login leads only to pages of this console.
	page = x.other().post("/login", http.StatusNotFound, url.Values{"token": {ann}, "to": {"//evil.example/nowhere"}})
	if !strings.Contains(page, "<h1>Not found</h1>") && !strings.Contains(page, "There is no such page") {
		t.Errorf("the login leads away: %s", page)
	}

	proven()
	as := func(p approval.Question, change func(*approval.Question)) string {
		if change != nil {
			change(&p)
		}
		return "/answers?" + url.Values{"verdict": {"approve"}, "plan": {p.String()}}.Encode()
	}
	this := approval.Question{
		Cluster: asked.Cluster, UID: asked.Service.UID, Class: asked.Class, Case: asked.Case, Attempt: asked.NextAttempt(), Digest: asked.Digest,
	}

	eddy := x.login(x.account("eddy", looks))
	eddy.until("/questions", "You may not answer in the namespace "+sc.Namespace)
	page = eddy.post(as(this, nil), http.StatusOK, url.Values{})
	if !strings.Contains(page, "Your answer was not saved.") || !strings.Contains(page, "eddy may not answer") {
		t.Errorf("eddy answers: %s", page)
	}

	a := x.login(ann)
	a.until("/questions", `name="verdict" value="approve"`)
	for want, change := range map[string]func(*approval.Question){
		"The plan is another one by now": func(p *approval.Question) { p.Digest = strings.Repeat("0", 32) },
		"The plan is another one":        func(p *approval.Question) { p.Attempt++ },
		"The journal has no such case":   func(p *approval.Question) { p.UID = "none" },
		"This case is over":              func(p *approval.Question) { p.Case = "other" },
	} {
		page := a.post(as(this, change), http.StatusOK, url.Values{"comment": {"x"}})
		if !strings.Contains(page, want) || strings.Contains(page, `id="sure"`) {
			t.Errorf("want %q: %s", want, page)
		}
	}
	for _, query := range []string{"", "?verdict=perhaps&plan=x", "?verdict=approve&plan=a/b/c", "?verdict=approve&plan=a/b/c/d/e/f"} {
		path := "/answers" + query
		a.get(path, http.StatusNotFound)
		a.post(path, http.StatusNotFound, url.Values{})
	}
	if page := a.post(as(this, nil), http.StatusBadRequest, url.Values{"comment": {strings.Repeat("x", 1025)}}); !strings.Contains(page, "more than 1024 bytes") {
		t.Errorf("a long comment: %s", page)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		a.do(a.browser, http.MethodPost, as(this, nil), http.StatusForbidden, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) })
	}
	x.other().post(as(this, nil), http.StatusUnauthorized, url.Values{})
	if all := x.approvals(); len(all) > 0 {
		t.Fatalf("there are %+v", all)
	}
	page = a.get(as(this, nil), http.StatusOK)
	if !strings.Contains(page, "vsw-b") || !strings.Contains(page, "Approve 1 plan") || !strings.Contains(page, asked.Digest[:12]) {
		t.Errorf("what ann approves is not shown: %s", page)
	}

	form := html.UnescapeString(regexp.MustCompile(`action="(/answers[^"]*)"`).FindStringSubmatch(page)[1])
	page = a.post(form, http.StatusOK, url.Values{"comment": {"CHG-1 <b>"}})
	for _, want := range []string{"ann approved it at", "CHG-1 &lt;b&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q: %s", want, page)
		}
	}
	a.post(as(this, nil), http.StatusOK, url.Values{})
	b := x.login(bob)
	b.until("/questions", "ann approved this plan at")
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
		t.Fatalf("the Service is in %s", got)
	}
	if page := b.post(as(this, nil), http.StatusOK, url.Values{}); !strings.Contains(page, "bob approved it at") {
		t.Errorf("bob's answer: %s", page)
	}
	fixed := u.Until(t, func(r event.Record) bool { return r.Result.Worked() })
	if both := operator.Approvers(fixed); len(both) != 2 || !strings.HasSuffix(both[0].By, ":ann") || both[0].Object == "" || both[0].Comment != "CHG-1 <b>" ||
		!strings.HasSuffix(both[1].By, ":bob") {
		t.Errorf("approved by %+v", both)
	}
	all := x.approvals()
	if len(all) != 2 {
		t.Errorf("there are %+v", all)
	}
	a.until("/questions", "Nothing waits for a person.")
	if page := a.post(as(this, nil), http.StatusOK, url.Values{}); !strings.Contains(page, "has no plan that waits for an approval") {
		t.Errorf("too late: %s", page)
	}

	if err := c.Client().CoreV1().ServiceAccounts(sc.Namespace).Delete(ctx, "bob", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(31 * time.Second))
	ended := func(who string, o *console) {
		t.Helper()
		for _, path := range []string{"/questions", "/live"} {
			if page := o.get(path, http.StatusUnauthorized); !strings.Contains(page, "The login has ended") || strings.Contains(page, service) {
				t.Errorf("%s still gets in: %s", who, page)
			}
		}
	}
	// The API server accepts a token for ten more seconds (k8s.io/kubernetes v1.37.2, pkg/kubeapiserver/options/authentication.go).
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); b.status("/questions") == http.StatusOK && time.Now().Before(deadline); <-tick.C {
		ahead.Add(int64(31 * time.Second))
		a.get("/", http.StatusOK)
		eddy.get("/", http.StatusOK)
	}
	ended("bob", b)
	a.get("/", http.StatusOK)
	eddy.get("/", http.StatusOK)
	ahead.Add(int64(14 * time.Minute))
	eddy.get("/", http.StatusOK)
	a.do(a.browser, http.MethodGet, "/", http.StatusOK, func(r *http.Request) { r.Header.Set("Lbremedy-Live", "1") })
	a.changes() // the stream, which a browser reopens automatically
	ahead.Add(int64(2 * time.Minute))
	ended("ann", a) // only her browser has sent requests
	for ahead.Load() < int64(time.Hour) {
		eddy.get("/", http.StatusOK)
		ahead.Add(int64(14 * time.Minute))
	}
	ended("eddy", eddy) // after an hour
	again := x.login(ann)
	again.post("/logout", http.StatusUnauthorized, nil)
	again.get("/", http.StatusUnauthorized)
	u.End(t)
}

func certificate(t *testing.T, cert, key string) *big.Int {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return serial
}

// The console uses a new certificate without a restart.
func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	first := certificate(t, cert, key)
	c, _ := operator.Embed(t)
	x := start(t, c, "--login", "--cluster", "c1", "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(x.base, "https://127.0.0.1:") {
		t.Fatalf("it is at %s", x.base)
	}
	serves := func() *big.Int {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		answer, err := client.Get(x.base + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		x.do(client, http.MethodGet, "/", http.StatusUnauthorized, nil)
		return answer.TLS.PeerCertificates[0].SerialNumber
	}
	if got := serves(); got.Cmp(first) != 0 {
		t.Errorf("it serves %v, want %v", got, first)
	}
	second := certificate(t, cert, key)
	if got := serves(); got.Cmp(second) != 0 {
		t.Errorf("it serves %v, want %v", got, second)
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serves(); got.Cmp(second) != 0 {
		t.Errorf("it serves %v, want what it had: %v", got, second)
	}
}
