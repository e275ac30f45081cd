package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// How long certificates are valid, and how long before its end that of the nodes is made
// again.
const (
	ofAuthority = 10 * 365 * 24 * time.Hour
	ofNodes     = 365 * 24 * time.Hour
	renewal     = 60 * 24 * time.Hour
)

// An authority signs the certificate of the nodes. Its key stays in the folder.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// certify makes the certificates with which NATS proves who it is, and the Secrets of them:
// an authority of its own, which is kept, and a certificate of the nodes, which is kept
// while it is valid for long enough and for all names. The names are the nodes' in the
// cluster, this machine's, for who forwards a port, and those that are given.
func certify(dir, namespace string, more []string, now time.Time, out io.Writer) error {
	if slices.Contains(more, "") {
		return errors.New("-names: a name is empty")
	}
	names := append([]string{"nats", "nats." + namespace, "nats." + namespace + ".svc", "nats." + namespace + ".svc.cluster.local",
		"*.nats-headless", "localhost", "127.0.0.1", "::1"}, more...)
	ca, err := authorityOf(dir, now)
	if err != nil {
		return err
	}
	end, isNew, err := nodesOf(dir, ca, names, now)
	if err != nil {
		return err
	}
	text := map[string]string{}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		file, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("read a certificate: %w", err)
		}
		text[name] = string(file)
	}
	var public, nodes bytes.Buffer
	if err := secret(&public, namespace, "lbremedy-nats-ca", map[string]string{"ca.crt": text["ca.crt"]}); err != nil {
		return err
	}
	if err := secret(&nodes, namespace, "lbremedy-nats-tls", map[string]string{"tls.crt": text["tls.crt"], "tls.key": text["tls.key"]}); err != nil {
		return err
	}
	trusted, private := filepath.Join(dir, "ca.yaml"), filepath.Join(dir, "tls.yaml")
	if err := errors.Join(os.WriteFile(trusted, public.Bytes(), 0o600), os.WriteFile(private, nodes.Bytes(), 0o600)); err != nil {
		return fmt.Errorf("write the certificates: %w", err)
	}
	made := "The certificate of NATS stays"
	if isNew {
		made = "The certificate of NATS is new"
	}
	fmt.Fprintf(out, "%s and is valid until %s. Where NATS runs: kubectl apply --server-side -f %s -f %s. In other clusters: %s alone.\n",
		made, end.UTC().Format(time.DateOnly), trusted, private, trusted)
	return nil
}

// authorityOf returns the authority of the folder, which is made if there is none.
func authorityOf(dir string, now time.Time) (authority, error) {
	ca, err := readAuthority(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return ca, err
	}
	ca.certificate = &x509.Certificate{
		Subject: pkix.Name{CommonName: "lbremedy NATS"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ofAuthority),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if ca.key, err = sign(dir, "ca", ca.certificate, authority{certificate: ca.certificate}); err != nil {
		return authority{}, err
	}
	return readAuthority(dir)
}

// readAuthority reads the authority of the folder; fs.ErrNotExist: neither of its files is there.
func readAuthority(dir string) (authority, error) {
	certificate, err := readPEM(filepath.Join(dir, "ca.crt"))
	key, noKey := readPEM(filepath.Join(dir, "ca.key"))
	if errors.Is(err, fs.ErrNotExist) != errors.Is(noKey, fs.ErrNotExist) {
		return authority{}, fmt.Errorf("one of ca.crt and ca.key is missing in %s: put it back, or remove the other, and both are made anew", dir)
	}
	if err := errors.Join(err, noKey); err != nil {
		return authority{}, err
	}
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		return authority{}, fmt.Errorf("read ca.crt: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return authority{}, fmt.Errorf("read ca.key: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return authority{}, fmt.Errorf("read ca.key: a %T can't sign", private)
	}
	return authority{parsed, signer}, nil
}

// nodesOf returns when the certificate of the nodes ends, and makes it if it is missing,
// ends soon, is not the authority's or lacks a name.
func nodesOf(dir string, ca authority, names []string, now time.Time) (end time.Time, isNew bool, err error) {
	text, err := readPEM(filepath.Join(dir, "tls.crt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return end, false, err
	}
	if err == nil {
		there, err := x509.ParseCertificate(text)
		if err != nil {
			return end, false, fmt.Errorf("read tls.crt: %w", err)
		}
		lacks := func(name string) bool { return there.VerifyHostname(strings.Replace(name, "*", "x", 1)) != nil }
		if there.CheckSignatureFrom(ca.certificate) == nil && there.NotAfter.Sub(now) >= renewal && !slices.ContainsFunc(names, lacks) {
			return there.NotAfter, false, nil
		}
	}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "nats"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ofNodes), KeyUsage: x509.KeyUsageDigitalSignature,
		// A node is the client of the others.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
			continue
		}
		c.DNSNames = append(c.DNSNames, name)
	}
	_, err = sign(dir, "tls", c, ca)
	return c.NotAfter, true, err
}

// sign makes a key, has the authority sign the certificate for it, which is its own where
// the authority has no key yet, and writes both.
func sign(dir, name string, c *x509.Certificate, ca authority) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a certificate: %w", err)
	}
	if ca.key == nil {
		ca.key = key
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("number a certificate: %w", err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, c, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the key of a certificate: %w", err)
	}
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: signed}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, fmt.Errorf("write a certificate: %w", err)
		}
	}
	return key, nil
}

// readPEM returns what the first block of a file holds.
func readPEM(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("read a certificate: %s is not PEM", file)
	}
	return block.Bytes, nil
}
