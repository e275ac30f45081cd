package sim

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// acs3 parses a request with its action in the headers, and parameters in query and form or, for a product with paths, in path and body.
func acs3(r *http.Request, body []byte) *incoming {
	h := r.Header
	in := &incoming{
		params: core.Params{}, sha256: true, actionName: h.Get("x-acs-action"), product: byVersion[h.Get("x-acs-version")],
		token: h.Get("x-acs-security-token"), nonce: h.Get("x-acs-signature-nonce"),
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	form := url.Values{}
	if err == nil && strings.HasPrefix(h.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err = url.ParseQuery(string(body))
	}
	if err != nil {
		in.bad = core.Fail(http.StatusBadRequest, "InvalidParameter", "The request cannot be read.")
		return in
	}
	for _, values := range []url.Values{query, form} {
		for k, v := range values {
			in.params[k] = v[0]
		}
	}
	said := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(h.Get("Authorization"), core.ACS3), ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		said[k] = v
	}
	names := strings.Split(said["SignedHeaders"], ";")
	in.key, in.signature = said["Credential"], said["Signature"]
	in.text = core.ACS3Text(r, query, core.Digest(body), names)
	in.stamp, err = time.Parse("2006-01-02T15:04:05Z", h.Get("x-acs-date"))
	unsigned := slices.ContainsFunc(core.ACS3Signed, func(n string) bool { return !slices.Contains(names, n) })
	switch {
	case r.URL.Path == "/" && r.Method != http.MethodGet && r.Method != http.MethodPost:
		in.bad = core.Fail(http.StatusMethodNotAllowed, "UnsupportedHTTPMethod", "This http method is not supported.")
	case in.actionName == "":
		in.bad = core.Missing("Action")
	case h.Get("x-acs-version") == "":
		in.bad = core.Missing("Version")
	case in.product == nil:
		in.bad = core.Fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	case in.nonce == "":
		in.bad = core.Missing("SignatureNonce")
	case err != nil:
		in.bad = core.Fail(http.StatusBadRequest, "InvalidTimeStamp.Format", "Specified time stamp or date value is not well formatted.")
	case in.key == "" || in.signature == "" || unsigned:
		in.bad = core.Fail(http.StatusBadRequest, "IncompleteSignature", "The request signature does not conform to Aliyun standards.")
	case r.URL.Path != "/":
		in.action = in.product.Route(r.Method, r.URL.Path, in.params)
		if len(body) > 0 {
			in.params["body"] = string(body)
		}
	default:
		in.action = in.product.Action(in.actionName)
	}
	if in.bad == nil && in.action == nil {
		in.bad = core.Fail(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")
	}
	return in
}
