// Function Compute 3.0 is invoked by an HTTP trigger that requires a signature, and by its API InvokeFunction.
//
// The core of Alibaba's maintained clients, darabonba-openapi, makes the signatures; only this package imports it. The caller sends
// the request itself, as Alibaba describes for HTTP triggers. The generated client fc-20230330 would add only the path and four
// headers: it has no context, reads answers without a limit, and may send a request twice.

package route

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	openapiutil "github.com/alibabacloud-go/darabonba-openapi/v2/utils"
	"github.com/alibabacloud-go/tea/dara"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

const (
	scheme  = "ACS3-HMAC-SHA256"
	version = "2023-03-30" // of the API
)

// address returns the URL of InvokeFunction
// (https://www.alibabacloud.com/help/en/functioncompute/fc-3-0/developer-reference/api-fc-2023-03-30-invokefunction).
func (i Invoke) address() string {
	endpoint := i.Endpoint
	if endpoint == "" {
		internal := ""
		if i.Internal {
			internal = "-internal"
		}
		endpoint = "https://" + i.Account + "." + i.Region + internal + ".fc.aliyuncs.com"
	}
	query := ""
	if i.Qualifier != "" {
		query = "?" + url.Values{"qualifier": {i.Qualifier}}.Encode()
	}
	return endpoint + "/" + version + "/functions/" + url.PathEscape(i.Function) + "/invocations" + query
}

func signAPI(r *http.Request, body []byte, k cloud.Key, now time.Time) {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	h := r.Header
	h.Set("x-fc-invocation-type", "Sync")
	h.Set("x-acs-action", "InvokeFunction")
	h.Set("x-acs-version", version)
	h.Set("x-acs-signature-nonce", rand.Text())
	h.Set("x-acs-content-sha256", hash)
	sign(r, k, now, hash)
}

// signTrigger signs a request to an HTTP trigger, without its body
// (https://www.alibabacloud.com/help/en/functioncompute/fc/user-guide/configure-signature-authentication-for-http-triggers).
func signTrigger(r *http.Request, k cloud.Key, now time.Time) { sign(r, k, now, "") }

func sign(r *http.Request, k cloud.Key, now time.Time, payload string) {
	r.Header.Set("x-acs-date", now.UTC().Format("2006-01-02T15:04:05Z"))
	if k.Token != "" {
		r.Header.Set("x-acs-security-token", k.Token)
	}
	headers := map[string]*string{}
	if payload != "" { // Alibaba's example for triggers signs neither host nor content type
		headers["host"] = dara.String(r.Host)
	}
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-acs-") || lower == "content-type" && payload != "" {
			headers[lower] = dara.String(r.Header.Get(name))
		}
	}
	query := map[string]*string{}
	for name, values := range r.URL.Query() {
		query[name] = dara.String(values[0])
	}
	// Alibaba's examples escape this character of the path; net/url does not.
	path := strings.ReplaceAll(r.URL.EscapedPath(), "$", "%24")
	request := &dara.Request{Method: dara.String(r.Method), Pathname: dara.String(path), Headers: headers, Query: query}
	r.Header.Set("Authorization", *openapiutil.GetAuthorization(request, dara.String(scheme), dara.String(payload), dara.String(k.ID), dara.String(k.Secret)))
}

// faultOf returns the error of a function invoked by the API. A header marks it: the status is 200 all the same.
func faultOf(h http.Header, body []byte) (text string, ok bool) {
	if h.Get("X-Fc-Error-Type") == "" {
		return "", false
	}
	var f struct{ ErrorMessage string }
	if err := json.Unmarshal(body, &f); err != nil || f.ErrorMessage == "" {
		return string(body), true
	}
	return f.ErrorMessage, true
}

// refused reports whether an answer is Function Compute's own: it names the refused request.
func refused(body []byte) bool {
	var f struct {
		Code      string
		RequestID string `json:"RequestId"`
	}
	return json.Unmarshal(body, &f) == nil && f.Code != "" && f.RequestID != ""
}
