package root_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

// -n is the namespace of Services, as in kubectl. The plugin takes a Service as kubectl does, by default in the context's namespace.
func TestNamespaceFlag(t *testing.T) {
	t.Parallel()
	c, _ := operator.Small(t)
	text, err := os.ReadFile(c.Env["LBREMEDY_KUBECONFIG"])
	if err != nil {
		t.Fatal(err)
	}
	there := operator.Write(t, "kubeconfig", strings.Replace(string(text), "context: {cluster: a}", "context: {cluster: a, namespace: shop}", 1))
	plugin := c
	plugin.Plugin = true
	for args, call := range map[string]operator.Call{
		"lb show -n shop nope": c, "doctor -n shop nope": c, "lb show --namespace=shop shop/nope": c, "lb show nope -n shop": plugin,
		"lb show svc/nope -n shop":     plugin,
		"lb show service/nope -n shop": plugin, "lb show shop/nope": plugin, "lb show services/nope --kubeconfig " + there: plugin,
		"lb show svc/nope": plugin.With("LBREMEDY_KUBECONFIG", there),
	} {
		if got := call.Run(t.Context(), strings.Fields(args)...); got.Code != command.CodeWrong || !strings.Contains(got.Err, "there is no Service shop/nope ") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for args, tt := range map[string]struct {
		operator.Call
		says string
	}{
		"lb show -n shop pay/own":     {c, "pay/own is not in the namespace shop that --namespace names"},
		"lb show svc/own":             {c, "there is no Service svc/own"},
		"lb show services/own":        {plugin, "there is no Service default/own"},
		"plan -n shop nowhere.json":   {c, "there is no Service shop/nowhere.json"},
		"lb show svc/own --context x": {plugin, "specified context: x"},
		"ls --bar":                    {plugin, "see kubectl lbremedy ls --help"},
	} {
		if got := tt.Run(t.Context(), strings.Fields(args)...); got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.says) {
			t.Errorf("%s: %+v, want %q", args, got, tt.says)
		}
	}
	if got := plugin.Run(t.Context(), "show", "--help"); !strings.Contains(got.Out, "kubectl lbremedy show CASE|NAMESPACE/SERVICE") ||
		!strings.Contains(got.Out, "  kubectl lbremedy show shop/web\n") {
		t.Errorf("the help says %s", got.Out)
	}
}
