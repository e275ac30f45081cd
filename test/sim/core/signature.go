package core

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ACS3 is the algorithm of a signature version 3
// (https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature).
const ACS3 = "ACS3-HMAC-SHA256"

// ACS3Signed are the headers that a signature has to cover.
var ACS3Signed = []string{"host", "x-acs-action", "x-acs-content-sha256", "x-acs-date", "x-acs-signature-nonce", "x-acs-version"}

// ACS3Text returns the text that is signed. The hash is that of the body, not of its header, so a modified body does not match.
func ACS3Text(r *http.Request, query url.Values, hash string, names []string) string {
	var text strings.Builder
	path := r.URL.EscapedPath()
	text.WriteString(r.Method + "\n" + path + "\n")
	pairs := make([]string, 0, len(query))
	for k, v := range query {
		pairs = append(pairs, Escape(k)+"="+Escape(v[0]))
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
	return ACS3 + "\n" + Digest([]byte(text.String()))
}

// Digest returns the hexadecimal SHA-256 of b.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Escape encodes a string as RFC 3986 requires, for the signed text.
func Escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
