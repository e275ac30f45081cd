package safety

import (
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/pages"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const manifest = `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// TestPages runs the commands that the pages show to an operator, in order, in a cluster with one fixed case and others that ask.
// No command is a usage error; an exit code above 2 reports findings.
func TestPages(t *testing.T) {
	t.Parallel()
	r := rig.New(t, testbed.Config{}, rig.Careful).Start()
	r.Answerable()
	r.Must(r.Testbed.Fail(r.Ctx, testbed.LostTag().As("web"), testbed.FullVSwitch(testbed.FullVSwitchH).As("cart"), testbed.Gone().As("images"),
		testbed.LostTag().As("mail")))
	asked, fixed := r.Ends("web", event.Asked), r.Ends("cart", event.Fixed)
	r.Ends("images", event.Asked)
	refused := r.Ends("mail", event.Asked)

	dir := r.Shelf(map[string]string{"fix.yaml": rig.Careful, "policy.yaml": rig.Careful, "service.yaml": manifest})
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
		text := strings.NewReplacer("shop/web", r.Testbed.Namespace+service, "shop/fixed-family", r.Testbed.Namespace+"/cart", "<case>", id, "CASE", id,
			"<cluster ID>", testbed.ClusterID, "CLUSTER", testbed.ClusterID, "REGION", r.Testbed.Cloud.Region()).Replace(c.Text)
		if got := r.Paste(dir, text); got.Code == command.CodeFailed || got.Code == command.CodeWrong {
			t.Errorf("%s: exit code %d\n%s%s", c, got.Code, got.Out, got.Err)
		}
		if id == asked.Case {
			r.Ends("web", event.Fixed)
		}
	}
}
