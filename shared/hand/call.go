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

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/golang-jwt/jwt/v5"
)

// On the wire a call is a JWS in compact form, signed with Ed25519 (RFC 7515, RFC 8037). Its payload is a CloudEvent in JSON: the source is
// the cluster, the subject the class, and the data a LookRequest or an Order. The signature covers everything, so that it does not matter
// which headers a platform passes on. The answer is an Answer in JSON.
const (
	TypeLook  = "io.lbremedy.look.v1"
	TypeApply = "io.lbremedy.apply.v1"
	MediaType = "application/jose" // of a call (RFC 7515, section 9.2.1)

	MaxCall   = 4 << 20   // bytes of a call: an object of Kubernetes has at most 1.5 MiB (etcd's --max-request-bytes), a third more in Base64
	MaxAnswer = 512 << 10 // bytes of an answer

	mostHeader = 512 // bytes of the encoded header of a call

	// A hand accepts a call until its expiry, and none that expires later than this by the hand's own clock.
	farthest = 30 * time.Second
	// The engine lets a call expire after this: a hand whose clock is 5 s behind still accepts it.
	callLife = 25 * time.Second
)

// extensions of the CloudEvent of a call.
const (
	extExpires  = "expires"  // until when a hand may begin, and until when an order may write
	extDeclares = "declares" // digest of the class's declaration
)

// A Key pair signs the calls of one cluster's engine. Hands have the public half only.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key pair.
func NewKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return Key{private}, err
}

// ParseKey reads the private key from PEM (PKCS #8).
func ParseKey(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Key{}, errors.New("read the engine's key: it is not in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, errors.New("read the engine's key: the PEM block holds no PKCS #8 key") // the parser's error may quote the key
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return Key{}, fmt.Errorf("read the engine's key: it is of type %T, not Ed25519", parsed)
	}
	return Key{private}, nil
}

// PEM returns the private key as ParseKey reads it.
func (k Key) PEM() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		panic(fmt.Sprintf("hand: an Ed25519 key does not encode: %v", err))
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Public returns the public half as text: the 32 bytes in Base64 for URLs. It is the key's ID, too.
func (k Key) Public() string {
	return base64.RawURLEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// PublicKeys are the keys that a hand accepts, by their text.
type PublicKeys map[string]ed25519.PublicKey

// ParsePublicKeys reads public keys with commas or white space between them. Several let a key be replaced: add the new one to all
// hands, let the engine sign with it, remove the old one.
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
		return nil, errors.New("read the engine's public keys: there are none")
	}
	return keys, nil
}

// A head is what a call says beside its data.
type head struct {
	ID, Type, Cluster, Class, Declares string
	Made, Expires                      time.Time
}

// payload is a CloudEvent as a JWS carries it. It has none of the claims of a JSON Web Token.
type payload struct{ json.RawMessage }

// GetExpirationTime returns nothing, as the other methods of jwt.Claims here.
func (payload) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuedAt returns nothing.
func (payload) GetIssuedAt() (*jwt.NumericDate, error) { return nil, nil }

// GetNotBefore returns nothing.
func (payload) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuer returns nothing.
func (payload) GetIssuer() (string, error) { return "", nil }

// GetSubject returns nothing.
func (payload) GetSubject() (string, error) { return "", nil }

// GetAudience returns nothing.
func (payload) GetAudience() (jwt.ClaimStrings, error) { return nil, nil }

// seal returns a call as it is sent.
func (k Key) seal(h head, data any) ([]byte, error) {
	e := cloudevents.New()
	e.SetID(h.ID)
	e.SetType(h.Type)
	e.SetSource(h.Cluster)
	e.SetSubject(h.Class)
	e.SetTime(h.Made)
	e.SetExtension(extExpires, h.Expires.UTC().Format(time.RFC3339Nano))
	e.SetExtension(extDeclares, h.Declares)
	if err := e.SetData(cloudevents.ApplicationJSON, data); err != nil {
		return nil, fmt.Errorf("encode the call: %w", err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode the call: %w", err)
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, payload{text})
	t.Header = map[string]any{"alg": t.Method.Alg(), "kid": k.Public(), "cty": "cloudevents+json"}
	signed, err := t.SignedString(k.private)
	if err == nil && len(signed) > MaxCall {
		err = fmt.Errorf("it has %d bytes, more than %d", len(signed), MaxCall)
	}
	if err != nil {
		return nil, fmt.Errorf("sign the call: %w", err)
	}
	return []byte(signed), nil
}

// unseal returns what a call says if one of the keys has signed it. Nothing of a call is used before that.
func (keys PublicKeys) unseal(call []byte) (head, json.RawMessage, error) {
	refused := func(kind error, format string, args ...any) (head, json.RawMessage, error) {
		return head{}, nil, fmt.Errorf(format+": %w", append(args, kind)...)
	}
	if len(call) > MaxCall {
		return refused(ErrInvalid, "the call has more than %d bytes", MaxCall)
	}
	// The parser reads the header, whatever its size, before it verifies the signature.
	if at := bytes.IndexByte(call, '.'); at < 0 || at > mostHeader {
		return refused(ErrInvalid, "the call is not a JWS in compact form")
	}
	var body payload
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	_, err := parser.ParseWithClaims(string(bytes.TrimSpace(call)), &body, func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok {
			return nil, errors.New("its header names extensions that must be understood")
		}
		id, _ := t.Header["kid"].(string)
		key, ok := keys[id]
		if !ok {
			return nil, errors.New("its key is unknown")
		}
		return key, nil
	})
	if errors.Is(err, jwt.ErrTokenMalformed) {
		return refused(ErrInvalid, "the call is not a JWS in compact form")
	}
	if err != nil {
		return refused(ErrDenied, "the signature of the call is not accepted: %v", err)
	}
	var e cloudevents.Event
	if err := json.Unmarshal(body.RawMessage, &e); err != nil || e.Validate() != nil {
		return refused(ErrInvalid, "the payload of the call is not a CloudEvent")
	}
	h := head{ID: e.ID(), Type: e.Type(), Cluster: e.Source(), Class: e.Subject(), Made: e.Time()}
	h.Declares, _ = e.Extensions()[extDeclares].(string)
	expires, _ := e.Extensions()[extExpires].(string)
	if h.Expires, err = time.Parse(time.RFC3339Nano, expires); err != nil {
		return refused(ErrInvalid, "the call has no expiry")
	}
	return h, e.Data(), nil
}

// An Answer is what a hand sends back. A call that was not accepted has a problem alone.
type Answer struct {
	ID      string          `json:"id,omitempty"` // of the call; with the next four it is what the call was about
	Cluster string          `json:"cluster,omitempty"`
	Class   string          `json:"class,omitempty"`
	UID     string          `json:"uid,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`  // a LookAnswer or an ApplyAnswer
	Problem *Error          `json:"problem,omitempty"` // RFC 9457
}
