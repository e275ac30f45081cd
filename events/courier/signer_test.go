package courier

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/lbremedy/lbremedy/events/courier/invoke"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

func writeFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func pemOf(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Tokens hold what the route says and are signed so that the public key proves it.
func TestJWT(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	proves := map[string]func(text, signature []byte) bool{
		"RS256": func(text, signature []byte) bool {
			sum := sha256.Sum256(text)
			return rsa.VerifyPKCS1v15(&rsaKey.PublicKey, crypto.SHA256, sum[:], signature) == nil
		},
		"ES256": func(text, signature []byte) bool {
			sum := sha256.Sum256(text)
			return len(signature) == 64 && ecdsa.Verify(&ecKey.PublicKey, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
		},
		"EdDSA": func(text, signature []byte) bool {
			return ed25519.Verify(edKey.Public().(ed25519.PublicKey), text, signature)
		},
	}
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct{ key, algorithm string }{
		"RSA":         {pemOf(t, rsaKey), "RS256"},
		"RSA, PKCS 1": {string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})), "RS256"},
		"P-256":       {pemOf(t, ecKey), "ES256"},
		"P-256, SEC1": {string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})), "ES256"},
		"Ed25519":     {pemOf(t, edKey), "EdDSA"},
	} {
		token, err := makeToken(JWT{Key: writeFile(t, tt.key), KeyID: "k1", Issuer: "i", Subject: "s", Audience: "https://a"}, time.Minute, now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		parts := strings.Split(token, ".")
		var decoded [3][]byte
		for i, part := range parts {
			if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		var head struct{ Alg, Typ, Kid string }
		var claims struct {
			Iss, Sub, Aud, Jti string
			Iat, Nbf, Exp      int64
		}
		if err := errors.Join(json.Unmarshal(decoded[0], &head), json.Unmarshal(decoded[1], &claims)); err != nil {
			t.Fatal(err)
		}
		if head.Alg != tt.algorithm || head.Typ != "JWT" || head.Kid != "k1" {
			t.Errorf("%s: the head is %+v", name, head)
		}
		if claims.Iss != "i" || claims.Sub != "s" || claims.Aud != "https://a" || claims.Jti == "" || claims.Iat != now.Unix() || claims.Nbf != now.Unix()-30 ||
			claims.Exp != now.Unix()+60 {
			t.Errorf("%s: the claims are %+v", name, claims)
		}
		if !proves[tt.algorithm]([]byte(parts[0]+"."+parts[1]), decoded[2]) {
			t.Errorf("%s: the signature is wrong", name)
		}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"no PEM file":        "s3cr3t",
		"no private key":     "-----BEGIN PRIVATE KEY-----\nczNjcjN0\n-----END PRIVATE KEY-----\n",
		"neither RSA nor":    pemOf(t, p384),
		"no such file or di": "",
	} {
		file := writeFile(t, text)
		if text == "" {
			file += "-none"
		}
		if _, err := makeToken(JWT{Key: file}, time.Minute, now); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") ||
			strings.Contains(err.Error(), "czNj") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A function's own endpoint lets the courier in by its tokens, and tells it when it is not
// whom the tokens are for.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{
		"LBREMEDY_ENDPOINT_JWT_KEYS":   writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))),
		"LBREMEDY_ENDPOINT_JWT_ISSUER": "lbremedy-courier", "LBREMEDY_ENDPOINT_JWT_AUDIENCE": "lbremedy", "LBREMEDY_ENDPOINT_JWT_SUBJECT": "lbremedy-courier",
	}
	verifier, err := serve.NewVerifier(t.Context(), func(name string) string { return environment[name] })
	if err != nil {
		t.Fatal(err)
	}
	endpoint := &serve.Endpoint{JWT: verifier, Handle: func(context.Context, cloudevents.Event) host.Reply { return host.Reply{} }}
	function := httptest.NewServer(endpoint.Handler())
	t.Cleanup(function.Close)
	p := newPlace(t, time.Second, "busy", "quota")
	p.fail(t, "busy", 1, 1)
	p.fail(t, "quota", 1, 1)
	file := writeFile(t, pemOf(t, key))
	c, _ := running(t, p.Stream, known, fmt.Sprintf("routes: {busy: {url: '%s', auth: {jwt: {key: '%s', audience: lbremedy}}}, quota: {url: '%s', auth: "+
		"{jwt: {key: '%s'}}}}",
		function.URL, file, function.URL, file), io.Discard)
	shell.Until(t, "the one whose token is for the function is delivered", func() bool { return p.open(t, "busy") == 0 })
	shell.Until(t, "the other one is told of", func() bool { return c.Ready() != nil })
	if got := c.Ready().Error(); !strings.HasPrefix(got, "quota: the function answers 401: ") || strings.Contains(got, "busy") {
		t.Errorf("got %s", got)
	}
}

// What a function in Function Compute's own Go runtime says for good is known by the
// name of its type.
func TestUnhandled(t *testing.T) {
	t.Parallel()
	endpoint := &serve.Endpoint{Handle: func(context.Context, cloudevents.Event) host.Reply { return host.Reply{Dead: "no"} }}
	for _, payload := range []string{"no event", `{"specversion":"1.0","id":"1","type":"t","source":"s"}`} {
		if _, err := endpoint.Invoke(t.Context(), []byte(payload)); err == nil || reflect.TypeOf(err).Name() != unhandled {
			t.Errorf("%s: got %T", payload, err)
		}
	}
	endpoint.Handle = func(context.Context, cloudevents.Event) host.Reply {
		return host.Reply{Dead: "no", Err: engine.ErrForeign}
	}
	if _, err := endpoint.Invoke(t.Context(), []byte(`{"specversion":"1.0","id":"1","type":"t","source":"s"}`)); err == nil || reflect.TypeOf(err).
		Name() != misdirected {
		t.Errorf("another cluster's: got %T", err)
	}
}

// Tokens are read for each request. What is wrong with them is the route's fault, and
// no secret stands in what is said of it.
func TestBearer(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	f := newFunction(t, nil)
	file := writeFile(t, "first\n")
	var log shell.Log
	c, _ := running(t, p.Stream, known, fmt.Sprintf("routes: {busy: {url: '%s', auth: {bearer: '%s'}, headers: {X-Api: k3y, Host: busy.internal}}}", f.URL,
		file), &log)
	p.fail(t, "busy", 1, 1)
	shell.Until(t, "it is delivered", func() bool { return p.open(t, "busy") == 0 })
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.fail(t, "busy", 2, 1)
	shell.Until(t, "it is delivered", func() bool { return p.open(t, "busy") == 0 })
	got := f.all()
	if got[0].Get("Authorization") != "Bearer first" || got[1].Get("Authorization") != "Bearer second" || got[1].Get("X-Api") != "k3y" ||
		got[1].host != "busy.internal" {
		t.Errorf("the function got %v and %v at %s", got[0].Header, got[1].Header, got[1].host)
	}
	if err := os.WriteFile(file, []byte("two words of s3cr3t"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.fail(t, "busy", 3, 1)
	shell.Until(t, "the route is told to be wrong", func() bool { return c.Ready() != nil })
	if text := c.Ready().Error() + log.String(); !strings.Contains(text, "holds none") || strings.Contains(text, "s3cr3t") || strings.Contains(text, "k3y") ||
		strings.Contains(text, "second") {
		t.Errorf("it says %s", text)
	}
	if n := len(f.all()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// Functions of Function Compute, by the API and by a trigger that asks for a signature.
// The gateway checks each signature by itself.
func TestFunctionCompute(t *testing.T) {
	t.Parallel()
	classes := []string{"fine", "waits", "dies", "nobody", "trigger", "large", "mistaken", "other"}
	p := newPlace(t, time.Second, classes...)
	behind := newFunction(t, nil)
	gateway := httptest.NewServer(&fc.Gateway{
		Callers: []sim.Credentials{{AccessKeyID: "LTAI4TestTestTest", Secret: "s3cr3t", Token: "t0ken"}},
		Functions: map[string]func([]byte) (string, string){
			"f-fine":  func(body []byte) (string, string) { return "", `{"case":"a"}` },
			"f-waits": func([]byte) (string, string) { return "errorString", "the case is not settled yet" },
			"f-dies":  func([]byte) (string, string) { return "Dead", "it can never be" },
			"f-other": func([]byte) (string, string) { return "Misdirected", "it is of another cluster" },
		},
		Trigger: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/large":
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			case "/mistaken":
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"RequestId":"1","Code":"InvalidArgument","Message":"no"}`)
			default:
				behind.ServeHTTP(w, r)
			}
		}),
	})
	t.Cleanup(gateway.Close)
	text := fmt.Sprintf(`
default: {invoke: {function: "f-{class}", account: "12345", region: cn-hangzhou, endpoint: %q}}
routes:
  trigger: {url: "%s/a?b=c", auth: {fc: true}}
  large: {url: "%s/large", auth: {fc: true}}
  mistaken: {url: "%s/mistaken", auth: {fc: true}}
`, gateway.URL, gateway.URL, gateway.URL, gateway.URL)
	routes := parsed(t, text, classes)
	for _, class := range classes {
		p.fail(t, class, 1, 1)
	}
	var log shell.Log
	keys := func(context.Context) (invoke.Key, error) {
		return invoke.Key{ID: "LTAI4TestTestTest", Secret: "s3cr3t", Token: "t0ken"}, nil
	}
	c, _ := runningRoutes(t, Config{Cluster: "c1", Stream: p.Stream, Keys: keys, Log: slog.New(slog.NewJSONHandler(&log, nil))}, routes, nil)
	for _, class := range []string{"fine", "dies", "trigger", "large"} {
		shell.Until(t, class+" ends", func() bool { return p.open(t, class) == 0 })
	}
	shell.Until(t, "the wrong routes are told of", func() bool {
		err := c.Ready()
		return err != nil && strings.Contains(err.Error(), "nobody: ") && strings.Contains(err.Error(), "mistaken: ") &&
			strings.Contains(err.Error(), "other: ") && strings.Contains(log.String(), "not settled yet")
	})
	if got := c.Ready().Error(); strings.Contains(got, "waits") || strings.Contains(got, "fine") {
		t.Errorf("wrong are %s", got)
	}
	if n := len(p.dead(t)); n != 2 {
		t.Errorf("%d dead letters, want those of dies and large", n)
	}
	if n := len(behind.all()); n != 1 || behind.all()[0].event != uid(1)+".1.7" {
		t.Errorf("the function behind the trigger got %d", n)
	}
	for _, class := range []string{"waits", "nobody", "mistaken", "other"} {
		if p.open(t, class) != 1 {
			t.Errorf("the message of %s does not come again", class)
		}
	}
	if text := log.String(); strings.Contains(text, "s3cr3t") || strings.Contains(text, "t0ken") {
		t.Errorf("the log is %s", text)
	}
}

// Without a key, nothing is sent, and the message is not to blame.
func TestNoKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	routes := parsed(t, "routes: {busy: {url: 'http://127.0.0.1:1', auth: {fc: true}}}", known)
	p.fail(t, "busy", 1, 1)
	c, _ := runningRoutes(t, Config{Cluster: "c1", Stream: p.Stream, Keys: func(context.Context) (invoke.Key, error) {
		return invoke.Key{},
			errors.New("no access key found")
	}}, routes, nil)
	shell.Until(t, "it is told", func() bool { return c.Ready() != nil })
	if got := c.Ready().Error(); got != "busy: no access key found" {
		t.Errorf("got %s", got)
	}
}
