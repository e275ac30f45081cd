package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/oidc"
	"github.com/lbremedy/lbremedy/test/operator"
)

// People log in with tokens of an OpenID Connect issuer, and answer under the API server's name for them.
func TestOIDC(t *testing.T) {
	issuer := oidc.Start(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	c, stop, err := cluster.Start(ctx, cluster.Options{NoFsync: true, Tokens: issuer.Authentication()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	proven := identity.Approvals(t, c)
	sc := operator.NewTestbedOn(t, c)
	u := sc.Up(t)
	asked := sc.Asks(t, u, `{needs: 2, from: ["group:oidc:network"]}`)
	var ahead atomic.Int64
	call := sc.As(t, "console", nil)
	call.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	x := &team{sc, start(t, call, "--login")}
	for _, name := range []string{"ann", "bob", "mia"} {
		c.As(t, "oidc:"+name, []rbacv1.PolicyRule{looks, answers})
	}
	network := jwt.MapClaims{"groups": []string{"network"}}
	ann := issuer.Token("ann", network)

	// The API server fetches the issuer's keys when it starts, and knows nobody before.
	admitted := func(o *console, token string) bool {
		return strings.Contains(o.post("/login", 0, url.Values{"token": {token}, "to": {"/questions"}}), "<h1>Questions</h1>")
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	a := x.other()
	for deadline := time.Now().Add(2 * time.Minute); !admitted(a, ann); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("ann does not get in")
		}
	}

	stranger, parts := x.other(), strings.Split(ann, ".")
	for what, token := range map[string]string{
		"expired":         issuer.Token("ann", jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()}),
		"not yet":         issuer.Token("ann", jwt.MapClaims{"nbf": time.Now().Add(time.Hour).Unix()}),
		"wrong audience":  issuer.Token("ann", jwt.MapClaims{"aud": "somebody-else"}),
		"wrong issuer":    issuer.Token("ann", jwt.MapClaims{"iss": "https://127.0.0.1:1"}),
		"unsigned":        issuer.Sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "ann", network),
		"another's key":   issuer.Sign(jwt.SigningMethodES256, oidc.Key(t), "ann", network),
		"a shared secret": issuer.Sign(jwt.SigningMethodHS256, []byte("secret"), "ann", network),
		"cut off":         parts[0] + "." + parts[1] + ".",
		"another payload": strings.Join([]string{parts[0], strings.Split(issuer.Token("mia", network), ".")[1], parts[2]}, "."),
	} {
		page := stranger.post("/login", http.StatusUnauthorized, url.Values{"token": {token}})
		if !strings.Contains(page, "does not accept this token") || strings.Contains(page, sc.Namespace+"/web") {
			t.Errorf("%s: %s", what, page)
		}
	}
	page := stranger.do(stranger.browser, http.MethodPost, "/login", http.StatusUnauthorized, func(r *http.Request) {
		r.Header.Set("Accept-Language", "zh-CN")
	})
	if !strings.Contains(page, "API Server 不接受此令牌。") {
		t.Errorf("in Chinese: %s", page)
	}
	for _, path := range []string{"/", "/questions", "/cases", "/live"} {
		stranger.get(path, http.StatusUnauthorized)
	}

	// A valid token without rights in the cluster opens nothing.
	proven()
	answer := "/answers?" + url.Values{"verdict": {"approve"}, "plan": {fmt.Sprintf("%s/%s/%s/%s/%d/%s",
		asked.Cluster, asked.Service.UID, asked.Class, asked.Case, asked.NextAttempt(), asked.Digest)}}.Encode()
	eve := x.other()
	page = eve.post("/login", http.StatusForbidden, url.Values{"token": {issuer.Token("eve", network)}})
	if !strings.Contains(page, "does not allow oidc:eve to list the Services of all namespaces") || strings.Contains(page, sc.Namespace+"/web") {
		t.Errorf("eve gets in: %s", page)
	}
	eve.get("/questions", http.StatusUnauthorized)
	eve.post(answer, http.StatusUnauthorized, url.Values{})
	if all := x.approvals(); len(all) > 0 {
		t.Fatalf("there are %+v", all)
	}

	soon := time.Now().Add(30 * time.Second)
	m := x.other()
	if short := issuer.Token("mia", jwt.MapClaims{"exp": soon.Unix()}); !admitted(m, short) {
		t.Error("mia does not get in")
	}

	if page := a.post(answer, http.StatusOK, url.Values{"comment": {"CHG-7"}}); !strings.Contains(page, "oidc:ann approved it at") {
		t.Errorf("ann's answer: %s", page)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range config.AuthInfos {
		one.ClientCertificateData, one.ClientKeyData, one.ClientCertificate, one.ClientKey = nil, nil, "", ""
		one.Token = issuer.Token("bob", network)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	got := sc.With("LBREMEDY_KUBECONFIG", file).Run(t.Context(), "approve", asked.Case, "--comment", "seen")
	if got.Code != 0 || !strings.Contains(got.Out, "oidc:bob") {
		t.Errorf("bob approves: %+v", got)
	}
	fixed := u.Until(t, func(r event.Record) bool { return r.Result.Worked() })
	if both := operator.Approvers(fixed); len(both) != 2 || both[0].By != "oidc:ann" || both[0].Identity != "oidc:ann" || both[0].Object == "" ||
		both[0].Comment != "CHG-7" || both[1].By != "oidc:bob" {
		t.Errorf("approved by %+v", both)
	}
	all := x.approvals()
	if len(all) != 2 || slices.ContainsFunc(all, func(a kube.Approval) bool {
		return !strings.HasPrefix(a.Spec.User, oidc.Prefix) || !slices.Contains(a.Spec.Groups, "oidc:network")
	}) {
		t.Errorf("there are %+v", all)
	}
	for _, by := range []string{"oidc:ann approved this plan", "oidc:bob approved this plan"} {
		if got := sc.Run(t.Context(), "show", asked.Case); !strings.Contains(strings.Join(strings.Fields(got.Out), " "), by) {
			t.Errorf("show lacks %q: %+v", by, got)
		}
	}
	a.until("/questions", "Nothing waits for a person.")
	a.until(fmt.Sprintf("/cases/%s/%s/%s/%s", asked.Cluster, asked.Service.UID, asked.Class, asked.Case), "oidc:ann approved this plan")

	// The API server accepts an expired token for ten more seconds, like that of a deleted account.
	<-time.After(time.Until(soon))
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for deadline := time.Now().Add(25 * time.Second); m.status("/questions") == http.StatusOK && time.Now().Before(deadline); <-second.C {
		ahead.Add(int64(31 * time.Second))
		a.get("/", http.StatusOK)
	}
	if page := m.get("/questions", http.StatusUnauthorized); !strings.Contains(page, "The login has ended") || strings.Contains(page, sc.Namespace+"/web") {
		t.Errorf("mia still gets in: %s", page)
	}
	a.get("/", http.StatusOK)
	u.End(t)
}
