package ram

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// An OIDCProvider is a trusted issuer of tokens, such as the API server of a cluster whose Pods assume roles (RRSA).
type OIDCProvider struct {
	Name      string   `json:"name,omitempty"`
	Issuer    string   `json:"issuer,omitempty"`
	Audiences []string `json:"audiences,omitempty"` // sts.aliyuncs.com if empty
	Key       string   `json:"key,omitempty"`       // public key in PEM; empty: signatures are not verified
}

// An OIDCTrust allows holders of a provider's token to assume a role.
type OIDCTrust struct {
	Provider string `json:"provider,omitempty"`
	Subject  string `json:"subject,omitempty"` // such as system:serviceaccount:ns:name; * matches any text
}

func (s *State) fillOIDC(list []OIDCProvider) error {
	var err error
	s.OIDCProviders, err = core.Index("OIDC provider", list, func(p *OIDCProvider) string { return p.Name }, func(i int, p *OIDCProvider) {
		if p.Name == "" {
			p.Name = fmt.Sprintf("oidc-%d", i+1)
		}
		if p.Audiences == nil {
			p.Audiences = []string{"sts.aliyuncs.com"}
		}
	})
	errs := []error{err}
	for _, p := range s.OIDCProviders {
		if p.Key == "" {
			continue
		}
		if _, err := publicKey(p.Key); err != nil {
			errs = append(errs, fmt.Errorf("OIDC provider %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

func publicKey(text string) (any, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("key is not in PEM")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience words  `json:"aud"`
	Expires  int64  `json:"exp"`
	Issued   int64  `json:"iat"`
}

// unauthenticated has the texts of https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-errorcodes
func unauthenticated(code, format string, args ...any) *core.Failure {
	return core.Fail(http.StatusUnauthorized, "AuthenticationFail."+code, format, args...)
}

func (p *OIDCProvider) verify(token string, now time.Time) (*claims, *core.Failure) {
	if token == "" {
		return nil, unauthenticated("OIDCToken.Invalid", "The OIDCToken can not empty.")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, unauthenticated("OIDCToken.Invalid", "The number of Jwt field should be divided into 3 parts with '.' .")
	}
	var head struct {
		Algorithm string `json:"alg"`
	}
	var c claims
	for i, v := range []any{&head, &c} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return nil, unauthenticated("OIDCToken.Invalid", "Cannot decode base64 encoded response(format invalided).")
		}
		if json.Unmarshal(b, v) != nil {
			return nil, unauthenticated("OIDCToken.Invalid", "The Jwt content is invalid that cannot be recognized.")
		}
	}
	if !core.OneOf("RS256,ES256", head.Algorithm) {
		return nil, unauthenticated("OIDCToken.Invalid", "The algorithm %s that be specified in Jwt header is unknown.", head.Algorithm)
	}
	if p.Key != "" && !signedJWT(p.Key, parts) {
		return nil, unauthenticated("OIDCToken.InvalidSignature", "OIDC token validate failed: invalid signature.")
	}
	switch {
	case c.Issuer != p.Issuer:
		return nil, unauthenticated("NoPermission", "No such OIDC Provider registered.")
	case !slices.ContainsFunc(c.Audience, func(a string) bool { return slices.Contains(p.Audiences, a) }):
		return nil, unauthenticated("OIDCToken.AudienceNotMatch", "Invalid audience.")
	case !now.Before(time.Unix(c.Expires, 0)):
		return nil, unauthenticated("OIDCToken.Expired", "This JsonWebToken is expired.")
	}
	return &c, nil
}

func signedJWT(key string, parts []string) bool {
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	public, _ := publicKey(key) // checked at the start; an invalid one matches no case
	switch k := public.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	return false
}

// assumeRoleWithOIDC, the only unsigned action, returns credentials of a role to the holder of a token of a provider that the role trusts.
func assumeRoleWithOIDC(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	prefix := "acs:ram::" + s.AccountID + ":oidc-provider/"
	provider := s.OIDCProviders[strings.TrimPrefix(p["OIDCProviderArn"], prefix)]
	if provider == nil || !strings.HasPrefix(p["OIDCProviderArn"], prefix) {
		return nil, unauthenticated("NoPermission", "No such OIDC Provider registered.")
	}
	c, bad := provider.verify(p["OIDCToken"], q.Now)
	if bad != nil {
		return nil, bad
	}
	role, bad := q.assumed()
	if bad != nil {
		return nil, bad
	}
	trusted := slices.ContainsFunc(role.OIDC, func(t OIDCTrust) bool { return t.Provider == provider.Name && core.Glob(t.Subject, c.Subject) })
	if !trusted {
		return nil, unauthenticated("NoPermission", "There is no permission")
	}
	out, bad := q.session(role)
	if bad != nil {
		return nil, bad
	}
	stamp := func(n int64) string { return time.Unix(n, 0).UTC().Format("2006-01-02T15:04:05Z") }
	out["OIDCTokenInfo"] = core.Reply{
		"Subject": c.Subject, "Issuer": c.Issuer, "ClientIds": strings.Join(c.Audience, ","), "ExpirationTime": stamp(c.Expires), "IssuanceTime": stamp(c.Issued),
		"VerificationInfo": "Success",
	}
	return out, nil
}
