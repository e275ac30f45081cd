package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// leeway is how far a caller's clock may be from ours.
const leeway = time.Minute

// maxToken is how many bytes a caller's token may have. Those of Kubernetes have
// about a thousand.
const maxToken = 16 << 10

// errStranger marks what is wrong with a caller's token. Any other error says
// nothing of the caller.
var errStranger = errors.New("the caller's token is not good here")

// errCritical marks a header that must be understood and isn't.
var errCritical = errors.New("a critical header")

// A Verifier checks the JSON Web Tokens that callers show: that one of the issuer's
// keys has signed them, that they are for this endpoint, and that it is their time. The
// tokens of Kubernetes service accounts are such tokens.
type Verifier struct {
	issuer, audience string
	subjects         []string // who may call; empty: whoever the issuer gave a token for the audience
	keys             *keys
	now              func() time.Time
}

// NewVerifier returns the Verifier that the environment asks for, nil if it asks for
// none:
//
//	LBREMEDY_ENDPOINT_JWT_KEYS        file or https:// URL of the issuer's public keys, as JWKS or PEM
//	LBREMEDY_ENDPOINT_JWT_ISSUER      the "iss" that a token must have
//	LBREMEDY_ENDPOINT_JWT_AUDIENCE    the "aud" that a token must name
//	LBREMEDY_ENDPOINT_JWT_SUBJECT     the "sub" that a token must have, several with commas between; empty: any
//	LBREMEDY_ENDPOINT_JWT_CA          file with the root certificates of the URL; empty: the system's
//	LBREMEDY_ENDPOINT_JWT_TOKEN_FILE  file with the token that the URL asks for, as a cluster's API server does
//
// A file of keys is read at once, so that a wrong one is known at the start; a URL
// when the first token comes. It is an error if one of the first three is missing:
// a signature says who wrote a token, and not whom it is for.
func NewVerifier(ctx context.Context, getenv func(string) string) (*Verifier, error) {
	v := &Verifier{issuer: getenv("LBREMEDY_ENDPOINT_JWT_ISSUER"), audience: getenv("LBREMEDY_ENDPOINT_JWT_AUDIENCE"), now: wallClock}
	source := getenv("LBREMEDY_ENDPOINT_JWT_KEYS")
	for s := range strings.SplitSeq(getenv("LBREMEDY_ENDPOINT_JWT_SUBJECT"), ",") {
		if s = strings.TrimSpace(s); s != "" {
			v.subjects = append(v.subjects, s)
		}
	}
	var missing []string
	for name, value := range map[string]string{"KEYS": source, "ISSUER": v.issuer, "AUDIENCE": v.audience} {
		if value == "" {
			missing = append(missing, "LBREMEDY_ENDPOINT_JWT_"+name)
		}
	}
	if len(missing) == 3 && len(v.subjects) == 0 {
		return nil, nil
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("check the tokens of callers: set %s too", strings.Join(missing, " and "))
	}
	var err error
	v.keys, err = newKeys(ctx, source, getenv("LBREMEDY_ENDPOINT_JWT_CA"), getenv("LBREMEDY_ENDPOINT_JWT_TOKEN_FILE"))
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Verify returns nil if the token is good. Else the error says why, without the
// token. Whether the keys can't be had, or whether the caller is a stranger, are two
// things: only the second is an errStranger.
func (v *Verifier) Verify(ctx context.Context, token string) error {
	if len(token) > maxToken {
		return fmt.Errorf("%w: it has more than %d bytes", errStranger, maxToken)
	}
	var claims jwt.RegisteredClaims
	var unavailable error
	parser := jwt.NewParser(
		// Asymmetric ones alone: who knows a public key must not be able to sign with
		// it, and "none" is no signature.
		jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}),
		jwt.WithIssuer(v.issuer), jwt.WithAudience(v.audience), jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(v.now), jwt.WithStrictDecoding(),
	)
	_, err := parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		// A header that must be understood, and we understand none: RFC 7515, 4.1.11.
		if _, ok := t.Header["crit"]; ok {
			return nil, errCritical
		}
		id, _ := t.Header["kid"].(string)
		set, err := v.keys.find(ctx, id, t.Method.Alg())
		if err != nil {
			unavailable = err
			return nil, err
		}
		return set, nil
	})
	now := v.now().UTC().Format(time.RFC3339)
	switch {
	case unavailable != nil:
		return unavailable
	case errors.Is(err, jwt.ErrTokenExpired):
		return fmt.Errorf("%w: it ended at %s, and here it is %s", errStranger, at(claims.ExpiresAt), now)
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return fmt.Errorf("%w: it begins at %s, and here it is %s; compare the clocks", errStranger, at(claims.NotBefore), now)
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return fmt.Errorf("%w: it is of another issuer than %s", errStranger, v.issuer)
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return fmt.Errorf("%w: it is not for the audience %s", errStranger, v.audience)
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return fmt.Errorf("%w: it has no issuer, no audience or no end", errStranger)
	case errors.Is(err, errCritical):
		return fmt.Errorf("%w: its header asks for what is not understood here", errStranger)
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable):
		return fmt.Errorf("%w: no key that is known here has signed it", errStranger)
	case err != nil:
		return fmt.Errorf("%w: it is no JSON Web Token", errStranger)
	case len(v.subjects) > 0 && !slices.Contains(v.subjects, claims.Subject):
		return fmt.Errorf("%w: its subject may not call here", errStranger)
	}
	return nil
}

func at(d *jwt.NumericDate) string {
	if d == nil {
		return "no time"
	}
	return d.UTC().Format(time.RFC3339)
}

// fits reports whether the key is one for signatures by an algorithm. The library
// checks the kind of key, and not that the curve is the algorithm's own.
func (k key) fits(id, alg string) bool {
	if k.id != "" && id != "" && k.id != id || k.alg != "" && k.alg != alg {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[public.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}
