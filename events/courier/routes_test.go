package courier

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/event"
)

var known = []string{"busy", "quota", "tag-missing"}

const wholeFile = `
default:
  url: https://{class}.example/{class}
  auth: {bearer: /run/token}
  headers: {X-Class: "{class}", Host: "{class}.internal"}
  ca: /run/ca.pem
  concurrency: 4
  rate: 20
  timeout: 45s
routes:
  quota:
    invoke: {function: "lbremedy-{class}", qualifier: LATEST, account: "123456789012", region: cn-hangzhou, internal: true}
    concurrency: 2
  tag-missing: {hold: true}
`

func TestParse(t *testing.T) {
	t.Parallel()
	same := target{workers: 4, rate: 20, burst: 4, timeout: 45 * time.Second}
	own := same
	own.workers, own.burst, own.api = 2, 2, true
	own.url, own.headers = "https://123456789012.cn-hangzhou-internal.fc.aliyuncs.com/2023-03-30/functions/lbremedy-quota/invocations?qualifier=LATEST",
		map[string]string{}
	same.url, same.auth, same.ca = "https://busy.example/busy", Auth{Bearer: "/run/token"}, "/run/ca.pem"
	same.headers = map[string]string{"X-Class": "busy", "Host": "busy.internal"}
	for _, tt := range []struct {
		name, text string
		want       Routes
	}{
		{"nothing", "", Routes{}},
		{"no routes", "{}", Routes{}},
		{"whole", wholeFile, Routes{"busy": same, "quota": own}},
		{"as JSON", asJSON(t, wholeFile), Routes{"busy": same, "quota": own}},
		{"an address of its own takes no credential", "default: {url: 'https://a', auth: {bearer: t}, headers: {A: b}}\nroutes: {quota: {url: 'http://b'}, " +
			"busy: {hold: true}, tag-missing: {hold: true}}",
			Routes{"quota": {url: "http://b", headers: map[string]string{}, workers: defaultWorkers, burst: defaultWorkers, timeout: defaultTimeout}}},
		{"a JWT", "routes: {quota: {url: 'https://a:1/b', auth: {jwt: {key: k, audience: x}}}}", Routes{"quota": {
			url: "https://a:1/b", headers: map[string]string{}, workers: defaultWorkers, burst: defaultWorkers, timeout: defaultTimeout,
			auth: Auth{JWT: &JWT{Key: "k", Audience: "x", Issuer: "lbremedy-courier", Subject: "lbremedy-courier"}}, jwtLife: defaultLife,
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, parsed(t, tt.text, known), cmp.AllowUnexported(target{})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func asJSON(t *testing.T, text string) string {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Each cluster of a courier has routes of its own, from a section of the file or by
// {cluster}, and nothing of one is another's.
func TestParseClusters(t *testing.T) {
	t.Parallel()
	to := func(url string, headers ...string) target {
		all := map[string]string{}
		for i := 0; i < len(headers); i += 2 {
			all[headers[i]] = headers[i+1]
		}
		return target{url: url, headers: all, workers: defaultWorkers, burst: defaultWorkers, timeout: defaultTimeout}
	}
	withToken := to("https://{class}.one")
	withToken.url, withToken.auth = "https://quota.one", Auth{Bearer: "/run/one"}
	for _, tt := range []struct {
		name     string
		clusters []string
		text     string
		want     map[string]Routes
	}{
		{"a section each", []string{"c1", "c2"}, `clusters:
  c1: {default: {url: 'https://{class}.one', auth: {bearer: /run/one}}, routes: {busy: {hold: true}, tag-missing: {hold: true}}}
  c2: {routes: {quota: {url: 'https://{class}.{cluster}'}}}`,
			map[string]Routes{"c1": {"quota": withToken}, "c2": {"quota": to("https://quota.c2")}}},
		{"{cluster}", []string{"c1", "c2"}, "routes: {quota: {url: 'https://{class}.{cluster}'}}",
			map[string]Routes{"c1": {"quota": to("https://quota.c1")}, "c2": {"quota": to("https://quota.c2")}}},
		{"{cluster} in the host", []string{"c1", "c2"}, "routes: {quota: {url: 'https://gate', headers: {Host: '{class}-{cluster}.internal'}}}",
			map[string]Routes{"c1": {"quota": to("https://gate", "Host", "quota-c1.internal")}, "c2": {"quota": to("https://gate", "Host", "quota-c2.internal")}}},
		{"a section for the only one", []string{"c1"}, "clusters: {c1: {routes: {quota: {url: 'https://a'}}}}",
			map[string]Routes{"c1": {"quota": to("https://a")}}},
		{"a broker for all", []string{"c1", "c2"}, "clusters: {c1: {routes: {quota: {url: 'https://broker'}}}, c2: {routes: {quota: {url: 'https://broker'}}}}",
			map[string]Routes{"c1": {"quota": to("https://broker")}, "c2": {"quota": to("https://broker")}}},
		{"a check of sections alone", nil, "clusters: {c2: {}, c1: {routes: {quota: {url: 'https://a'}}}}",
			map[string]Routes{"c1": {"quota": to("https://a")}, "c2": {}}},
		{"a check of {cluster} alone", nil, "routes: {quota: {url: 'https://{cluster}'}}",
			map[string]Routes{sample: {"quota": to("https://" + sample)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tt.text), tt.clusters, known)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(target{})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	for text, want := range map[string]string{
		"clusters: {c1: {}, c2: {}, c1: {}}":   "line 1: clusters.c1: it is there twice",
		"clusters: {c1: {}, '': {}}":           "line 1: clusters.: it must have a name",
		"clusters: {c1: {}, c2: {}, c.3: {}}":  `line 1: clusters.c.3: invalid event: cluster ID "c.3" is not 1 to 64 letters, digits, hyphens and underscores`,
		"clusters: {c1: {}, c2: {}, 'c>': {}}": `cluster ID "c>" is not 1 to 64 letters`,
		"clusters: {c1: {}}":                   "line 1: clusters: there are no routes for c2, which the courier serves",
		"clusters: {}":                         "there are no routes for c1, which",
		"clusters:":                            "clusters: it must be a list of fields",
		"clusters: {c1: {}, c2: {}, c3: {}}":   "line 1: clusters.c3: the courier does not serve this cluster, but c1, c2: name it with --cluster, or leave it out",
		"default: {url: 'https://{cluster}'}\nclusters: {c1: {}, c2: {}}": "line 1: default: the file has clusters, each with " +
			"routes of its own",
		"routes: {}\nclusters: {c1: {}, c2: {}}": "line 1: routes: the file has clusters, each",
		"default: {url: 'https://{class}'}": "line 1: default: the failures of c1, c2 would go to one " +
			"function, and a function works on one cluster: put {cluster} into the address",
		"default: {url: 'https://{cluster}'}\nroutes: {busy: {url: 'https://a'}, " +
			"quota: {rate: 3}}": "line 2: routes.busy: the failures of c1, c2 would go to one function",
		"clusters:\n  c1: {}\n  c2:\n    routes: {qouta: {}}":         "line 4: clusters.c2.routes.qouta: there is no such class; there are busy",
		"clusters:\n  c1: {}\n  c2:\n    default: {url: a, rate: -1}": "line 4: clusters.c2.default.rate: -1 is no number",
		"clusters:\n  c1: {}\n  c2:\n    clusters: {}":                "line 4: clusters.c2.clusters: there is no such field; there are default, routes",
	} {
		_, err := Parse([]byte(text), []string{"c1", "c2"}, known)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), want) != 1 {
			t.Errorf("%s: got %v, want %q once", text, err, want)
		}
	}
}

// All that is wrong is told at once, each with its line and field.
func TestParseTellsAll(t *testing.T) {
	t.Parallel()
	const text = `default:
  url: http://{class}.example
  auth: {bearer: /run/token}
  concurrency: 5000
routes:
  qouta: {url: "https://a"}
  busy:
    url: https://user:pa55word@host/
    timeout: 3h
    rate: quick
    headers: {Authorization: x, "bad name": y}
  quota:
    url: https://a
    invoke: {function: "no name", account: 12, region: here}
    adress: b
    url: https://c
  tag-missing:
    hold: true
    rate: 3
`
	_, err := Parse([]byte(text), []string{"c1"}, known)
	if err == nil {
		t.Fatal("it is right")
	}
	want := []string{
		`line 16: routes.quota.url: it is there twice`,
		`line 15: routes.quota.adress: there is no such field; there are url, invoke, auth, headers, ca, cleartext, concurrency, rate, burst, timeout, hold`,
		`line 14: routes.quota.invoke.account: it must be a text: put it in quotes`,
		`line 10: routes.busy.rate: it must be a number`,
		`line 4: default.concurrency: 5000 is not from 1 to 1000`,
		`line 3: default.auth: over http all on the way can read it: use https, or say cleartext: true where the network keeps them away`,
		`line 6: routes.qouta: there is no such class; there are busy, quota, tag-missing`,
		`line 9: routes.busy.timeout: "3h" is no duration from 1s to 15m0s`,
		`line 8: routes.busy.url: it holds a password, which would stand in a file that many read: use auth`,
		`line 11: routes.busy.headers.Authorization: the courier sets this header itself`,
		`line 11: routes.busy.headers.bad name: it is no name of a header`,
		`line 12: routes.busy.concurrency: 5000 is not from 1 to 1000`,
		`line 14: routes.quota.invoke: there is a url as well: a function has one address`,
		`line 18: routes.tag-missing.hold: it is held, so that all else says nothing: leave it out, or hold`,
	}
	got := strings.Split(err.Error(), "\n")
	slices.Sort(got)
	slices.Sort(want)
	// A route takes a wrong number from the default; that is told where it is said.
	got = slices.DeleteFunc(got, func(l string) bool {
		return strings.Contains(l, "quota.concurrency") || strings.Contains(l, "busy.concurrency")
	})
	want = slices.DeleteFunc(want, func(l string) bool { return strings.Contains(l, "busy.concurrency") })
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if strings.Contains(err.Error(), "pa55word") {
		t.Error("the error quotes a password")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"routes: [":                                    "line 1",
		"a: 1\n---\nb: 2":                              "line 2: a second document begins here",
		"- a":                                          "it must be a list of fields",
		"routes: 3":                                    "routes: it must be a list of fields",
		"routes: {busy: {}}":                           "it says not where to send",
		"routes: {busy: {url: ''}}":                    "it says not where to send",
		"routes: {busy: {url: 'ftp://a'}}":             "no URL such as",
		"routes: {busy: {url: 'https://'}}":            "no URL such as",
		"routes: {busy: {url: 'http://a b'}}":          "it is no URL",
		"routes: {busy: {url: 'https://a/#b'}}":        "the part behind #",
		"routes: {busy: {url: 'http://a', ca: c}}":     "http knows no certificates",
		"routes: {busy: {url: 'https://a', auth: {}}}": "it names 0 ways",
		"routes: {busy: {url: 'https://a', auth: {fc: true, bearer: b}}}":                           "it names 2 ways",
		"routes: {busy: {url: 'https://a', auth: {jwt: {}}}}":                                       "name the file with the private key",
		"routes: {busy: {url: 'https://a', burst: 3}}":                                              "without a rate",
		"routes: {busy: {url: 'https://a', rate: -1}}":                                              "no number of requests",
		"routes: {busy: {url: 'https://a', rate: .nan}}":                                            "no number of requests",
		"routes: {busy: {url: 'https://a', headers: {A: \"b\\nc\"}}}":                               "can't stand in a header",
		"routes: {busy: {url: 'https://a', headers: {A: b, a: c}}}":                                 "there twice",
		"routes: {busy: {url: 'https://a', headers: {Host: 'a/b'}}}":                                "can't stand in a header",
		"routes: {busy: &x {url: 'https://a'}, quota: *x}":                                          "anchors are not read",
		"routes: {busy: {url: 5}}":                                                                  "put it in quotes",
		"routes: {busy: {url: null}}":                                                               "it must be a text",
		"routes: {busy: {invoke: {function: f, account: '1', region: r}}}":                          "is no ID of an account",
		"routes: {busy: {invoke: {function: f, account: '12345', region: cn-x}, auth: {fc: true}}}": "leave auth out",
		strings.Repeat(" ", 1<<20+1):                                                                "more than",
	} {
		if _, err := Parse([]byte(text), []string{"c1"}, known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
	if _, _, err := Load(filepath.Join(t.TempDir(), "none"), nil, known); err == nil {
		t.Error("a file that is not there was read")
	}
}

// The schema says the same of fields and kinds as Parse.
func TestSchema(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.NewCompiler().Compile("../../shared/event/schema/routes.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		wholeFile:                             true,
		"{}":                                  true,
		"clusters: {c1: {default: {url: a}}}": true,
		"clusters: {c1: {defualt: {}}}":       false,
		"routes: {busy: {url: a, adress: b}}": false,
		"routes: {busy: {rate: quick}}":       false,
		"default: {invoke: {function: f}}":    false,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(asJSON(t, text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// No text makes Parse panic, and what it takes can be used.
func FuzzParse(f *testing.F) {
	f.Add([]byte(wholeFile))
	f.Add([]byte("routes: {busy: &x {url: 'https://a'}, quota: *x}"))
	f.Add([]byte("? [a]\n: b"))
	f.Add([]byte("routes: {busy: {url: 'https://a', auth: {jwt: {key: k}}, headers: {A: b}}}"))
	f.Add([]byte("!!binary x"))
	f.Add([]byte("clusters: {c1: {routes: {busy: {url: 'https://{class}.{cluster}'}}}, c.2: {}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		routes, err := Parse(text, nil, known)
		if err != nil {
			if strings.Contains(err.Error(), "line 0") {
				t.Errorf("no line: %v", err)
			}
			return
		}
		for cluster, routes := range routes {
			if event.ValidCluster(cluster) != nil {
				t.Errorf("%q is no cluster", cluster)
			}
			for class, r := range routes {
				d, err := newEndpoint(target{url: r.url, workers: r.workers}, nil)
				if err != nil || !slices.Contains(known, class) || r.workers < 1 || r.timeout <= 0 || r.burst < 1 {
					t.Errorf("%s: %+v, %v", class, r, err)
				} else {
					d.close()
				}
			}
		}
	})
}

// What stands in README.md is right.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := bytes.Cut(text, []byte("# routes.yaml\n"))
	example, _, closed := bytes.Cut(rest, []byte("```"))
	if !ok || !closed {
		t.Fatal("README.md has no routes.yaml")
	}
	routes, err := Parse(example, []string{"c1"}, []string{"tag-missing", "quota", "ram-permission", "throttling", "busy"})
	if err != nil || len(routes["c1"]) != 4 {
		t.Errorf("%d routes, %v", len(routes["c1"]), err)
	}
	_, rest, ok = bytes.Cut(rest, []byte("\nclusters:\n"))
	example, _, closed = bytes.Cut(rest, []byte("```"))
	if !ok || !closed {
		t.Fatal("README.md has no routes of several clusters")
	}
	routes, err = Parse(append([]byte("clusters:\n"), example...), []string{"c1", "c2"}, []string{"quota", "busy"})
	if err != nil || len(routes["c1"]) != 2 || len(routes["c2"]) != 1 {
		t.Errorf("%v, %v", routes, err)
	}
}
