package courier

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lbremedy/lbremedy/events/courier/invoke"
)

// sign shows the function who the courier is. An error is not the message's fault. It
// holds no secret.
func (t *target) sign(ctx context.Context, r *http.Request, body []byte, keys invoke.Keys, now time.Time) error {
	switch {
	case t.api || t.auth.FC:
		k, err := keys(ctx)
		if err != nil {
			return err
		}
		if t.api {
			invoke.SignAPI(r, body, k, now)
		} else {
			invoke.SignTrigger(r, k, now)
		}
	case t.auth.Bearer != "":
		token, err := readToken(t.auth.Bearer)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case t.auth.JWT != nil:
		token, err := makeToken(*t.auth.JWT, t.jwtLife, now)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// readToken returns the token in a file.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || !headerValue().MatchString(token) || strings.Contains(token, " ") {
		return "", fmt.Errorf("read the token: %s holds none", file)
	}
	return token, nil
}

// makeToken returns a JSON web token, signed by the key in a file.
func makeToken(j JWT, life time.Duration, now time.Time) (string, error) {
	text, err := os.ReadFile(j.Key)
	if err != nil {
		return "", fmt.Errorf("read the key for tokens: %w", err)
	}
	key, method, err := readKey(text)
	if err != nil {
		return "", fmt.Errorf("read the key for tokens: %s: %w", j.Key, err)
	}
	// A clock that runs behind must not find the token to be of the future.
	token := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": j.Issuer, "sub": j.Subject, "aud": j.Audience, "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Add(-30 * time.Second).Unix(), "exp": now.Add(life).Unix(),
	})
	if j.KeyID != "" {
		token.Header["kid"] = j.KeyID
	}
	signed, err := token.SignedString(key)
	if err != nil {
		return "", errors.New("sign a token: the key can't be used") // the library's error may quote it
	}
	return signed, nil
}

// readKey returns the private key of a PEM file and the algorithm that goes with it.
func readKey(text []byte) (crypto.Signer, jwt.SigningMethod, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil, errors.New("it is no PEM file")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, nil, errors.New("it holds no private key that can be read") // the parser's error may quote it
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, jwt.SigningMethodRS256, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return key, jwt.SigningMethodES256, nil
		}
	case ed25519.PrivateKey:
		return key, jwt.SigningMethodEdDSA, nil
	}
	return nil, nil, errors.New("its key is neither RSA nor P-256 nor Ed25519")
}
