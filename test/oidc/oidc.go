// Package oidc is an OpenID Connect issuer for tests: the endpoints that an API server needs to accept its tokens, over TLS on
// this machine. Nobody logs in; tests create the tokens.
package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// Audience is the audience of tokens.
	Audience = "kubernetes"
	// Prefix is the prefix of the issuer's users and groups in the cluster.
	Prefix = "oidc:"
)

// An Issuer signs tokens.
type Issuer struct {
	URL string

	t   testing.TB
	key *ecdsa.PrivateKey
	ca  string
}

// Start starts an issuer until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, key: Key(t)}
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	say := func(path string, what any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(what); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	say("/.well-known/openid-configuration", map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
	point, err := i.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	half := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
	say("/keys", map[string]any{"keys": []map[string]string{
		{"kid": "one", "use": "sig", "alg": "ES256", "kty": "EC", "crv": "P-256", "x": half(point[1:33]), "y": half(point[33:])},
	}})
	return i
}

// Key returns a new key that no issuer uses.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Authentication writes a configuration with which an API server accepts the issuer's tokens, and returns its path.
func (i *Issuer) Authentication() string {
	i.t.Helper()
	text := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [%s]
    certificateAuthority: |
      %s
  claimMappings:
    username: {claim: sub, prefix: %q}
    groups: {claim: groups, prefix: %q}
`, i.URL, Audience, strings.ReplaceAll(strings.TrimSpace(i.ca), "\n", "\n      "), Prefix, Prefix)
	file := filepath.Join(i.t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	return file
}

// Token returns a user's token for an hour, with claims that replace or extend the valid ones.
func (i *Issuer) Token(user string, claims jwt.MapClaims) string {
	i.t.Helper()
	return i.Sign(jwt.SigningMethodES256, i.key, user, claims)
}

// Sign returns such a token with another signature.
func (i *Issuer) Sign(by jwt.SigningMethod, key any, user string, claims jwt.MapClaims) string {
	i.t.Helper()
	now := time.Now()
	all := jwt.MapClaims{"iss": i.URL, "aud": Audience, "sub": user, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	token := jwt.NewWithClaims(by, all)
	token.Header["kid"] = "one"
	text, err := token.SignedString(key)
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}
