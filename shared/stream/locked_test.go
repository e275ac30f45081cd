package stream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/lbremedy/lbremedy/shared/stream"
)

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its root certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = write(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func (a *authority) server(t *testing.T) *tls.Config {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func run(t *testing.T, o *server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
	o.JetStream, o.StoreDir = true, t.TempDir()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s.Addr().String()
}

func user(t *testing.T) (public string, seed []byte) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if seed, err = pair.Seed(); err != nil {
		t.Fatal(err)
	}
	return public, seed
}

// An empty says means success. Only TLS can fail here.
func connects(t *testing.T, what string, c stream.Config, says string) {
	t.Helper()
	s, err := stream.Connect(t.Context(), c)
	if err == nil {
		defer s.Close()
		err = s.Ping(t.Context())
	}
	switch {
	case says == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case says != "" && (err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, stream.ErrUnavailable)):
		t.Errorf("%s: got %v, want it to say %q", what, err, says)
	}
}

// A connection goes to the server that the certificates name, and never in plain text if TLS was requested.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	secure := run(t, &server.Options{TLS: true, TLSConfig: ours.server(t)})
	plain := run(t, &server.Options{})
	const stranger, open = "its certificate is of no authority that is trusted here", "the server speaks plain text, and TLS was asked for"
	connects(t, "our authority", stream.Config{URL: "tls://" + secure, CA: ours.file}, "")
	connects(t, "a server that asks for TLS", stream.Config{URL: "nats://" + secure, CA: ours.file}, "")
	connects(t, "another authority", stream.Config{URL: "tls://" + secure, CA: theirs.file}, stranger)
	connects(t, "the system's authorities", stream.Config{URL: "tls://" + secure}, stranger)
	connects(t, "a server that asks for TLS, by the system's authorities", stream.Config{URL: "nats://" + secure}, stranger)
	connects(t, "another name", stream.Config{URL: "tls://" + strings.Replace(secure, "127.0.0.1", "localhost", 1), CA: ours.file},
		"its certificate is for another name")
	connects(t, "plain text", stream.Config{URL: "nats://" + plain}, "")
	connects(t, "plain text where tls:// is asked for", stream.Config{URL: "tls://" + plain}, open)
	connects(t, "plain text where an authority is named", stream.Config{URL: "nats://" + plain, CA: ours.file}, open)
	if _, err := stream.Connect(t.Context(), stream.Config{URL: "tls://" + secure, CA: write(t, "ca.crt", []byte("no certificate"))}); err == nil ||
		!strings.Contains(err.Error(), "holds no root certificates") {
		t.Errorf("a file without certificates: %v", err)
	}
}

func TestServerAsksForNKey(t *testing.T) {
	t.Parallel()
	public, seed := user(t)
	_, other := user(t)
	address := run(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	connects(t, "its seed", stream.Config{URL: "nats://" + address, NKey: write(t, "seed", seed)}, "")
	connects(t, "another's seed", stream.Config{URL: "nats://" + address, NKey: write(t, "seed", other)}, "refuses these credentials")
	connects(t, "no seed", stream.Config{URL: "nats://" + address}, "refuses these credentials")
}

func TestNKey(t *testing.T) {
	t.Parallel()
	name := write(t, "seed", []byte("a secret that is no seed"))
	_, err := stream.Connect(t.Context(), stream.Config{URL: "nats://127.0.0.1:1", NKey: name})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v", err)
	}
}

// A credentials file holds a JWT signed by an operator's account, and a seed.
func TestServerAsksForCreds(t *testing.T) {
	t.Parallel()
	operator, account, rogue := pair(t, nkeys.CreateOperator), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateAccount)
	claim := jwt.NewOperatorClaims(operator.public)
	text, err := claim.Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	if claim, err = jwt.DecodeOperatorClaims(text); err != nil {
		t.Fatal(err)
	}
	ac := jwt.NewAccountClaims(account.public)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	if text, err = ac.Encode(operator); err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(account.public, text); err != nil {
		t.Fatal(err)
	}
	system := pair(t, nkeys.CreateAccount)
	if text, err = jwt.NewAccountClaims(system.public).Encode(operator); err != nil {
		t.Fatal(err)
	}
	if err := resolver.Store(system.public, text); err != nil {
		t.Fatal(err)
	}
	address := run(t, &server.Options{TrustedOperators: []*jwt.OperatorClaims{claim}, AccountResolver: resolver, SystemAccount: system.public})
	creds := func(by keyPair, expires time.Time) string {
		t.Helper()
		public, seed := user(t)
		uc := jwt.NewUserClaims(public)
		if !expires.IsZero() {
			uc.Expires = expires.Unix()
		}
		text, err := uc.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		file, err := jwt.FormatUserConfig(text, seed)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, "user.creds", file)
	}
	connects(t, "the account's", stream.Config{URL: "nats://" + address, Creds: creds(account, time.Time{})}, "")
	connects(t, "a stranger's", stream.Config{URL: "nats://" + address, Creds: creds(rogue, time.Time{})}, "refuses these credentials")
	connects(t, "expired", stream.Config{URL: "nats://" + address, Creds: creds(account, time.Now().Add(-time.Hour))}, "refuses these credentials")
	connects(t, "none", stream.Config{URL: "nats://" + address}, "refuses these credentials")
}

type keyPair struct {
	nkeys.KeyPair
	public string
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) keyPair {
	t.Helper()
	k, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{k, public}
}
