package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// acs3Scheme begins the Authorization header of a request that is signed with
// signature version 3:
// https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
const acs3Scheme = "ACS3-HMAC-SHA256"

// acs3Signed are the headers without which a signature proves nothing.
var acs3Signed = []string{"host", "x-acs-action", "x-acs-content-sha256", "x-acs-date", "x-acs-signature-nonce", "x-acs-version"}

// acs3 reads a request whose headers say what it wants, and whose parameters
// are in its query, its form or, for a product with paths, its path and body.
func acs3(r *http.Request, body []byte) *incoming {
	h := r.Header
	in := &incoming{
		params: params{}, sha256: true, actionName: h.Get("x-acs-action"), product: byVersion[h.Get("x-acs-version")],
		token: h.Get("x-acs-security-token"), nonce: h.Get("x-acs-signature-nonce"),
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	form := url.Values{}
	if err == nil && strings.HasPrefix(h.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err = url.ParseQuery(string(body))
	}
	if err != nil {
		in.bad = fail(http.StatusBadRequest, "InvalidParameter", "The request cannot be read.")
		return in
	}
	for _, values := range []url.Values{query, form} {
		for k, v := range values {
			in.params[k] = v[0]
		}
	}
	said := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(h.Get("Authorization"), acs3Scheme), ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		said[k] = v
	}
	names := strings.Split(said["SignedHeaders"], ";")
	in.key, in.signature = said["Credential"], said["Signature"]
	in.text = acs3Text(r, query, digest(body), names)
	in.stamp, err = time.Parse("2006-01-02T15:04:05Z", h.Get("x-acs-date"))
	unsigned := slices.ContainsFunc(acs3Signed, func(n string) bool { return !slices.Contains(names, n) })
	switch {
	case r.URL.Path == "/" && r.Method != http.MethodGet && r.Method != http.MethodPost:
		in.bad = fail(http.StatusMethodNotAllowed, "UnsupportedHTTPMethod", "This http method is not supported.")
	case in.actionName == "":
		in.bad = missing("Action")
	case h.Get("x-acs-version") == "":
		in.bad = missing("Version")
	case in.product == nil:
		in.bad = fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	case in.nonce == "":
		in.bad = missing("SignatureNonce")
	case err != nil:
		in.bad = fail(http.StatusBadRequest, "InvalidTimeStamp.Format", "Specified time stamp or date value is not well formatted.")
	case in.key == "" || in.signature == "" || unsigned:
		in.bad = fail(http.StatusBadRequest, "IncompleteSignature", "The request signature does not conform to Aliyun standards.")
	case r.URL.Path != "/":
		in.action = in.product.route(r.Method, r.URL.Path, in.params)
		if len(body) > 0 {
			in.params["body"] = string(body)
		}
	default:
		in.action = in.product.action(in.actionName)
	}
	if in.bad == nil && in.action == nil {
		in.bad = fail(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")
	}
	return in
}

// acs3Text returns what the signature is over. The body's hash is computed from the
// body and not believed, so that a body that was changed does not match.
func acs3Text(r *http.Request, query url.Values, hash string, names []string) string {
	var text strings.Builder
	path := r.URL.EscapedPath()
	text.WriteString(r.Method + "\n" + path + "\n")
	pairs := make([]string, 0, len(query))
	for k, v := range query {
		pairs = append(pairs, escape(k)+"="+escape(v[0]))
	}
	slices.Sort(pairs)
	text.WriteString(strings.Join(pairs, "&") + "\n")
	for _, n := range names {
		v := strings.TrimSpace(strings.Join(r.Header.Values(n), ","))
		switch n {
		case "host":
			v = r.Host
		case "x-acs-content-sha256":
			v = hash
		}
		text.WriteString(n + ":" + v + "\n")
	}
	text.WriteString("\n" + strings.Join(names, ";") + "\n" + hash)
	return acs3Scheme + "\n" + digest([]byte(text.String()))
}

// digest returns the SHA-256 of b, in hexadecimal.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
