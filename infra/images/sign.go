package main

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/term"
)

// Signatures are those of cosign with a key of its own, made without its transparency log
// and without a network: beside an image's digest stands the tag sha256-….sig with its
// signature, and sha256-….att with the signed statement of where it is from
// (https://github.com/sigstore/cosign/blob/main/specs). The same key signs the same bytes
// the same way.
const (
	signature       = "dev.cosignproject.cosign/signature"
	simpleSigning   = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	signedStatement = types.MediaType("application/vnd.dsse.envelope.v1+json")
)

// signatures is the layout of what is signed of a store, beside it: a signed store has the
// bytes of one that is not.
func (s store) signatures() string { return filepath.Join(filepath.Dir(string(s)), "signatures") }

// A signer signs with a private key.
type signer struct{ key *ecdsa.PrivateKey }

// sign returns the signature of a text.
func (s signer) sign(text []byte) ([]byte, error) {
	sum := sha256.Sum256(text)
	return s.key.Sign(nil, sum[:], crypto.SHA256) // without random numbers it is the same each time
}

// public returns the public key, in PEM.
func (s signer) public() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// key returns who signs: the variables are those of cosign, COSIGN_KEY names a file and
// COSIGN_PRIVATE_KEY holds one, COSIGN_PASSWORD is its passphrase, and without it the first
// line of the input. Without a key there is none. Neither is an argument, which other
// processes could read.
func key(lookup func(string) (string, bool), in io.Reader) (*signer, error) {
	file, _ := lookup("COSIGN_KEY")
	text, _ := lookup("COSIGN_PRIVATE_KEY")
	switch {
	case file == "" && text == "":
		return nil, nil
	case file != "" && text != "":
		return nil, errors.New("COSIGN_KEY and COSIGN_PRIVATE_KEY both name a key: set one")
	case file != "":
		read, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the key: %w", err)
		}
		text = string(read)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "ENCRYPTED SIGSTORE PRIVATE KEY" && block.Type != "ENCRYPTED COSIGN PRIVATE KEY" {
		return nil, errors.New("the key is not one with a passphrase, as cosign generate-key-pair makes it")
	}
	password, ok := lookup("COSIGN_PASSWORD")
	if !ok {
		line, err := passphrase(in)
		if err != nil {
			return nil, fmt.Errorf("read the passphrase: %w", err)
		}
		password = line
	}
	der, err := encrypted.Decrypt(block.Bytes, []byte(password))
	if err != nil {
		return nil, errors.New("the key can't be decrypted: the passphrase in COSIGN_PASSWORD, or on the input, is another")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("the key can't be read: it is none that cosign generate-key-pair makes")
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("the key is not of ECDSA P-256, which cosign generate-key-pair makes")
	}
	return &signer{private}, nil
}

// passphrase reads a line, from a terminal without showing it.
func passphrase(in io.Reader) (string, error) {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(os.Stderr, "Passphrase of the key: ")
		line, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(os.Stderr)
		return string(line), err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// sign signs a release that is what its SHA256SUMS says: this file, each image, the chart,
// and where they are from.
func sign(r release, by signer, out io.Writer) error {
	if err := r.unchanged(); err != nil {
		return err
	}
	list, err := os.ReadFile(r.file(sumsFile))
	if err != nil {
		return err
	}
	all, err := entries(r.store().layout())
	if err != nil {
		return err
	}
	about, err := statements(all)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.store().signatures()); err != nil {
		return fmt.Errorf("remove earlier signatures: %w", err)
	}
	into, err := layout.Write(r.store().signatures(), empty.Index)
	if err != nil {
		return fmt.Errorf("begin the layout of signatures: %w", err)
	}
	n := 0
	for _, b := range all {
		if !b.named() || b.tag == "artifacthub.io" {
			continue
		}
		n++
		payload, err := json.Marshal(map[string]any{
			"critical": map[string]any{
				"identity": map[string]string{"docker-reference": published + "/" + b.name},
				"image":    map[string]string{"docker-manifest-digest": b.digest.String()},
				"type":     "cosign container image signature",
			},
			"optional": nil,
		})
		if err != nil {
			return err
		}
		sig, err := by.sign(payload)
		if err != nil {
			return fmt.Errorf("sign %s: %w", b.name, err)
		}
		err = attach(into, b, ".sig", simpleSigning, payload, map[string]string{signature: base64.StdEncoding.EncodeToString(sig)})
		if err != nil {
			return err
		}
		text, ok := about[b.digest]
		if !ok {
			return fmt.Errorf("nothing says where %s is from: build the release again", b.name)
		}
		if sig, err = by.sign(dsse.PAE(statementKind, text)); err != nil {
			return fmt.Errorf("sign where %s is from: %w", b.name, err)
		}
		envelope, err := json.Marshal(dsse.Envelope{
			PayloadType: statementKind, Payload: base64.StdEncoding.EncodeToString(text),
			Signatures: []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(sig)}},
		})
		if err != nil {
			return err
		}
		if err := attach(into, b, ".att", signedStatement, envelope, map[string]string{signature: "", "predicateType": provenanceType}); err != nil {
			return err
		}
	}
	public, err := by.public()
	if err != nil {
		return err
	}
	sig, err := by.sign(list)
	if err != nil {
		return fmt.Errorf("sign the checksums: %w", err)
	}
	err = os.WriteFile(r.file(signatureFile), []byte(base64.StdEncoding.EncodeToString(sig)), 0o644)
	if err := errors.Join(err, os.WriteFile(r.file(publicFile), public, 0o644)); err != nil {
		return fmt.Errorf("write the signature: %w", err)
	}
	fmt.Fprintf(out, "Signed %s, and %d images and charts. The public key is %s, with SHA-256 %x.\n", sumsFile, n, publicFile, sha256.Sum256(public))
	return nil
}

// statements returns what says of a digest where it is from.
func statements(all []built) (map[v1.Hash][]byte, error) {
	out := map[v1.Hash][]byte{}
	for _, b := range all {
		if !b.bare {
			continue
		}
		m, err := b.image.Manifest()
		if err != nil {
			return nil, err
		}
		if m.ArtifactType != statementKind || m.Subject == nil || len(m.Layers) != 1 {
			continue
		}
		layer, err := b.image.LayerByDigest(m.Layers[0].Digest)
		if err != nil {
			return nil, err
		}
		in, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("read where %s is from: %w", b.name, err)
		}
		out[m.Subject.Digest] = text
	}
	return out, nil
}

// attach adds what is signed of an entry, under the tag where cosign looks for it.
func attach(into layout.Path, b built, end string, kind types.MediaType, body []byte, annotations map[string]string) error {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image, mutate.Addendum{Layer: static.NewLayer(body, kind), Annotations: annotations, MediaType: kind})
	if err == nil {
		ref := b.name + ":" + strings.ReplaceAll(b.digest.String(), ":", "-") + end
		err = into.AppendImage(image, layout.WithAnnotations(map[string]string{refName: ref}))
	}
	if err != nil {
		return fmt.Errorf("add a signature of %s: %w", b.name, err)
	}
	return nil
}
