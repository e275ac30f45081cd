package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	maxKeys  = 256 << 10        // bytes of a set of keys
	mostKeys = 64               // keys of a set that are looked at
	fetching = 5 * time.Second  // most that fetching the keys may take
	freshFor = 10 * time.Minute // how long keys are used before they are asked for again
	keptFor  = 24 * time.Hour   // how long they are used while their source is away
	between  = 10 * time.Second // least between two questions for the keys: a caller can make up any key ID
)

// A key is a public key of an issuer.
type key struct {
	id     string // empty: it may be any key's
	alg    string // empty: any that the kind of key can do
	public any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// keys are an issuer's public keys, kept for a while.
type keys struct {
	source string
	read   func(context.Context) ([]byte, error)
	limit  time.Duration // of reading them
	now    func() time.Time

	mu    sync.Mutex
	all   []key
	got   time.Time // when all came
	asked time.Time // when it was last asked for
	err   error     // what came of it
}

// wallClock returns the time without the monotonic clock, which may stand still in
// a frozen instance.
func wallClock() time.Time { return time.Now().Round(0) }

// newKeys returns the keys of a file or of a URL.
func newKeys(ctx context.Context, source, ca, tokenFile string) (*keys, error) {
	k := &keys{source: source, limit: fetching, now: wallClock}
	if !strings.Contains(source, "://") {
		k.read = func(context.Context) ([]byte, error) { return readFile(source) }
		if err := k.ask(ctx); err != nil {
			return nil, err
		}
		return k, nil
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return nil, errors.New("read the keys of callers: LBREMEDY_ENDPOINT_JWT_KEYS is neither a file nor a URL")
	}
	k.source = u.Scheme + "://" + u.Host + u.Path // without what else the URL may hold
	loopback := net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return nil, fmt.Errorf("read the keys of callers: use https:// for %s: whoever can change the keys on their way can let anybody in", k.source)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the root certificates for the keys of callers: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the root certificates for the keys of callers: %s holds none", ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the keys are there or they are not
	}}
	k.read = func(ctx context.Context) ([]byte, error) { return fetch(ctx, client, source, tokenFile) }
	return k, nil
}

// find returns the keys that may have signed a token. An error says that there are
// no keys to look at.
func (k *keys) find(ctx context.Context, id, alg string) (jwt.VerificationKeySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.fitting(id, alg)
	now := k.now()
	stale := now.Sub(k.got) > freshFor || len(k.all) == 0
	if (stale || len(set.Keys) == 0) && now.Sub(k.asked) > between {
		_ = k.ask(ctx) // what came of it stands in k
		set = k.fitting(id, alg)
	}
	if k.err != nil && (len(k.all) == 0 || now.Sub(k.got) > keptFor) {
		return set, k.err
	}
	return set, nil
}

func (k *keys) fitting(id, alg string) (set jwt.VerificationKeySet) {
	for _, one := range k.all {
		if one.fits(id, alg) {
			set.Keys = append(set.Keys, one.public)
		}
	}
	return set
}

// ask reads the keys, and keeps those it has if that fails.
func (k *keys) ask(ctx context.Context) error {
	// The caller may go away; the keys are of use to the next one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.limit)
	defer cancel()
	text, err := k.read(ctx)
	var all []key
	if err == nil {
		all, err = parseKeys(text)
	}
	k.asked, k.err = k.now(), nil
	if err != nil {
		k.err = fmt.Errorf("read the keys of callers from %s: %w", k.source, err)
		return k.err
	}
	k.all, k.got = all, k.asked
	return nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limited(f)
}

func fetch(ctx context.Context, client *http.Client, source, tokenFile string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, errors.New("the URL can't be asked")
	}
	if tokenFile != "" {
		token, err := readFile(tokenFile)
		if err != nil {
			return nil, err
		}
		q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	a, err := client.Do(q)
	if err != nil {
		if at, ok := errors.AsType[*url.Error](err); ok {
			err = at.Err // without the URL, which may hold more than the address
		}
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", a.Status)
	}
	return limited(a.Body)
}

func limited(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeys+1))
	if err == nil && len(text) > maxKeys {
		err = fmt.Errorf("it has more than %d bytes", maxKeys)
	}
	return text, err
}

// parseKeys reads public keys: a JWKS (RFC 7517), or PEM blocks, which may be
// certificates too. Keys of a kind or for a use that signs no tokens here are passed
// over. Private keys are refused: they have no business at an endpoint.
func parseKeys(text []byte) ([]key, error) {
	var all []key
	var err error
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		all, err = parseJWKS(text)
	} else {
		all, err = parsePEM(text)
	}
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no key that can be used: give RSA keys of 2048 bits or more, P-256, P-384, P-521 or Ed25519")
	}
	return all[:min(len(all), mostKeys)], nil
}

func parseJWKS(text []byte) ([]key, error) {
	var set struct {
		Keys []struct {
			Kty, Kid, Alg, Use, Crv, N, E, X, Y, D string
		} `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("it is no set of keys in JSON")
	}
	var all []key
	for _, j := range set.Keys {
		if j.D != "" {
			return nil, errors.New("it holds a private key: give the public ones alone")
		}
		if j.Use != "" && j.Use != "sig" {
			continue
		}
		k := key{id: j.Kid, alg: j.Alg}
		switch j.Kty {
		case "RSA":
			k.public = rsaKey(bytesOf(j.N), bytesOf(j.E))
		case "EC":
			k.public = ecKey(j.Crv, bytesOf(j.X), bytesOf(j.Y))
		case "OKP":
			if x := bytesOf(j.X); j.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize {
				k.public = ed25519.PublicKey(x)
			}
		}
		if usable(k.public) {
			all = append(all, k)
		}
	}
	return all, nil
}

// bytesOf decodes a number of a JWKS; what is none is empty.
func bytesOf(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return nil
	}
	return b
}

func rsaKey(n, e []byte) any {
	if len(n) == 0 || len(e) == 0 || len(e) > 4 {
		return nil
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
}

func ecKey(curve string, x, y []byte) any {
	c := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[curve]
	if c == nil {
		return nil
	}
	size := (c.Params().BitSize + 7) / 8
	if len(x) > size || len(y) > size {
		return nil
	}
	point := make([]byte, 1+2*size)
	point[0] = 4 // uncompressed
	copy(point[1+size-len(x):], x)
	copy(point[1+2*size-len(y):], y)
	public, err := ecdsa.ParseUncompressedPublicKey(c, point)
	if err != nil {
		return nil // the point is not on the curve
	}
	return public
}

func parsePEM(text []byte) ([]key, error) {
	var all []key
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all, nil
		}
		var public any
		var err error
		switch {
		case strings.Contains(block.Type, "PRIVATE KEY"):
			return nil, errors.New("it holds a private key: give the public ones alone")
		case block.Type == "PUBLIC KEY":
			public, err = x509.ParsePKIXPublicKey(block.Bytes)
		case block.Type == "RSA PUBLIC KEY":
			public, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case block.Type == "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				public = c.PublicKey
			}
		}
		if err != nil {
			return nil, fmt.Errorf("a block %s of it can't be read: %w", block.Type, err)
		}
		if usable(public) {
			all = append(all, key{public: public})
		}
	}
}

// usable reports whether a key is of a kind and a size that signs tokens here.
func usable(public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		// Exponents are odd and at least 3; package crypto/rsa refuses what else is wrong.
		return k.N.BitLen() >= 2048 && k.N.BitLen() <= 8192 && k.E >= 3 && k.E%2 == 1
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return true
		}
	case ed25519.PublicKey:
		return len(k) == ed25519.PublicKeySize
	}
	return false
}
