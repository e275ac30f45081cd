package fc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A Gateway is the gateway of Function Compute 3.0: InvokeFunction of its API, and signed HTTP triggers. It verifies each
// signature; its zero value knows no caller. Sources:
//
// - https://www.alibabacloud.com/help/en/functioncompute/fc-3-0/developer-reference/api-fc-2023-03-30-invokefunction
// - https://www.alibabacloud.com/help/en/functioncompute/fc/user-guide/configure-signature-authentication-for-http-triggers
type Gateway struct {
	Callers   []core.Credentials
	Functions map[string]func(body []byte) (kind, text string) // by name; kind is the type of the error, if any
	Trigger   http.Handler                                     // serves all paths outside the API

	mu     sync.Mutex
	nonces map[string]bool
}

const apiPath = "/2023-03-30/functions/"

// ServeHTTP serves a request like the gateway.
func (f *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20))
	if err != nil {
		f.refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge")
		return
	}
	path, api := strings.CutPrefix(r.URL.Path, apiPath)
	if status, code := f.signed(r, body, api); code != "" {
		f.refuse(w, status, code)
		return
	}
	if !api {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		f.Trigger.ServeHTTP(w, r)
		return
	}
	name, ok := strings.CutSuffix(path, "/invocations")
	run := f.Functions[name]
	switch {
	case !ok || r.Method != http.MethodPost:
		f.refuse(w, http.StatusBadRequest, "InvalidArgument")
		return
	case run == nil:
		f.refuse(w, http.StatusNotFound, "FunctionNotFound")
		return
	}
	kind, text := run(body)
	w.Header().Set("X-Fc-Request-Id", "1")
	if kind != "" {
		w.Header().Set("X-Fc-Error-Type", "HandledInvocationError")
		_ = json.NewEncoder(w).Encode(map[string]string{"errorType": kind, "errorMessage": text})
		return
	}
	_, _ = io.WriteString(w, text)
}

func (f *Gateway) signed(r *http.Request, body []byte, api bool) (int, string) {
	h := r.Header
	said := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(h.Get("Authorization"), core.ACS3+" "), ",") {
		k, v, _ := strings.Cut(part, "=")
		said[k] = v
	}
	names := strings.Split(said["SignedHeaders"], ";")
	must, hash := []string{"x-acs-date"}, ""
	if api {
		must, hash = core.ACS3Signed, core.Digest(body)
		if h.Get("x-acs-action") != "InvokeFunction" || h.Get("x-acs-version") != "2023-03-30" {
			return http.StatusBadRequest, "InvalidArgument"
		}
	}
	if h.Get("x-acs-security-token") != "" {
		must = append(slices.Clone(must), "x-acs-security-token")
	}
	i := slices.IndexFunc(f.Callers, func(c core.Credentials) bool {
		return c.AccessKeyID == said["Credential"] && c.Token == h.Get("x-acs-security-token")
	})
	if i < 0 {
		return http.StatusForbidden, "AccessDenied"
	}
	if slices.ContainsFunc(must, func(n string) bool { return !slices.Contains(names, n) }) {
		return http.StatusForbidden, "SignatureNotMatch"
	}
	stamp, err := time.Parse("2006-01-02T15:04:05Z", h.Get("x-acs-date"))
	if err != nil || time.Since(stamp).Abs() > core.Skew {
		return http.StatusForbidden, "RequestTimeTooSkewed"
	}
	// Alibaba's examples escape this character in the signed text.
	at := *r.URL
	at.RawPath = strings.ReplaceAll(at.EscapedPath(), "$", "%24")
	asked := &http.Request{Method: r.Method, URL: &at, Host: r.Host, Header: h}
	mac := hmac.New(sha256.New, []byte(f.Callers[i].Secret))
	mac.Write([]byte(core.ACS3Text(asked, at.Query(), hash, names)))
	if given, err := hex.DecodeString(said["Signature"]); err != nil || !hmac.Equal(given, mac.Sum(nil)) {
		return http.StatusForbidden, "SignatureNotMatch"
	}
	if nonce := h.Get("x-acs-signature-nonce"); api {
		f.mu.Lock()
		defer f.mu.Unlock()
		if nonce == "" || f.nonces[nonce] {
			return http.StatusForbidden, "SignatureNonceUsed"
		}
		if f.nonces == nil {
			f.nonces = map[string]bool{}
		}
		f.nonces[nonce] = true
	}
	return 0, ""
}

func (f *Gateway) refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"RequestId": "1", "Code": code, "Message": "the request is refused"})
}
