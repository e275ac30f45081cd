package exporter

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Headers of the signature, in the order of signing (EventBridge documentation, "Signature algorithm for HTTP/HTTPS event targets").
const (
	headerTime      = "x-eventbridge-signature-timestamp"
	headerHash      = "x-eventbridge-hash-method"
	headerVersion   = "x-eventbridge-signature-version"
	headerKey       = "x-eventbridge-signature-url"
	headerToken     = "x-eventbridge-signature-token"
	headerSignature = "x-eventbridge-signature-v2"
)

const (
	freshFor    = time.Minute // same page: a request is valid for 60 seconds
	keyFor      = time.Hour   // until the certificate is read again
	certificate = 64 << 10    // size limit in bytes
)

type certified struct {
	at   time.Time
	from string
	key  *rsa.PublicKey
}

// verify returns why the request lacks EventBridge's signature for this target within the last minute, or nil.
func (p *Posts) verify(ctx context.Context, header http.Header, body []byte, now time.Time) error {
	no := func(says string) error { return &refusal{http.StatusUnauthorized, says} }
	ms, err := strconv.ParseInt(header.Get(headerTime), 10, 64)
	if err != nil || now.Sub(time.UnixMilli(ms)).Abs() > freshFor {
		return no("the signature is older than a minute, or of another time")
	}
	if header.Get(headerHash) != "SHA256" {
		return no("the signature method is not SHA256 with RSA")
	}
	signature, err := base64.StdEncoding.DecodeString(header.Get(headerSignature))
	if err != nil || len(signature) == 0 {
		return no("the signature is missing")
	}
	key, err := p.publicKey(ctx, header.Get(headerKey), now)
	if err != nil {
		return err
	}
	lines := []string{p.URL}
	for _, name := range []string{headerTime, headerHash, headerVersion, headerKey, headerToken} {
		lines = append(lines, name+": "+header.Get(name))
	}
	// The page ends the signed text with the body. Its formula can also be read with a line break after it.
	for _, end := range []string{"", "\n"} {
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n" + string(body) + end))
		if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil {
			return nil
		}
	}
	return no("the signature is wrong: is the URL that of the target in EventBridge, with its path and query?")
}

// publicKey asks only the region's own host: anybody can own an OSS bucket whose name ends like it.
func (p *Posts) publicKey(ctx context.Context, address string, now time.Time) (*rsa.PublicKey, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host != p.Region+"-eventbridge.oss-accelerate.aliyuncs.com" || u.User != nil {
		return nil, &refusal{http.StatusUnauthorized, "the certificate is not at EventBridge's address of region " + p.Region}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key.from == address && now.Sub(p.key.at) < keyFor {
		return p.key.key, nil
	}
	data, err := p.read(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of EventBridge: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the address of EventBridge's certificate did not return a certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of EventBridge: %w", err)
	}
	key, ok := c.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("the certificate of EventBridge has no RSA key")
	}
	p.key = certified{now, address, key}
	return key, nil
}

func (p *Posts) read(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("the address is not a URL")
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := (&http.Client{Timeout: 5 * time.Second, Transport: p.wire, CheckRedirect: stay}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	return io.ReadAll(io.LimitReader(answer.Body, certificate))
}
