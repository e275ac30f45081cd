package hand

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// On the wire a call is a JWS in compact form, signed with Ed25519 (RFC 7515, RFC 8037). Its payload is a CloudEvent in JSON: the
// source is the cluster, the subject the class, and the data a LookRequest or an Order. The signature covers everything, so it does
// not matter which headers a platform passes on. The answer is an Answer in JSON.
const (
	TypeLook  = "io.lbremedy.look.v1"
	TypeApply = "io.lbremedy.apply.v1"
	MediaType = "application/jose" // of a call (RFC 7515, section 9.2.1)

	MaxCall   = 4 << 20   // bytes of a call: a Kubernetes object has at most 1.5 MiB (etcd's --max-request-bytes), plus a third in Base64
	MaxAnswer = 512 << 10 // bytes of an answer

	mostHeader = 512 // bytes of the encoded header of a call, which is read before the signature is verified

	// A hand refuses a call that expires later than this by its own clock.
	farthest = 30 * time.Second
	// The engine's calls expire after this: a hand whose clock is 5 s behind still accepts them.
	callLife = 25 * time.Second
)

// A Key pair signs the calls of one cluster's engine. Hands have only the public half.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key pair.
func NewKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return Key{private}, err
}

// ParseKey reads the private key from PEM (PKCS #8).
func ParseKey(text []byte) (Key, error) {
	if block, _ := pem.Decode(text); block != nil {
		if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if private, ok := parsed.(ed25519.PrivateKey); ok {
				return Key{private}, nil
			}
		}
	}
	return Key{}, errors.New("read the engine's key: it is not an Ed25519 key in PEM (PKCS #8)") // the parser's error may quote the key
}

// PEM returns the private key in the form that ParseKey reads.
func (k Key) PEM() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		panic(fmt.Sprintf("hand: an Ed25519 key does not encode: %v", err))
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Public returns the public half, 32 bytes in Base64 for URLs, which is also the key's ID.
func (k Key) Public() string {
	return base64.RawURLEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// PublicKeys are the keys that a hand accepts, by their text.
type PublicKeys map[string]ed25519.PublicKey

// ParsePublicKeys reads public keys separated by commas or white space. To replace a key, add the new one to all hands before the engine signs with it.
func ParsePublicKeys(text string) (PublicKeys, error) {
	keys := PublicKeys{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' }) {
		key, err := base64.RawURLEncoding.Strict().DecodeString(word)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("read the engine's public keys: %.50q is not an Ed25519 key in Base64 for URLs, 43 characters", word)
		}
		keys[word] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("read the engine's public keys: none is given")
	}
	return keys, nil
}

type call struct {
	Spec     string          `json:"specversion"`
	Media    string          `json:"datacontenttype"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Cluster  string          `json:"source"`
	Class    string          `json:"subject"`
	Made     time.Time       `json:"time"`
	Expires  time.Time       `json:"expires"`  // until then a hand may begin, and an order may write
	Declares string          `json:"declares"` // digest of the class's declaration
	Data     json.RawMessage `json:"data"`
}

// frame is the header of a JWS (RFC 7515, section 4). Other fields could change what the signature means.
type frame struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	Cty string `json:"cty,omitempty"`
	Typ string `json:"typ,omitempty"` // libraries add it
}

const (
	algorithm = "EdDSA"
	specified = "1.0" // version of CloudEvents
)

var part = base64.RawURLEncoding.Strict()

func (k Key) seal(c call, data any) ([]byte, error) {
	var err error
	c.Spec, c.Media, c.Made, c.Expires = specified, "application/json", c.Made.UTC(), c.Expires.UTC()
	if c.Data, err = json.Marshal(data); err != nil {
		return nil, fmt.Errorf("encode the call: %w", err)
	}
	var signed []byte
	for _, v := range []any{frame{Alg: algorithm, Kid: k.Public(), Cty: "cloudevents+json"}, c} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode the call: %w", err)
		}
		signed = append(part.AppendEncode(signed, text), '.')
	}
	sealed := part.AppendEncode(signed, ed25519.Sign(k.private, signed[:len(signed)-1]))
	if len(sealed) > MaxCall {
		return nil, fmt.Errorf("sign the call: it has %d bytes, more than %d", len(sealed), MaxCall)
	}
	return sealed, nil
}

// unseal returns the content of a call that one of the keys has signed, and uses nothing of the payload before that.
func (keys PublicKeys) unseal(sealed []byte) (c call, err error) {
	if len(sealed) > MaxCall {
		return c, fmt.Errorf("the call has more than %d bytes: %w", MaxCall, ErrInvalid)
	}
	sealed = bytes.TrimSpace(sealed)
	signed := sealed[:max(bytes.LastIndexByte(sealed, '.'), 0)]
	parts := bytes.SplitN(sealed, []byte("."), 4)
	for i, text := range parts {
		if parts[i], err = part.AppendDecode(nil, text); err != nil || len(parts) != 3 || i == 0 && len(text) > mostHeader {
			return c, fmt.Errorf("the call is not a JWS in compact form: %w", ErrInvalid)
		}
	}
	var f frame
	switch err := event.DecodeStrict(parts[0], &f); {
	case err != nil || f.Alg != algorithm:
		return c, fmt.Errorf("the signature of the call is not accepted: its header is not that of a call: %w", ErrDenied)
	case keys[f.Kid] == nil:
		return c, fmt.Errorf("the signature of the call is not accepted: its key is unknown: %w", ErrDenied)
	case !ed25519.Verify(keys[f.Kid], signed, parts[2]):
		return c, fmt.Errorf("the signature of the call is not accepted: it is wrong: %w", ErrDenied)
	}
	switch err := json.Unmarshal(parts[1], &c); {
	case err != nil || c.Spec != specified:
		return c, fmt.Errorf("the payload of the call is not a CloudEvent: %w", ErrInvalid)
	case c.Expires.IsZero():
		return c, fmt.Errorf("the call has no expiry: %w", ErrInvalid)
	}
	return c, nil
}

// An Answer is a hand's reply. For a call that was not accepted it contains only a problem.
type Answer struct {
	ID      string          `json:"id,omitempty"` // of the call; this and the next four say what the call was about
	Cluster string          `json:"cluster,omitempty"`
	Class   string          `json:"class,omitempty"`
	UID     string          `json:"uid,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`  // a LookAnswer or an ApplyAnswer
	Problem *Error          `json:"problem,omitempty"` // RFC 9457
}
