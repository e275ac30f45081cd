package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// signers are an issuer's keys, one of each kind. Making RSA keys takes a while.
var signers = sync.OnceValue(func() map[string]crypto.Signer {
	must := func(k crypto.Signer, err error) crypto.Signer {
		if err != nil {
			panic(err)
		}
		return k
	}
	curve := func(c elliptic.Curve) crypto.Signer { k, err := ecdsa.GenerateKey(c, rand.Reader); return must(k, err) }
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, edErr := ed25519.GenerateKey(rand.Reader)
	return map[string]crypto.Signer{
		"rsa": must(r, err), "p256": curve(elliptic.P256()), "p384": curve(elliptic.P384()), "p521": curve(elliptic.P521()), "ed": must(ed, edErr),
	}
})

// jwks returns the public halves as a set of keys.
func jwks(ids ...string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	var set []map[string]string
	for _, id := range ids {
		j := map[string]string{"kid": id, "use": "sig"}
		switch k := signers()[id].Public().(type) {
		case *rsa.PublicKey:
			j["kty"], j["n"], j["e"] = "RSA", b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes())
		case *ecdsa.PublicKey:
			point, err := k.Bytes()
			if err != nil {
				panic(err)
			}
			half := len(point) / 2
			j["kty"], j["crv"], j["x"], j["y"] = "EC", k.Params().Name, b64(point[1:1+half]), b64(point[1+half:])
		case ed25519.PublicKey:
			j["kty"], j["crv"], j["x"] = "OKP", "Ed25519", b64(k)
		}
		set = append(set, j)
	}
	text, err := json.Marshal(map[string]any{"keys": set})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func pemOf(t testing.TB, id string) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(signers()[id].Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func put(t testing.TB, text string) string {
	t.Helper()
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// noon is when the tests of tokens take place.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func verifier(t testing.TB, env map[string]string) *Verifier {
	t.Helper()
	all := map[string]string{"LBREMEDY_ENDPOINT_JWT_ISSUER": "https://issuer", "LBREMEDY_ENDPOINT_JWT_AUDIENCE": "lbremedy"}
	for k, v := range env {
		all["LBREMEDY_ENDPOINT_JWT_"+k] = v
	}
	v, err := NewVerifier(t.Context(), func(name string) string { return all[name] })
	if err != nil {
		t.Fatal(err)
	}
	v.now = func() time.Time { return noon }
	return v
}

// claims returns good ones, changed.
func claims(change ...func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://issuer", "aud": "lbremedy", "sub": "courier", "exp": noon.Add(time.Hour).Unix(), "nbf": noon.Unix()}
	for _, do := range change {
		do(c)
	}
	return c
}

func set(name string, value any) func(jwt.MapClaims) {
	return func(c jwt.MapClaims) {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
}

func sign(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, c jwt.Claims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	maps.Copy(token.Header, header)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An endpoint lets in who shows a token of its issuer that is for it and in its time, and
// tells everybody else why not without showing the token to anybody.
func TestJWT(t *testing.T) {
	t.Parallel()
	k := signers()
	id := func(s string) map[string]any { return map[string]any{"kid": s} }
	rs := func(c jwt.MapClaims) string { return sign(t, jwt.SigningMethodRS256, k["rsa"], id("rsa"), c) }
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := rs(claims())
	parts := strings.Split(good, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://issuer","aud":"lbremedy","sub":"root","exp":99999999999}`))
	set256 := jwks("rsa", "p256", "p384", "p521", "ed")
	public := pemOf(t, "rsa")
	both := pemOf(t, "p256") + public
	for _, tt := range []struct {
		name, token string
		keys        string // set256 if empty
		subject     string
		says        string // empty: it is let in
	}{
		{name: "RS256", token: good},
		{name: "PS384", token: sign(t, jwt.SigningMethodPS384, k["rsa"], id("rsa"), claims())},
		{name: "ES256", token: sign(t, jwt.SigningMethodES256, k["p256"], id("p256"), claims())},
		{name: "ES384", token: sign(t, jwt.SigningMethodES384, k["p384"], id("p384"), claims())},
		{name: "ES512", token: sign(t, jwt.SigningMethodES512, k["p521"], id("p521"), claims())},
		{name: "EdDSA", token: sign(t, jwt.SigningMethodEdDSA, k["ed"], id("ed"), claims())},
		{name: "without a key ID", token: sign(t, jwt.SigningMethodES256, k["p256"], nil, claims())},
		{name: "by keys in PEM", token: good, keys: both},
		{name: "several audiences", token: rs(claims(set("aud", []string{"others", "lbremedy"})))},
		{name: "one of the subjects", token: good, subject: "someone, courier"},
		{name: "ended within the leeway", token: rs(claims(set("exp", noon.Add(-59*time.Second).Unix())))},
		{name: "begins within the leeway", token: rs(claims(set("nbf", noon.Add(59*time.Second).Unix())))},

		{name: "ended", token: rs(claims(set("exp", noon.Add(-61*time.Second).Unix()))),
			says: "it ended at 2026-11-21T11:58:59Z, and here it is 2026-11-21T12:00:00Z"},
		{name: "not begun", token: rs(claims(set("nbf", noon.Add(61*time.Second).Unix()))),
			says: "it begins at 2026-11-21T12:01:01Z, and here it is 2026-11-21T12:00:00Z; compare the clocks"},
		{name: "without an end", token: rs(claims(set("exp", nil))), says: "no issuer, no audience or no end"},
		{name: "another issuer", token: rs(claims(set("iss", "https://other"))), says: "another issuer than https://issuer"},
		{name: "no issuer", token: rs(claims(set("iss", nil))), says: "no issuer"},
		{name: "another audience", token: rs(claims(set("aud", "api"))), says: "not for the audience lbremedy"},
		{name: "no audience", token: rs(claims(set("aud", nil))), says: "no issuer, no audience"},
		{name: "another subject", token: good, subject: "admin", says: "its subject may not call"},
		{name: "none", token: sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, id("rsa"), claims()), says: "no key that is known here"},
		{name: "signed with the public key as a secret", token: sign(t, jwt.SigningMethodHS256, []byte(public), id("rsa"), claims()), keys: public,
			says: "no key that is known here"},
		{name: "an unknown algorithm", token: strings.Join([]string{base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"XS1"}`)), parts[1], parts[2]}, "."),
			says: "no key that is known here"},
		{name: "a stranger's key", token: sign(t, jwt.SigningMethodES256, other, id("p256"), claims()), says: "no key that is known here"},
		{name: "a stranger's key of another ID", token: sign(t, jwt.SigningMethodES256, other, id("new"), claims()), says: "no key that is known here"},
		{name: "a key under another's ID", token: sign(t, jwt.SigningMethodRS256, k["rsa"], id("p256"), claims()), says: "no key that is known here"},
		{name: "an algorithm of another curve", token: sign(t, jwt.SigningMethodES256, k["p256"], id("p384"), claims()), says: "no key that is known here"},
		{name: "forged claims", token: parts[0] + "." + forged + "." + parts[2], says: "no key that is known here"},
		{name: "no signature", token: parts[0] + "." + parts[1] + ".", says: "no key that is known here"},
		{name: "a critical header", token: sign(t, jwt.SigningMethodRS256, k["rsa"], map[string]any{"kid": "rsa", "crit": []string{"b64"}}, claims()),
			says: "not understood here"},
		{name: "two parts", token: parts[0] + "." + parts[1], says: "no JSON Web Token"},
		{name: "words", token: "open sesame", says: "no JSON Web Token"},
		{name: "an audience that is a number", token: rs(claims(set("aud", 7))), says: "no JSON Web Token"},
		{name: "too long", token: good + strings.Repeat("A", maxToken), says: "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			d := &Endpoint{
				JWT: verifier(t, map[string]string{"KEYS": put(t, cmp.Or(tt.keys, set256)), "SUBJECT": tt.subject}),
				Log: slog.New(slog.NewTextHandler(&log, nil)), Handle: func(context.Context, cloudevents.Event) host.Reply { return host.Reply{} },
			}
			q := httptest.NewRequest("POST", "/", strings.NewReader(marshal(t, failure(someService))))
			q.Header.Set("Authorization", "Bearer "+tt.token)
			a := httptest.NewRecorder()
			d.Handler().ServeHTTP(a, q)
			want := http.StatusNoContent
			if tt.says != "" {
				want = http.StatusUnauthorized
			}
			if a.Code != want || !strings.Contains(a.Body.String(), tt.says) {
				t.Errorf("got %d: %s", a.Code, a.Body)
			}
			if lines := strings.Count(log.String(), "\n"); (want == http.StatusUnauthorized) != (lines == 1) || !strings.Contains(log.String(), tt.says) {
				t.Errorf("the log says %s", &log)
			}
			for _, part := range strings.Split(tt.token, ".") {
				if len(part) > 8 && strings.Contains(a.Body.String()+log.String(), part) {
					t.Errorf("the token stands in %s or in %s", a.Body, &log)
				}
			}
		})
	}
}

// A fixed token and a JSON Web Token stand side by side, and what keeps the endpoint from
// knowing is not the caller's fault.
func TestEitherToken(t *testing.T) {
	t.Parallel()
	v := verifier(t, map[string]string{"KEYS": put(t, jwks("ed"))})
	token := sign(t, jwt.SigningMethodEdDSA, signers()["ed"], nil, claims())
	gone := func() ([]string, error) { return nil, errors.New("the file is gone") }
	fixed := func() ([]string, error) { return []string{"fixed"}, nil }
	for _, tt := range []struct {
		tokens func() ([]string, error)
		shown  string
		want   int
	}{
		{fixed, "fixed", 204}, {fixed, token, 204}, {fixed, "other", 401}, {fixed, "", 401},
		{gone, token, 204}, {gone, "fixed", 503}, {nil, token, 204}, {nil, "fixed", 401},
	} {
		d := &Endpoint{Tokens: tt.tokens, JWT: v, Handle: func(context.Context, cloudevents.Event) host.Reply { return host.Reply{} }}
		q := httptest.NewRequest("POST", "/", strings.NewReader(marshal(t, failure(someService))))
		q.Header.Set("Authorization", "Bearer "+tt.shown)
		a := httptest.NewRecorder()
		d.Handler().ServeHTTP(a, q)
		if a.Code != tt.want || (a.Code == 503) != (a.Header().Get("Retry-After") == "10") {
			t.Errorf("%.8q: got %d, %s", tt.shown, a.Code, a.Body)
		}
	}
}

// An issuer stands behind a URL and can be changed.
type issuer struct {
	*httptest.Server
	mu    sync.Mutex
	says  func(http.ResponseWriter, *http.Request)
	asked int
}

func (i *issuer) set(says func(http.ResponseWriter, *http.Request)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.says = says
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		says := i.says
		i.asked++
		i.mu.Unlock()
		says(w, r)
	}))
	i.Config.ErrorLog = log.New(io.Discard, "", 0) // a test calls with the wrong certificate
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

func text(s string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

// Keys of a URL are kept, asked for again when a new key signs, and not at every
// word of a stranger; while their source is away the old ones go on for a day.
func TestKeysOfURL(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	ca := put(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})))
	secret := put(t, "sesame\n")
	v := verifier(t, map[string]string{"KEYS": i.URL + "/keys?secret=hush", "CA": ca, "TOKEN_FILE": secret})
	now := noon
	v.now = func() time.Time { return now }
	v.keys.now = v.now
	token := func(id string, method jwt.SigningMethod) string {
		return sign(t, method, signers()[id], map[string]any{"kid": id}, claims(set("exp", noon.Add(48*time.Hour).Unix())))
	}
	ed, ec := token("ed", jwt.SigningMethodEdDSA), token("p256", jwt.SigningMethodES256)
	verify := func(what, shown string, kind bool, says string, asked int) {
		t.Helper()
		err := v.Verify(t.Context(), shown)
		if (says == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), says) || errors.Is(err, errStranger) != kind) {
			t.Errorf("%s: got %v", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: it tells what the URL holds: %v", what, err)
		}
		if got := i.count(); got != asked {
			t.Errorf("%s: the keys were asked for %d times, want %d", what, got, asked)
		}
	}
	i.set(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	verify("no keys yet", ed, false, "the answer is 403", 1)
	verify("still no keys", ed, false, "the answer is 403", 1)
	now = now.Add(11 * time.Second)
	i.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			t.Errorf("the source is shown %q", r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, jwks("ed"))
	})
	verify("the first key", ed, true, "", 2)
	verify("again", ed, true, "", 2)
	verify("a new key, too soon after", ec, true, "no key that is known here", 2)
	now = now.Add(11 * time.Second)
	i.set(text(jwks("ed", "p256")))
	verify("a new key", ec, true, "", 3)
	for n := range 50 {
		shown := sign(t, jwt.SigningMethodES256, signers()["p256"], map[string]any{"kid": fmt.Sprint(n)}, claims())
		verify("made up", shown, true, "no key that is known here", 3)
	}
	now = now.Add(11 * time.Minute)
	i.set(text(jwks("p256")))
	verify("a key that was taken back", ed, true, "no key that is known here", 4)
	for name, says := range map[string]func(http.ResponseWriter, *http.Request){
		"garbage": text("{"), "an empty set": text(`{"keys":[]}`), "too much": text(`{"keys":[],"x":"` + strings.Repeat("x", maxKeys) + `"}`),
		"elsewhere": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
	} {
		now = now.Add(11 * time.Minute)
		i.set(says)
		verify(name+": the old ones go on", ec, true, "", i.count()+1)
	}
	now = now.Add(25 * time.Hour)
	i.set(text("{"))
	verify("for too long", ec, false, "read the keys of callers from "+i.URL+"/keys: it is no set of keys", i.count()+1)
	now = now.Add(11 * time.Second)
	hold := make(chan struct{})
	defer close(hold)
	i.set(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hold:
		}
	})
	v.keys.limit = 50 * time.Millisecond
	verify("slow", ec, false, "deadline exceeded", i.count()+1)

	v = verifier(t, map[string]string{"KEYS": i.URL})
	if err := v.Verify(t.Context(), ed); err == nil || errors.Is(err, errStranger) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a source of another authority: %v", err)
	}
	v = verifier(t, map[string]string{"KEYS": i.URL, "CA": ca, "TOKEN_FILE": "/nowhere"})
	if err := v.Verify(t.Context(), ed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its token: %v", err)
	}
}

// What is wrong with the settings is said at the start.
func TestNewVerifier(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(weak.Public())
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(signers()["ed"])
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return put(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	for _, tt := range []struct {
		name string
		env  map[string]string
		says string
	}{
		{"nothing", nil, ""},
		{"keys alone", map[string]string{"KEYS": "x"}, "set LBREMEDY_ENDPOINT_JWT_AUDIENCE and LBREMEDY_ENDPOINT_JWT_ISSUER too"},
		{"a subject alone", map[string]string{"SUBJECT": "x"}, "LBREMEDY_ENDPOINT_JWT_KEYS"},
		{"no file", map[string]string{"KEYS": "/nowhere", "ISSUER": "i", "AUDIENCE": "a"}, "no such file"},
		{"plain HTTP", map[string]string{"KEYS": "http://example.com/keys", "ISSUER": "i", "AUDIENCE": "a"}, "use https:// for http://example.com/keys"},
		{"no host", map[string]string{"KEYS": "https://", "ISSUER": "i", "AUDIENCE": "a"}, "neither a file nor a URL"},
		{"no root certificates", map[string]string{"KEYS": "https://example.com", "CA": put(t, "x"), "ISSUER": "i", "AUDIENCE": "a"}, "holds none"},
		{"no such root certificates", map[string]string{"KEYS": "https://example.com", "CA": "/nowhere", "ISSUER": "i", "AUDIENCE": "a"}, "no such file"},
		{"a weak key", map[string]string{"KEYS": block("PUBLIC KEY", der), "ISSUER": "i", "AUDIENCE": "a"}, "no key that can be used"},
		{"a private key", map[string]string{"KEYS": block("PRIVATE KEY", private), "ISSUER": "i", "AUDIENCE": "a"}, "private key"},
		{"a private key in JSON", map[string]string{"KEYS": put(t, `{"keys":[{"kty":"EC","d":"x"}]}`), "ISSUER": "i", "AUDIENCE": "a"}, "private key"},
		{"a broken block", map[string]string{"KEYS": block("PUBLIC KEY", []byte("x")), "ISSUER": "i", "AUDIENCE": "a"}, "can't be read"},
		{"a key for secrets", map[string]string{"KEYS": put(t, strings.ReplaceAll(jwks("ed"), `"sig"`, `"enc"`)), "ISSUER": "i", "AUDIENCE": "a"},
			"no key that can be used"},
	} {
		v, err := NewVerifier(t.Context(), func(name string) string { return tt.env[strings.TrimPrefix(name, "LBREMEDY_ENDPOINT_JWT_")] })
		if (tt.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.says) || v != nil {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	v, err := NewVerifier(t.Context(), func(name string) string {
		return map[string]string{
			"LBREMEDY_ENDPOINT_JWT_KEYS": "http://127.0.0.1:1/keys", "LBREMEDY_ENDPOINT_JWT_ISSUER": "i", "LBREMEDY_ENDPOINT_JWT_AUDIENCE": "a",
		}[name]
	})
	if err != nil || v == nil {
		t.Errorf("keys of this machine: %v", err)
	}
}

// A token that the API server of a cluster gave a service account opens the endpoint that
// it is for, and no other. The keys come from that API server, which asks for a token
// of its own.
func TestServiceAccountToken(t *testing.T) {
	t.Parallel()
	k := cluster.Join(t)
	ns := k.Namespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "courier"}}
	if _, err := k.Client().CoreV1().ServiceAccounts(ns).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request := func(audience ...string) string {
		t.Helper()
		got, err := k.Client().CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "courier", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: audience},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status.Token
	}
	own := request() // for the API server itself
	var of jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(own, &of); err != nil {
		t.Fatal(err)
	}
	ca := k.Config.CAData
	if len(ca) == 0 {
		var err error
		if ca, err = os.ReadFile(k.Config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	v := verifier(t, map[string]string{
		"KEYS": strings.TrimSuffix(k.Config.Host, "/") + "/openid/v1/jwks", "CA": put(t, string(ca)), "TOKEN_FILE": put(t, own),
		"ISSUER": of.Issuer, "SUBJECT": "system:serviceaccount:" + ns + ":courier",
	})
	v.now = wallClock
	if err := v.Verify(t.Context(), request("lbremedy")); err != nil {
		t.Error(err)
	}
	if err := v.Verify(t.Context(), own); err == nil || !strings.Contains(err.Error(), "not for the audience") {
		t.Errorf("a token for the API server: %v", err)
	}
	v.subjects = []string{"system:serviceaccount:" + ns + ":other"}
	if err := v.Verify(t.Context(), request("lbremedy")); err == nil || !strings.Contains(err.Error(), "its subject") {
		t.Errorf("another account's token: %v", err)
	}
	later := time.Now().Add(2 * time.Hour)
	v.now = func() time.Time { return later }
	if err := v.Verify(t.Context(), request("lbremedy")); err == nil || !strings.Contains(err.Error(), "it ended at") {
		t.Errorf("with a clock that is two hours ahead: %v", err)
	}
}

// Where an open endpoint listens.
func TestAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env     map[string]string
		guarded bool
		want    string
		warns   string
	}{
		{nil, true, ":8080", ""},
		{map[string]string{"PORT": "1"}, true, ":1", ""},
		{map[string]string{"PORT": "1", "FC_CUSTOM_LISTEN_PORT": "2"}, true, ":2", ""},
		{map[string]string{"FC_FUNCTION_NAME": "f"}, true, ":9000", ""},
		{map[string]string{"FC_FUNCTION_NAME": "f"}, false, ":9000", "triggers of the function"},
		{map[string]string{"K_SERVICE": "s", "PORT": "1"}, false, ":1", "Knative"},
		{map[string]string{"LBREMEDY_ENDPOINT_OPEN": "true"}, false, ":8080", "LBREMEDY_ENDPOINT_OPEN lets"},
		{map[string]string{"LBREMEDY_ENDPOINT_OPEN": "1"}, false, "127.0.0.1:8080", "this machine alone"},
		{nil, false, "127.0.0.1:8080", "this machine alone"},
	} {
		got, warns := address(func(name string) string { return tt.env[name] }, tt.guarded)
		if got != tt.want || (warns == "") != (tt.warns == "") || !strings.Contains(warns, tt.warns) {
			t.Errorf("%v, guarded %t: got %s, %q", tt.env, tt.guarded, got, warns)
		}
	}
}
