package serve

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/golang-jwt/jwt/v5"

	"github.com/lbremedy/lbremedy/shared/host"
)

// FuzzEndpoint sends anything to the endpoint. It answers, and hands on nothing but valid
// CloudEvents.
func FuzzEndpoint(f *testing.F) {
	structured := `{"specversion":"1.0","id":"1","type":"t","source":"/s","datacontenttype":"application/json","data":{"a":1}}`
	f.Add("POST", "/", "application/cloudevents+json", "", "", []byte(structured))
	f.Add("POST", "/invoke", "", "", "", []byte(structured[:40]))
	f.Add("POST", "/", "application/json", "1.0", "1", []byte(`{"a":1}`))
	f.Add("POST", "/", "application/cloudevents-batch+json", "", "", []byte(`[`+structured+`]`))
	f.Add("POST", "/", "text/plain; charset=\"", "0.3", "%", []byte{0xff})
	f.Add("GET", "/healthz", "", "", "", []byte{})
	f.Add("POST", "/", "", "", "", []byte(wrapped(f, nil, structured)))
	f.Add("POST", "/", "", "", "", []byte(wrapped(f, map[string]string{"ce-specversion": "1.0"}, "x")))
	f.Add("POST", "/", "", "", "", fcTrigger(f, "POST", "/", nil, structured, false))
	f.Add("POST", "/", "", "", "", fcTrigger(f, "GE T", "%", map[string]string{"a b": "\n"}, "=", true))
	d := &Endpoint{Handle: func(_ context.Context, e cloudevents.Event) host.Reply {
		if err := e.Validate(); err != nil {
			panic(err)
		}
		return host.Reply{}
	}}
	h := d.Handler()
	f.Fuzz(func(t *testing.T, method, path, media, version, id string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Method, r.URL.Path = method, path
		r.Header = http.Header{"Content-Type": {media}, "Ce-Type": {"t"}, "Ce-Source": {"/s"}, "Ce-Id": {id}}
		if version != "" {
			r.Header["Ce-Specversion"] = []string{version}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 || w.Code == http.StatusInternalServerError {
			t.Errorf("%s %q: status %d", method, path, w.Code)
		}
		if _, err := d.Invoke(t.Context(), body); err == nil && len(body) == 0 {
			t.Error("an empty payload was answered")
		}
	})
}

// FuzzVerify shows anything as a token. Nothing but what the issuer signed is good,
// and what is wrong is the caller's fault.
func FuzzVerify(f *testing.F) {
	v := verifier(f, map[string]string{"KEYS": put(f, jwks("ed", "p256"))})
	good := sign(f, jwt.SigningMethodEdDSA, signers()["ed"], map[string]any{"kid": "ed"}, claims())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add("e30.e30.")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if err := v.Verify(t.Context(), token); err == nil && token != good || err != nil && !errors.Is(err, errStranger) {
			t.Errorf("%q: %v", token, err)
		}
	})
}

// FuzzKeys reads anything as the keys of an issuer. What comes out is a public key
// that verifies without a panic.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(jwks("rsa", "p256", "p521", "ed")))
	f.Add([]byte(pemOf(f, "p384")))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"oct","k":"AA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseKeys(text)
		if (err == nil) != (len(all) > 0) || len(all) > mostKeys {
			t.Fatalf("%d keys, %v", len(all), err)
		}
		for _, k := range all {
			if !usable(k.public) {
				t.Errorf("the key %v can't be used", k)
			}
			for _, method := range []jwt.SigningMethod{jwt.SigningMethodRS256, jwt.SigningMethodES256, jwt.SigningMethodES384, jwt.SigningMethodES512,
				jwt.SigningMethodEdDSA} {
				if k.fits("", method.Alg()) && method.Verify("a", make([]byte, 64), k.public) == nil {
					t.Errorf("no signature is good for %v", k)
				}
			}
		}
	})
}
