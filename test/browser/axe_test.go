package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe-core finds problems for users with a screen reader or weak eyes. Its package is fetched once with npm, and verified.
const (
	axeVersion = "4.14.1"
	axeSum     = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

var axe = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "lbremedy", "axe")
	file := filepath.Join(dir, "axe-core-"+axeVersion+".tgz")
	data, err := os.ReadFile(file)
	if err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		cmd := exec.Command("npm", "pack", "axe-core@"+axeVersion, "--silent", "--pack-destination", dir)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("fetch axe-core: %w: %s", err, out)
		}
		if data, err = os.ReadFile(file); err != nil {
			return "", err
		}
	}
	if sum := sha512.Sum512(data); base64.StdEncoding.EncodeToString(sum[:]) != axeSum {
		return "", fmt.Errorf("%s is not the axe-core that is wanted: delete it", file)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("read axe-core: %w", err)
		}
		if h.Name == "package/axe.min.js" {
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
})

func accessible(t testing.TB, tab context.Context, what string) {
	t.Helper()
	script, err := axe()
	if err != nil {
		t.Fatal(err)
	}
	// The Content-Security-Policy does not apply to the protocol's own evaluation.
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](script+";true")); err != nil {
		t.Fatalf("%s: load axe-core: %v", what, err)
	}
	found, err := chromedp.Run(tab, chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v =>
		v.nodes.map(n => v.id + ": " + v.help + ": " + n.target.join(" ") + " " + n.html.slice(0, 200) + " " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: run axe-core: %v", what, err)
	}
	if len(found) > 0 {
		t.Errorf("%s:\n%s", what, strings.Join(found, "\n"))
	}
}
