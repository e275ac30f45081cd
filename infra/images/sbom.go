package main

import (
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The parts of an SPDX 2.3 document that we write (https://spdx.github.io/spdx-spec/v2.3).
type (
	spdxDocument struct {
		Version       string         `json:"spdxVersion"`
		DataLicense   string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      spdxCreation   `json:"creationInfo"`
		Describes     []string       `json:"documentDescribes"`
		Packages      []spdxPackage  `json:"packages"`
		Relationships []spdxRelation `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Version       string         `json:"versionInfo,omitempty"`
		Download      string         `json:"downloadLocation"`
		FilesAnalyzed bool           `json:"filesAnalyzed"`
		Concluded     string         `json:"licenseConcluded"`
		Declared      string         `json:"licenseDeclared"`
		Copyright     string         `json:"copyrightText"`
		Purpose       string         `json:"primaryPackagePurpose,omitempty"`
		Checksums     []spdxChecksum `json:"checksums,omitempty"`
		Refs          []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelation struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// The modules that the layer of all images is from: the time zones are Go's.
const (
	standard = "stdlib"
	trusted  = "golang.org/x/crypto/x509roots/fallback"
)

// sbom returns the SPDX document of an image: what Go wrote into the program about its
// modules, Go itself, and where the root certificates are from. It has no time of its
// own, so that the same image has the same document.
func sbom(name, file string, on v1.Platform, digest v1.Hash) ([]byte, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the modules of the program: %w", err)
	}
	certificates, err := version(trusted)
	if err != nil {
		return nil, err
	}
	const image, main = "SPDXRef-image", "SPDXRef-main"
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:      fmt.Sprintf("%s for %s/%s", name, on.OS, on.Architecture),
		Namespace: fmt.Sprintf("%s/spdx/%s/%s", source, name, digest.Hex),
		Creation:  spdxCreation{Created: epoch.Format("2006-01-02T15:04:05Z"), Creators: []string{"Tool: lbremedy-images", "Organization: lbremedy"}},
		Describes: []string{image},
		Packages: []spdxPackage{
			{ID: image, Name: name, Version: digest.String(), Purpose: "CONTAINER", Declared: licenses,
				Checksums: []spdxChecksum{{Algorithm: "SHA256", Value: digest.Hex}}},
			{ID: main, Name: info.Path, Purpose: "APPLICATION", Declared: licenses},
		},
		Relationships: []spdxRelation{{"SPDXRef-DOCUMENT", "DESCRIBES", image}, {image, "CONTAINS", main}},
	}
	module := func(whole, relation, path, version string) {
		id := fmt.Sprintf("SPDXRef-module-%d", len(d.Packages)-2)
		d.Packages = append(d.Packages, spdxPackage{
			ID: id, Name: path, Version: version, Declared: "NOASSERTION",
			Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
		})
		d.Relationships = append(d.Relationships, spdxRelation{whole, relation, id})
	}
	module(main, "DEPENDS_ON", standard, strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		module(main, "DEPENDS_ON", m.Path, m.Version)
	}
	module(image, "CONTAINS", trusted, certificates)
	for i := range d.Packages {
		p := &d.Packages[i]
		p.Download, p.Concluded, p.Copyright = "NOASSERTION", "NOASSERTION", "NOASSERTION"
	}
	return indent(d)
}

// version returns the version of a module that this program is made with.
func version(module string) (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("the version of %s is not known: this program has no list of modules", module)
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
	if i < 0 {
		return "", fmt.Errorf("the version of %s is not known", module)
	}
	return info.Deps[i].Version, nil
}
