package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An identity has the certificates of a server and its admin, by an authority made for this server only.
type identity struct {
	dir   string
	pool  *x509.CertPool
	admin tls.Certificate

	authority *x509.Certificate
	key       *ecdsa.PrivateKey // the authority's

	ca, adminCert, adminKey []byte // PEM
}

func (id *identity) file(name string) string { return filepath.Join(id.dir, name) }

// newIdentity creates an authority, its certificates and the key that signs ServiceAccount tokens, and writes the server's files
// to dir. The server's certificate is for this machine and for more names and addresses.
func newIdentity(dir string, more ...string) (*identity, error) {
	id := &identity{dir: dir, pool: x509.NewCertPool()}
	if err := id.fill(more); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	return id, nil
}

func (id *identity) fill(more []string) (err error) {
	if id.authority, id.key, err = newAuthority(); err != nil {
		return err
	}
	id.pool.AddCert(id.authority)
	id.ca = encode("CERTIFICATE", id.authority.Raw)

	serverCert, serverKey, err := id.serving("kube-apiserver", append([]string{"localhost", "kubernetes.default.svc", "127.0.0.1"}, more...)...)
	if err != nil {
		return err
	}
	if id.adminCert, id.adminKey, err = id.user("admin", "system:masters"); err != nil {
		return err
	}
	if id.admin, err = tls.X509KeyPair(id.adminCert, id.adminKey); err != nil {
		return err
	}

	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tokensKey, err := x509.MarshalPKCS8PrivateKey(tokens)
	if err != nil {
		return err
	}
	tokensPub, err := x509.MarshalPKIXPublicKey(&tokens.PublicKey)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt":     id.ca,
		"server.crt": serverCert,
		"server.key": serverKey,
		"tokens.key": encode("PRIVATE KEY", tokensKey),
		"tokens.pub": encode("PUBLIC KEY", tokensPub),
	} {
		if err := os.WriteFile(id.file(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (id *identity) serving(name string, names ...string) (cert, key []byte, err error) {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
			continue
		}
		c.DNSNames = append(c.DNSNames, n)
	}
	return issue(id.authority, id.key, c)
}

func (id *identity) user(name string, groups ...string) (cert, key []byte, err error) {
	return issue(id.authority, id.key, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func newAuthority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	ca := valid(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "lbremedy sandbox"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func issue(ca *x509.Certificate, caKey *ecdsa.PrivateKey, template *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, valid(template), ca, &k.PublicKey, caKey)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), nil
}

// valid sets a serial number and a validity longer than any server's life, from an hour ago for clocks that are behind.
func valid(c *x509.Certificate) *x509.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial)
	c.SerialNumber = new(big.Int).SetBytes(serial)
	c.NotBefore = time.Now().Add(-time.Hour)
	c.NotAfter = time.Now().AddDate(1, 0, 0)
	return c
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeKubeconfig writes the admin's kubeconfig. Code that wipes a cluster first checks for the name "lbremedy-sandbox".
func (id *identity) writeKubeconfig(file, server string) error {
	return writeKubeconfig(file, "lbremedy-sandbox", server, id.ca, id.adminCert, id.adminKey)
}

// writeKubeconfig writes a kubeconfig as JSON, which is valid YAML.
func writeKubeconfig(file, name, server string, ca, cert, key []byte) error {
	type object = map[string]any
	data, err := json.MarshalIndent(object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"contexts":        []object{{"name": name, "context": object{"cluster": name, "user": "admin"}}},
		"clusters": []object{{"name": name, "cluster": object{
			"server": server, "certificate-authority-data": ca,
		}}},
		"users": []object{{"name": "admin", "user": object{
			"client-certificate-data": cert, "client-key-data": key,
		}}},
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
