package safety

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/pages"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// manifest is what "lbremedy doctor -f" looks at.
const manifest = `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// TestPages types what the pages show to an operator, in the order of the pages, in a
// cluster with a case that was fixed and others that ask. None of it is a mistake: an exit
// code above 2 tells what was found.
func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, testbed.Config{}, careful).start()
	r.answerable()
	r.must(r.testbed.Fail(r.ctx, testbed.LostTag().As("web"), testbed.FullVSwitch(testbed.FullVSwitchH).As("cart"), testbed.Gone().As("images"),
		testbed.LostTag().As("mail")))
	asked, fixed := r.ends("web", event.Asked), r.ends("cart", event.Fixed)
	r.ends("images", event.Asked)
	refused := r.ends("mail", event.Asked)

	file, err := program()
	r.must(err)
	dir := t.TempDir()
	r.must(os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	r.must(os.Symlink(file, filepath.Join(dir, "bin", "lbremedy")))
	for name, text := range map[string]string{"fix.yaml": careful, "policy.yaml": careful, "service.yaml": manifest} {
		r.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range pages.Of(t, "../../..", "test/e2e/safety") {
		service, id := "/web", fixed.Case
		switch {
		case strings.Contains(c.Text, "--fix lb-gone "):
			service = "/images"
		case strings.Contains(c.Text, "lbremedy approve "):
			id = asked.Case
		case strings.Contains(c.Text, "lbremedy reject "):
			id = refused.Case
		}
		text := strings.NewReplacer("shop/web", r.testbed.Namespace+service, "shop/fixed-family", r.testbed.Namespace+"/cart", "<case>", id, "CASE", id,
			"<cluster ID>", testbed.ClusterID, "CLUSTER", testbed.ClusterID, "REGION", r.testbed.Cloud.Region()).Replace(c.Text)
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(r.ctx, "sh", "-c", text)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
		cmd.Env = append(r.command().Env, "LBREMEDY_NATS="+r.url, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		code := cmd.ProcessState.ExitCode()
		if code == command.CodeFailed || code == command.CodeWrong {
			t.Errorf("%s: exit code %d\n%s%s", c, code, out.String(), errs.String())
		}
		if id == asked.Case {
			r.ends("web", event.Fixed)
		}
	}
}
