package rules

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// A row lists which packages of this module some of its packages may import, by paths relative to the module (see matches). The
// first row that matches a package applies. Test files and packages that serve tests may import anything.
type row struct {
	who []string
	may []string
	why string
}

var rows = []row{
	{
		who: []string{"infra/gen/folders"},
		why: "no state of the classes may keep it from working",
	},
	{
		who: []string{"infra/gen/stage1"},
		may: []string{"infra/gen/folders"},
		why: "no state of the classes may keep it from working",
	},
	{
		who: []string{"infra/fc/pack"},
		may: []string{"functions", "infra/gen/folders", "shared/remedy"},
		why: "it builds the programs of the classes, and is no part of them",
	},
	{
		who: []string{"infra/ram"},
		may: []string{"shared/grant"},
		why: "it says what a grant means to RAM",
	},
	{
		who: []string{"infra/nats"},
		may: []string{"shared/stream"},
		why: "it says what permissions mean to a NATS server",
	},
	{
		who: []string{"infra/gen/...", "infra/keys"},
		may: []string{"..."},
	},
	{
		who: []string{"functions/cmd/lbremedy"},
		may: []string{"functions/cmd/lbremedy/root"},
		why: "it is where the program begins and nothing more",
	},
	{
		who: []string{"functions/cmd/lbremedy/root"},
		may: []string{"functions/cmd/lbremedy/*", "shared/command"},
		why: "it puts the commands together and knows nothing of what they do",
	},
	{
		who: []string{"functions/cmd/lbremedy/cli"},
		may: []string{"functions", "functions/doctor", "shared/..."},
		why: "it is what the commands share, and knows none of them",
	},
	{
		who: []string{"functions/cmd/lbremedy/tickets"},
		may: []string{"functions/cmd/lbremedy/cli", "shared/..."},
		why: "the commands on the journal stand on it",
	},
	{
		who: []string{"functions/cmd/lbremedy/journal"},
		may: []string{"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/tickets", "shared/..."},
		why: "other commands stand on it",
	},
	{
		who: []string{"functions/cmd/lbremedy/answer"},
		may: []string{"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/journal", "functions/cmd/lbremedy/paste", "functions/doctor", "shared/..."},
		why: "other commands stand on it",
	},
	{
		who: []string{"functions/cmd/lbremedy/paste"},
		may: []string{"shared/event"},
		why: "it reads what people paste, knows no command, and nothing that reads the stream may know it",
	},
	{
		who: []string{"functions/cmd/lbremedy/up"},
		may: []string{
			"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/journal", "functions/cmd/lbremedy/permission",
			"functions", "functions/doctor", "events/...", "shared/...",
		},
		why: "it runs the parts, and is the only command that does",
	},
	{
		who: []string{"functions/cmd/lbremedy/status"},
		may: []string{
			"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/journal", "functions/cmd/lbremedy/permission",
			"functions", "functions/doctor", "events/exporter", "shared/...",
		},
		why: "it says how all parts stand, in the words of the commands that show them one by one",
	},
	{
		who: []string{"functions/cmd/lbremedy/mcp"},
		may: []string{
			"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/journal", "functions/cmd/lbremedy/answer",
			"functions/cmd/lbremedy/doctor", "functions/cmd/lbremedy/permission", "functions", "functions/doctor", "shared/...",
		},
		why: "it tells agents what other commands tell people, by the same functions",
	},
	{
		who: []string{"functions/cmd/lbremedy/console"},
		may: []string{
			"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/journal", "functions/cmd/lbremedy/mcp", "functions/cmd/lbremedy/status",
			"functions/cmd/lbremedy/doctor", "functions/cmd/lbremedy/permission", "functions", "shared/...",
		},
		why: "it shows in a browser what other commands show in a terminal, in their words",
	},
	{
		who: []string{"functions/cmd/lbremedy/*"},
		may: []string{
			"functions/cmd/lbremedy/cli", "functions/cmd/lbremedy/journal", "functions/cmd/lbremedy/answer",
			"functions", "functions/doctor", "functions/rampermission", "shared/...",
		},
		why: "a group of commands knows no other, but those that find cases and answer failures",
	},
	{
		who: []string{"shared/config"},
		why: "it reads files and knows nothing of what they say",
	},
	{
		who: []string{"shared/retry"},
		why: "it says when to try again and knows nothing of what is tried",
	},
	{
		who: []string{"shared/say", "shared/grant", "shared/near", "shared/regex"},
		why: "everything stands on it",
	},
	{
		who: []string{"shared/say/*"},
		may: []string{"shared/say"},
		why: "it is a language and nothing more",
	},
	{
		who: []string{"shared/event/table", "shared/event/schema"},
		may: []string{"shared/event"},
		why: "it says what is on the wire and moves nothing",
	},
	{
		who: []string{"events/exporter"},
		may: []string{"shared/event", "shared/event/table", "shared/grant", "shared/kube", "shared/ledger", "shared/stream", "shared/observe", "shared/retry"},
		why: "it moves events and knows no class",
	},
	{
		who: []string{"shared/hand/route"},
		may: []string{"shared/cloud", "shared/config", "shared/event", "shared/hand"},
		why: "it posts calls and knows no class",
	},
	{
		who: []string{"events/cmd/*"},
		may: []string{"events/...", "shared/command", "shared/event/...", "shared/kube", "shared/stream", "shared/observe/..."},
		why: "it moves events and knows no class",
	},
	{
		who: []string{"shared/machine"},
		may: nil,
		why: "it decides from the document and a report alone",
	},
	{
		who: []string{"shared/event"},
		may: []string{"shared/machine", "shared/say"},
		why: "it says what is on the wire, and everything stands on it",
	},
	{
		who: []string{"shared/cloud"},
		may: []string{"shared/event", "shared/grant", "shared/retry"},
		why: "it shows the outside as it is and decides nothing",
	},
	{
		who: []string{"shared/kube", "shared/stream", "shared/stream/embedded"},
		may: []string{"shared/event", "shared/grant", "shared/retry", "shared/say"},
		why: "it shows the outside as it is and decides nothing",
	},
	{
		who: []string{"shared/ledger"},
		may: []string{"shared/event", "shared/stream"},
		why: "it compares what the streams and documents hold",
	},
	{
		who: []string{"shared/observe"},
		may: []string{"shared/event", "shared/grant", "shared/ledger", "shared/stream"},
		why: "it measures what others tell it, in the words of the wire and the stream",
	},
	{
		who: []string{"shared/observe/trace"},
		may: []string{"shared/event"},
		why: "it makes spans from records alone, in the words of the wire",
	},
	{
		who: []string{"shared/command"},
		may: []string{"shared/event", "shared/say"},
		why: "it is how the programs with commands talk, and knows nothing of what they do",
	},
	{
		who: []string{"shared/ccm"},
		may: []string{"shared/grant", "shared/cloud", "shared/kube", "shared/say"},
		why: "it is what the controller is known to do; it plans nothing and writes nothing",
	},
	{
		who: []string{"shared/guard"},
		may: []string{"shared/ccm", "shared/say"},
		why: "it says which edits the API server is to stop, and makes none",
	},
	{
		who: []string{"shared/remedy"},
		may: []string{"shared/event", "shared/grant", "shared/cloud", "shared/kube", "shared/ccm", "shared/say"},
		why: "it is the contract, and knows neither engine nor step",
	},
	{
		who: []string{"shared/engine"},
		may: []string{"shared/approval", "shared/event", "shared/grant", "shared/kube", "shared/stream", "shared/retry", "shared/ccm", "shared/remedy",
			"shared/hand", "shared/machine", "shared/say", "shared/control", "shared/document"},
		why: "the engine knows no step and no endpoint, and what needs a class's rights is a hand's",
	},
	{
		who: []string{"shared/control"},
		may: []string{"shared/event", "shared/stream", "shared/say"},
		why: "it keeps what limits writes, and knows neither policy nor remedy",
	},
	{
		who: []string{"shared/document"},
		may: []string{"shared/event", "shared/stream", "shared/machine"},
		why: "it keeps what is known of an object, and decides nothing of it",
	},
	{
		who: []string{"shared/machine"},
		why: "it decides on values alone, and a driver does the rest",
	},
	{
		who: []string{"shared/hand"},
		may: []string{"shared/event", "shared/cloud", "shared/kube", "shared/ccm", "shared/remedy", "shared/say"},
		why: "a hand does what the engine asks for, and knows neither the stream nor the policy",
	},
	{
		who: []string{"shared/connect"},
		may: []string{"shared/event", "shared/cloud", "shared/kube", "shared/remedy", "shared/hand"},
		why: "it says what hands read and write with, and asks them for nothing",
	},
	{
		who: []string{"shared/step"},
		may: []string{"shared/grant", "shared/cloud", "shared/kube", "shared/ccm", "shared/remedy", "shared/say"},
		why: "a step fulfills the contract and knows no engine",
	},
	{
		who: []string{"shared/policy"},
		may: []string{"shared/event", "shared/stream", "shared/remedy", "shared/say"},
		why: "it tells what the operator allows, and allows nothing itself",
	},
	{
		who: []string{"shared/policy/policyfile"},
		may: []string{"shared/config", "shared/kube", "shared/ccm", "shared/remedy", "shared/policy"},
		why: "it reads what the operator allows, and allows nothing itself",
	},
	{
		who: []string{"shared/mail"},
		may: []string{"shared/event"},
		why: "it sends messages, and knows nothing of what they are about",
	},
	{
		who: []string{"shared/chat"},
		may: []string{"shared/event", "shared/retry"},
		why: "it shows cards and hears clicks, and knows nothing of what they are about",
	},
	{
		who: []string{"shared/forge"},
		may: []string{"shared/chat", "shared/regex"},
		why: "it keeps a merge request, and knows nothing of what the change is about",
	},
	{
		who: []string{"shared/manifest"},
		may: []string{"shared/regex"},
		why: "it changes a text",
	},
	{
		who: []string{"shared/ticket"},
		may: []string{"shared/approval", "shared/chat", "shared/event", "shared/grant", "shared/cloud", "shared/kube", "shared/stream", "shared/retry",
			"shared/policy", "shared/remedy", "shared/engine", "shared/control", "shared/document", "shared/mail", "shared/say",
			"shared/forge", "shared/manifest"},
		why: "it tells what the journal holds",
	},
	{
		who: []string{"shared/approval"},
		may: []string{"shared/event", "shared/grant", "shared/kube", "shared/remedy", "shared/stream", "shared/retry", "shared/say"},
		why: "it reads and counts what people answer, and writes nothing",
	},
	{
		who: []string{"shared/probe"},
		may: []string{"shared/event", "shared/grant", "shared/kube", "shared/stream"},
		why: "it shows that failures get through, and knows nothing of what is done about them",
	},
	{
		who: []string{"shared/host"},
		may: []string{"shared/connect", "shared/event", "shared/stream", "shared/step", "shared/remedy", "shared/hand", "shared/engine", "shared/control",
			"shared/document", "shared/retry"},
		why: "it takes failures in for the engine, and what a class needs is a hand's",
	},
	{
		who: []string{"shared/serve"},
		may: []string{"shared/connect", "shared/event", "shared/cloud", "shared/remedy", "shared/hand"},
		why: "it is part of every function program, and these hold no key and stay small",
	},
	{
		who: []string{"shared/doctor"},
		may: []string{"shared/event", "shared/grant", "shared/guard", "shared/cloud", "shared/kube", "shared/stream", "shared/ccm", "shared/remedy", "shared/engine",
			"shared/control", "shared/document", "shared/ledger", "shared/say"},
		why: "it gathers for the checks and knows none",
	},
	{
		who: []string{"functions/doctor"},
		may: []string{"shared/grant", "shared/cloud", "shared/ccm", "shared/guard", "shared/remedy", "shared/step", "shared/doctor", "shared/say"},
		why: "a check looks at a snapshot and reads nothing",
	},
	{
		who: []string{"functions"},
		may: []string{"functions/*", "shared/remedy", "shared/say"},
		why: "it is the list of the classes and what their folders hold for people, and nothing more",
	},
	{
		who: []string{"functions/*/cmd/*"},
		may: []string{"functions/*", "shared/serve"},
		why: "it is one class behind an endpoint and nothing more",
	},
	{
		who: []string{"functions/*"},
		may: []string{"shared/grant", "shared/cloud", "shared/ccm", "shared/remedy", "shared/step", "shared/say"},
		why: "class code reads and decides; what it needs to read is a method of shared/cloud",
	},
}

func imports(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		i := slices.IndexFunc(rows, func(r row) bool { return matches(f.dir(), r.who...) })
		if i < 0 {
			out = append(out, f.name+": no row of test/rules/imports_test.go says what "+f.dir()+" may import: add one, with its reason")
			continue
		}
		r := rows[i]
		for _, p := range sorted(f.imports()) {
			ours, ok := strings.CutPrefix(p, module+"/")
			if !ok {
				continue
			}
			pos := f.imports()[p].Pos()
			switch {
			case matches(ours, "test/..."):
				out = append(out, tr.at(pos, "%s imports %s: nothing that is shipped may import what serves tests; move what both need to shared", f.dir(), ours))
			case slices.Contains([]string{"shared/near", "shared/regex"}, ours) && f.dir() != ours: // as harmless as the standard library
			case !matches(ours, r.may...):
				out = append(out, tr.at(pos, "%s must not import %s (%s): it may import %s", f.dir(), ours, r.why, list(r.may)))
			case matches(f.dir(), "functions/*/cmd/*") && strings.HasPrefix(ours, "functions/") && ours != path.Dir(path.Dir(f.dir())):
				out = append(out, tr.at(pos, "%s imports another class, %s: run make gen", f.dir(), ours))
			}
		}
	}
	return out
}

// A home lists the packages that may import a library, by the longest prefix of its import path. With one home, a library can be
// replaced, and one place shows which parts of it are used.
var homes = map[string][]string{
	"github.com/alibabacloud-go/tea/dara":    {"shared/hand/route"},
	"github.com/aliyun/alibaba-cloud-sdk-go": {"shared/cloud"},
	"github.com/aliyun/fc-runtime-go-sdk":    {"shared/serve"},
	"github.com/google/uuid":                 {"shared/event"},
	"github.com/gorilla/websocket":           {"shared/chat"},
	"github.com/invopop/jsonschema":          {"shared/event/schema"},
	"github.com/jedib0t/go-pretty/v6":        {"shared/command", "functions/cmd/lbremedy/cli"},
	"github.com/modelcontextprotocol/go-sdk": {"functions/cmd/lbremedy/mcp"},
	"github.com/nats-io/nats-server/v2":      {"shared/stream/embedded"},
	"github.com/nats-io/nats.go":             {"shared/stream"},
	"github.com/nats-io/nkeys":               {"infra/keys", "shared/stream"},
	"github.com/pmezard/go-difflib":          {"shared/policy"},
	"github.com/prometheus/client_golang":    {"shared/observe"},
	"github.com/prometheus/common":           {"functions/cmd/lbremedy/cli"},
	"github.com/spf13/cobra":                 {"shared/command", "functions/cmd/lbremedy/*", "events/cmd/exporter"},
	"github.com/standard-webhooks":           {"shared/ticket"},
	"github.com/spf13/pflag":                 {"shared/command", "functions/cmd/lbremedy/cli"},
	"go.yaml.in/yaml/v3":                     {"shared/config", "shared/manifest"},
	"google.golang.org/protobuf/encoding":    {"shared/chat"},
	"golang.org/x/crypto/x509roots/fallback": {"shared/kube"},
	"golang.org/x/term":                      {"functions/cmd/lbremedy/cli"},
	"golang.org/x/text":                      {"functions/cmd/lbremedy/cli"},
	"golang.org/x/tools/txtar":               {"infra/gen"},
	"go.opentelemetry.io/otel":               {"shared/observe/trace"},
	"k8s.io/client-go":                       {"shared/kube"},
	"k8s.io/client-go/rest":                  {"shared/kube"},
	"k8s.io/client-go/util/jsonpath":         {"shared/command"},
	"k8s.io/component-helpers":               {"shared/ccm"},
	"k8s.io/klog/v2":                         {"shared/ccm"}, // in the signatures of component-helpers

	// Vocabulary: types that packages exchange.
	"github.com/cloudevents/sdk-go/v2/event": {"events/...", "shared/event", "shared/host", "shared/ticket"},
	"github.com/cloudevents/sdk-go/v2/types": {"shared/event"},
	"k8s.io/api":                             {"shared/...", "events/exporter", "functions/...", "infra/gen"},
	"k8s.io/apimachinery":                    {"shared/...", "events/exporter", "functions/cmd/lbremedy/up"},

	// Class code meets these in the fields of k8s.io/api.
	"k8s.io/apimachinery/pkg/api/resource": {"shared/...", "functions/..."},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"shared/...", "events/exporter", "functions/...", "infra/gen"},
	"k8s.io/apimachinery/pkg/labels":       {"shared/...", "functions/..."},
	"k8s.io/apimachinery/pkg/util/intstr":  {"shared/...", "functions/..."},

	// Ages, as kubectl writes them.
	"k8s.io/apimachinery/pkg/util/duration": {"functions/doctor", "functions/cmd/lbremedy/cli"},

	// Small helpers that do not shape the design.
	"golang.org/x/sync": {"shared/...", "events/...", "functions/cmd/lbremedy/console", "functions/cmd/lbremedy/mcp", "functions/cmd/lbremedy/up",
		"infra/fc/pack", "test/testbed"},
	"golang.org/x/time": {"shared/...", "events/..."},
	"golang.org/x/sys":  {"shared/...", "events/..."},
	"sigs.k8s.io/yaml":  {"shared/ccm", "shared/command", "functions/cmd/lbremedy/*", "infra/..."},

	// Only the signer: the client takes no context and reads without limits.
	"github.com/alibabacloud-go/darabonba-openapi/v2/utils": {"shared/hand/route"},

	// These bring every API group, or caches, into programs that have to stay small.
	"k8s.io/client-go/discovery":  {},
	"k8s.io/client-go/dynamic":    {},
	"k8s.io/client-go/restmapper": {},
	"k8s.io/client-go/informers":  {},
	"k8s.io/client-go/kubernetes": {},

	// Its client and logger are unused, but would be linked into every program.
	"github.com/cloudevents/sdk-go/v2": {},

	"github.com/alibabacloud-go":                              {},
	"github.com/google/go-cmp":                                {},
	"github.com/santhosh-tekuri/jsonschema/v6":                {},
	"go.opentelemetry.io/proto/otlp":                          {},
	"go.uber.org/goleak":                                      {},
	"golang.org/x/tools":                                      {},
	"pgregory.net/rapid":                                      {},
	"github.com/cloudevents/sdk-go/v2/test":                   {},
	"github.com/nats-io/nats-server/v2/test":                  {},
	"k8s.io/client-go/tools/record":                           {},
	"k8s.io/client-go/tools/cache":                            {},
	"k8s.io/client-go/util/workqueue":                         {},
	"github.com/prometheus/client_golang/prometheus/testutil": {},
}

func libraries(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		for _, p := range sorted(f.imports()) {
			if standard(p) || p == module || strings.HasPrefix(p, module+"/") {
				continue
			}
			pos := f.imports()[p].Pos()
			home, ok := homeOf(p)
			switch {
			case !ok:
				out = append(out, tr.at(pos, "%s imports %s, which has no home: give it one in test/rules/imports_test.go, and say in the commit why we need it",
					f.dir(), p))
			case len(homes[home]) == 0:
				out = append(out, tr.at(pos, "%s imports %s, which nothing that is shipped may import", f.dir(), p))
			case !matches(f.dir(), homes[home]...):
				out = append(out, tr.at(pos, "%s must not import %s: only %s may; ask there for what is needed", f.dir(), p, list(homes[home])))
			}
		}
	}
	return out
}

func homeOf(p string) (string, bool) {
	for ; p != "."; p = path.Dir(p) {
		if _, ok := homes[p]; ok {
			return p, true
		}
	}
	return "", false
}

// testLibraries checks that tests are written with the standard library and go-cmp.
func testLibraries(tr *tree) []string {
	banned := []string{
		"github.com/stretchr/testify/...", "github.com/onsi/*/...", "github.com/golang/mock/...", "go.uber.org/mock/...",
		"gotest.tools/...", "github.com/matryer/is/...",
	}
	var out []string
	for _, f := range tr.files {
		if f.ast == nil {
			continue
		}
		for _, p := range sorted(f.imports()) {
			if matches(p, banned...) {
				out = append(out, tr.at(f.imports()[p].Pos(), "%s imports %s: say got and want with the testing package, and a difference with go-cmp", f.dir(), p))
			}
		}
	}
	return out
}

func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

func list(patterns []string) string {
	if len(patterns) == 0 {
		return "nothing of ours"
	}
	return strings.Join(patterns, ", ")
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
