package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Where the continuous integration pushes releases. Artifact Hub is told so; whoever
// installs the chart names a registry that the cluster can reach.
const published = "ghcr.io/lbremedy"

// The kinds of a chart's parts in a registry: https://helm.sh/docs/topics/registries.
const (
	helmConfig = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	helmChart  = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

// The kinds by which Artifact Hub finds what a repository says of itself:
// https://artifacthub.io/docs/topics/repositories/helm-charts.
const (
	hubConfig = types.MediaType("application/vnd.cncf.artifacthub.config.v1+yaml")
	hubFile   = types.MediaType("application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml")
)

// A chart is that of a release: its images are those of the release, by digest.
type chart struct {
	version string // as Helm writes it, without v
	file    string // its name
	packed  []byte
	config  []byte // Chart.yaml as JSON
}

// chartAt is where the chart is in the tree.
const chartAt = "infra/cluster"

// packChart packs the chart of the tree for a version, with the digests of its images.
func packChart(root, version, notes string, images []built) (chart, error) {
	c := chart{version: strings.TrimPrefix(version, "v")}
	c.file = "lbremedy-" + c.version + ".tgz"
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(under(root, chartAt)), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		files[name], err = os.ReadFile(filepath.Join(under(root, chartAt), filepath.FromSlash(name)))
		return err
	})
	if err != nil {
		return c, fmt.Errorf("read the chart: %w", err)
	}
	if files["LICENSE"], err = os.ReadFile(under(root, "LICENSE")); err != nil {
		return c, fmt.Errorf("read our licence: %w", err)
	}
	if files["Chart.yaml"], c.config, err = describe(files["Chart.yaml"], version, notes, images); err != nil {
		return c, err
	}
	if files["values.yaml"], err = pin(files["values.yaml"], version, images); err != nil {
		return c, err
	}
	files["README.md"] = absolute(files["README.md"], version)
	c.packed, err = tarred("lbremedy", files)
	return c, err
}

// describe returns Chart.yaml of a release, in YAML and as JSON.
func describe(text []byte, version, notes string, images []built) (described, config []byte, err error) {
	var c map[string]any
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, nil, fmt.Errorf("read Chart.yaml: %w", err)
	}
	said, _ := c["annotations"].(map[string]any)
	if said == nil {
		return nil, nil, errors.New("read Chart.yaml: it has no annotations for Artifact Hub")
	}
	var names []map[string]any
	for _, b := range images {
		m, err := b.index.IndexManifest()
		if err != nil {
			return nil, nil, err
		}
		var on []string
		for _, d := range m.Manifests {
			on = append(on, d.Platform.String())
		}
		names = append(names, map[string]any{"name": b.name, "image": published + "/" + b.name + "@" + b.digest.String(), "platforms": on})
	}
	lists := map[string]any{"artifacthub.io/images": names}
	if points := changes(notes); len(points) > 0 {
		lists["artifacthub.io/changes"] = points
	}
	for key, value := range lists {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, nil, err
		}
		said[key] = string(text)
	}
	said["artifacthub.io/prerelease"] = fmt.Sprint(strings.Contains(version, "-"))
	c["version"], c["appVersion"] = strings.TrimPrefix(version, "v"), version
	if described, err = yaml.Marshal(c); err != nil {
		return nil, nil, err
	}
	config, err = json.Marshal(c)
	return described, config, err
}

// linked finds the links of a page, and what is set in bold.
var linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|\*\*([^*]*)\*\*`)

// changes returns the points of the release notes, in plain text.
func changes(notes string) []string {
	var out []string
	for line := range strings.Lines(notes) {
		line = strings.TrimRight(line, "\n")
		point, begins := strings.CutPrefix(line, "- ")
		switch {
		case begins:
			out = append(out, point)
		case strings.HasPrefix(line, "  ") && len(out) > 0:
			out[len(out)-1] += " " + strings.TrimSpace(line)
		}
	}
	for i, text := range out {
		out[i] = strings.ReplaceAll(linked.ReplaceAllString(text, "$1$2"), "`", "")
	}
	return out
}

var (
	tagValue     = regexp.MustCompile(`(?m)^  tag: ""( +#.*)?$`)
	digestsValue = regexp.MustCompile(`(?m)^  digests: \{\}( +#.*)?$`)
)

// pin returns values.yaml with the tag and the digests of a release as defaults.
func pin(text []byte, version string, images []built) ([]byte, error) {
	var digests strings.Builder
	for _, b := range images {
		fmt.Fprintf(&digests, "\n    %s: %s", b.name, b.digest)
	}
	for _, value := range []struct {
		at *regexp.Regexp
		to string
	}{{tagValue, fmt.Sprintf("  tag: %q", version)}, {digestsValue, "  digests: # of this release" + digests.String()}} {
		if n := len(value.at.FindAll(text, -1)); n != 1 {
			return nil, fmt.Errorf("values.yaml has %d lines that %s finds, not one", n, value.at)
		}
		text = value.at.ReplaceAllLiteral(text, []byte(value.to))
	}
	return text, nil
}

// outside finds the links of the chart's page to what is not in the chart.
var outside = regexp.MustCompile(`\]\(((?:\.\./)+)`)

// absolute returns the chart's page with links that lead somewhere outside of the tree, too.
func absolute(text []byte, version string) []byte {
	return outside.ReplaceAllFunc(text, func(link []byte) []byte {
		up := path.Clean(chartAt + "/" + string(link[2:]))
		if up == "." {
			up = ""
		} else {
			up += "/"
		}
		return []byte("](" + source + "/blob/" + version + "/" + up)
	})
}

// tarred packs files into a folder of a tar, by their names.
func tarred(folder string, files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	g := gzip.NewWriter(&out)
	t := tar.NewWriter(g)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Format: tar.FormatUSTAR, Name: folder + "/" + name, Mode: 0o644, Size: int64(len(files[name])), ModTime: epoch}
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := t.Write(files[name]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	err := errors.Join(t.Close(), g.Close())
	return out.Bytes(), err
}
