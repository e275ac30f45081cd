package scenario

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/identity"
)

const (
	vswitchID = ccm.Prefix + "vswitch-id"
	example   = `The Service moves to the vSwitch with room.
-- message --
Error syncing load balancer []: Message: The specified VSwitch has no available ip.
-- service --
metadata: {namespace: shop, name: web, annotations: {service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type: intranet, ` + vswitchID + `: vsw-a}}
-- cloud --
vswitches:
- {id: vsw-a, free: 0}
- {id: vsw-b, free: 41}
-- want --
vsw-a is full.
do:   annotate ` + vswitchID + `=vsw-b
end:  fixed, low risk
`
)

func lawful() *remedy.Remedy {
	full := func(ctx context.Context, c *remedy.Case) (bool, error) {
		all, err := c.Cloud.VPC.VSwitches(ctx, "vpc-1")
		return slices.ContainsFunc(all, func(v cloud.VSwitch) bool { return v.ID == c.Service.Annotations[vswitchID] && v.Free == 0 }), err
	}
	return &remedy.Remedy{
		Class: "vswitch-ip-exhausted", Doc: "# Full", Reads: []grant.Grant{grant.DescribeVSwitches}, Steps: []remedy.Step{step.Annotate{}},
		Annotations: []string{"vswitch-id"},
		Formats: []string{"vsw-a is full.", "vsw-a %s.", "Choose a zone: %s.", "f", "a",
			"By the way.", "Do it by hand.", "It seems that all is full.", "Make room."},
		Diagnose: func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
			if _, err := full(ctx, c); err != nil {
				return remedy.Plan{}, err
			}
			return remedy.Plan{Finding: say.F("vsw-a is full."), Steps: []remedy.Step{step.With(c.Service, "vswitch-id", "vsw-b")}}, nil
		},
		StillFails: func(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
			is, err := full(ctx, c)
			if err != nil {
				return remedy.Unknown, err
			}
			return remedy.Is(is), nil
		},
	}
}

func plans(r *remedy.Remedy, change func(*remedy.Case, *remedy.Plan)) {
	diagnose := r.Diagnose
	r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		p, err := diagnose(ctx, c)
		change(c, &p)
		return p, err
	}
}

type greedy struct{ step.Annotate }

func (g greedy) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	more := step.Annotate{Set: maps.Clone(g.Set)}
	more.Set["example.com/more"] = "yes"
	return more.Apply(ctx, c, w)
}

func (greedy) as(s remedy.Step) remedy.Step { return greedy{s.(step.Annotate)} }

func file(t *testing.T, text string) script {
	t.Helper()
	name := filepath.Join(t.TempDir(), "example.txtar")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return read(t, name)
}

// TestSound checks that critical findings about a fixed Service are reported.
func TestSound(t *testing.T) {
	on := newGround(t, lawful().Class)
	for listeners, want := range map[string]string{
		"":                                  "the doctor's check listeners-missing finds: The reused lb-1 has no listener for tcp:80",
		"{port: 80, protocol: tcp}":         "",
		"{port: 8080, protocol: tcp}":       "has no listener for tcp:80",
		"{port: 80, protocol: http}":        "",
		"{port: 80, protocol: udp, status}": "has no listener for tcp:80",
	} {
		listeners = strings.Replace(listeners, "status", "status: stopped", 1)
		w := build(t, on, lawful(), file(t, strings.NewReplacer(vswitchID+": vsw-a", ccm.Prefix+"id: lb-1",
			"name: web,", "name: web, finalizers: ["+ccm.CLBFinalizer+"],", "}}\n-- cloud --",
			"}}\nstatus: {loadBalancer: {ingress: [{ip: 10.0.0.5}]}}\n-- cloud --\nloadBalancers: [{id: lb-1, address: 10.0.0.5, addressType: intranet, listeners: ["+
				listeners+"]}]").Replace(example)))
		if err := w.sound(t); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with the listeners %q: got %v, want %q", listeners, err, want)
		}
	}
}

// TestLaws: a class that breaks a law is caught by that law and none before it.
func TestLaws(t *testing.T) {
	on := newGround(t, lawful().Class)
	patch := func(ctx context.Context, data string) error {
		_, err := on.cluster.Client().CoreV1().Services("shop").Patch(ctx, "web", types.MergePatchType, []byte(data), metav1.PatchOptions{})
		return err
	}
	for _, tt := range []struct {
		name  string
		text  string // scenario; empty: example
		wrong func(*remedy.Remedy)
		law   int // law that catches it; -1: none
		says  string
	}{
		{name: "lawful", wrong: func(*remedy.Remedy) {}, law: -1},
		{name: "a message of another class", text: strings.Replace(example, "The specified VSwitch has no available ip.", "The account is arrearage.", 1),
			wrong: func(*remedy.Remedy) {}, law: 0, says: "not of vswitch-ip-exhausted"},
		{name: "an undeclared read", wrong: func(r *remedy.Remedy) { r.Reads = nil }, law: 1, says: "vpc"},
		{name: "a sentence that is no message", wrong: func(r *remedy.Remedy) {
			plans(r, func(_ *remedy.Case, p *remedy.Plan) { p.Finding = say.Literal("vsw-a is full.") })
		}, law: 1, says: "a sentence that its class does not have"},
		{name: "an argument in English", wrong: func(r *remedy.Remedy) {
			plans(r, func(_ *remedy.Case, p *remedy.Plan) { p.Finding = say.F("vsw-a %s.", "has no address left") })
		}, law: 1, says: `an argument says "has no address left"`},
		{name: "an annotation of the other kind", wrong: func(r *remedy.Remedy) {
			r.Annotations = []string{"zone-maps"}
			plans(r, func(c *remedy.Case, p *remedy.Plan) {
				p.Steps = []remedy.Step{step.With(c.Service, "zone-maps", "h:vsw-b")}
			})
		}, law: 1, says: "does not read for such a Service what is to be set: [" + ccm.Prefix + "zone-maps]"},
		{name: "a command of the other kind", wrong: func(r *remedy.Remedy) {
			plans(r, func(c *remedy.Case, p *remedy.Plan) {
				p.Steps, p.Ask = nil, say.F("Choose a zone: %s.", ccm.SetCommand(c.Service, "zone-maps", "VALUE"))
			})
		}, law: 1, says: "does not read for such a Service what is to be set"},
		{name: "an undeclared write", wrong: func(r *remedy.Remedy) { r.Steps = []remedy.Step{step.Resync{}} }, law: 1, says: "does not declare"},
		{name: "swallows an error", wrong: func(r *remedy.Remedy) {
			stillFails := r.StillFails
			r.StillFails = func(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
				if v, err := stillFails(ctx, c); err == nil {
					return v, nil
				}
				return remedy.Yes, nil
			}
			diagnose := r.Diagnose
			r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
				if p, err := diagnose(ctx, c); err == nil {
					return p, nil
				}
				return remedy.Plan{Finding: say.F("It seems that all is full."), Ask: say.F("Make room.")}, nil
			}
		}, law: 1, says: `with "vpc:DescribeVSwitches" failing no error came back`},
		{name: "swallows the error of a scenario", text: strings.Replace(example, "-- want --", "-- fault --\nvpc:DescribeVSwitches\n-- want --", 1),
			wrong: func(r *remedy.Remedy) {
				r.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
				r.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
			}, law: 1, says: "a read failed and no error came back"},
		{name: "writes while it looks", wrong: func(r *remedy.Remedy) {
			diagnose, n := r.Diagnose, 0
			r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
				n++
				if err := patch(ctx, fmt.Sprintf(`{"metadata":{"labels":{"seen":"%d"}}}`, n)); err != nil {
					return remedy.Plan{}, err
				}
				return diagnose(ctx, c)
			}
		}, law: 1, says: "a look wrote"},
		{name: "writes more than it names", wrong: func(r *remedy.Remedy) {
			r.Steps = []remedy.Step{greedy{}}
		}, law: 2, says: "example.com/more"},
		{name: "doesn't know what was there", wrong: func(r *remedy.Remedy) {
			plans(r, func(_ *remedy.Case, p *remedy.Plan) {
				for i, s := range p.Steps {
					p.Steps[i] = step.Annotate{Set: s.(step.Annotate).Set}
				}
			})
		}, law: 2, says: "undo left something behind"},
		{name: "not as wanted", wrong: func(r *remedy.Remedy) {
			plans(r, func(_ *remedy.Case, p *remedy.Plan) { p.Note = say.F("By the way.") })
		}, law: 5, says: "By the way."},
		{name: "heals nothing", wrong: func(r *remedy.Remedy) {
			plans(r, func(_ *remedy.Case, p *remedy.Plan) { p.Steps, p.Ask = nil, say.F("Do it by hand.") })
		}, law: 5, says: "Do it by hand."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, used := lawful(), &usage{}
			tt.wrong(r)
			s := file(t, cmp.Or(tt.text, example))
			for i, law := range laws {
				err := law.check(t, on, r, s, used)
				if err == nil {
					continue
				}
				if i != tt.law || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("law %q: %v", law.name, err)
				}
				return
			}
			if tt.law >= 0 {
				t.Error("no law caught it")
			}
		})
	}
}

// TestNeeded: unused rights and rights that a class can do without are reported.
func TestNeeded(t *testing.T) {
	on := newGround(t, lawful().Class)
	if err := identity.Admit(t.Context(), on.cluster); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		wrong func(*remedy.Remedy)
		says  []string // of each error
	}{
		{name: "lawful", wrong: func(*remedy.Remedy) {}},
		{name: "more than it uses", wrong: func(r *remedy.Remedy) { r.Reads = append(r.Reads, grant.DescribeEipAddresses) },
			says: []string{"the class has the right vpc:DescribeEipAddresses, and no scenario uses it"}},
		{name: "a read that it can do without", wrong: func(r *remedy.Remedy) {
			diagnose := r.Diagnose
			r.Reads = append(r.Reads, grant.ListNodes)
			r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
				c.Kube.Nodes(ctx) // result ignored
				return diagnose(ctx, c)
			}
		}, says: []string{"example without list nodes ends as"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, used := lawful(), &usage{}
			tt.wrong(r)
			s := file(t, example)
			t.Run("laws", func(t *testing.T) {
				for _, law := range laws {
					if err := law.check(t, on, r, s, used); err != nil && tt.says == nil {
						t.Errorf("law %q: %v", law.name, err)
					}
				}
			})
			errs := needed(t, on, r, used)
			if len(errs) != len(tt.says) {
				t.Fatalf("got %v, want %q", errs, tt.says)
			}
			for i, err := range errs {
				if !strings.Contains(err.Error(), tt.says[i]) {
					t.Errorf("got %v, want %q", err, tt.says[i])
				}
			}
		})
	}
}

// TestUpdate: -update writes the result and keeps the rest of the file.
func TestUpdate(t *testing.T) {
	s := file(t, example)
	if err := s.write("It is so.\nend:  asked"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(example, "-- want --")
	if want := before + "-- want --\nIt is so.\nend:  asked\n"; string(data) != want {
		t.Errorf("got\n%s\nwant\n%s", data, want)
	}
	s = file(t, before)
	if err := s.write("New."); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(s.file); err != nil || !strings.HasSuffix(string(data), "-- want --\nNew.\n") {
		t.Errorf("got\n%s%v", data, err)
	}
}

func TestVerb(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		want         grant.Grant
	}{
		{"GET", "/api/v1/services", grant.ListServices},
		{"GET", "/api/v1/namespaces/shop/services", grant.ListServices},
		{"GET", "/api/v1/namespaces/shop/services?watch=true", grant.WatchServices},
		{"GET", "/api/v1/namespaces/shop/services/web", grant.GetServices},
		{"PATCH", "/api/v1/namespaces/shop/services/web", grant.PatchServices},
		{"PATCH", "/api/v1/namespaces/shop/services/web/status", grant.PatchServicesStatus},
		{"GET", "/api/v1/nodes", grant.ListNodes},
		{"GET", "/apis/apps/v1/namespaces/kube-system/daemonsets", grant.ListDaemonSets},
		{"GET", "/apis/apps/v1/namespaces/kube-system/deployments/ccm", grant.GetDeployments},
		{"GET", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", grant.ListEndpointSlices},
	} {
		if got := verb(httptest.NewRequest(tt.method, tt.path, nil)); got != tt.want.String() {
			t.Errorf("%s %s is %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}
