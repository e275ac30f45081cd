package courier

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
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
	own.url, own.headers = "https://123456789012.cn-hangzhou-internal.fc.aliyuncs.com/2023-03-30/functions/lbremedy-quota/invocations?qualifier=LATEST", map[string]string{}
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
		{"an address of its own takes no credential", "default: {url: 'https://a', auth: {bearer: t}, headers: {A: b}}\nroutes: {quota: {url: 'http://b'}, busy: {hold: true}, tag-missing: {hold: true}}",
			Routes{"quota": {url: "http://b", headers: map[string]string{}, workers: defaultWorkers, burst: defaultWorkers, timeout: defaultTimeout}}},
		{"a JWT", "routes: {quota: {url: 'https://a:1/b', auth: {jwt: {key: k, audience: x}}}}", Routes{"quota": {
			url: "https://a:1/b", headers: map[string]string{}, workers: defaultWorkers, burst: defaultWorkers, timeout: defaultTimeout,
			auth: Auth{JWT: &JWT{Key: "k", Audience: "x", Issuer: "lbremedy-courier", Subject: "lbremedy-courier"}}, jwtLife: defaultLife,
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tt.text), known)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(target{})); d != "" {
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
	_, err := Parse([]byte(text), known)
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
		"a: 1\n---\nb: 2":                              "several documents",
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
		strings.Repeat(" ", mostFile+1):                                                             "more than",
	} {
		if _, err := Parse([]byte(text), known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
	if _, _, err := Load(filepath.Join(t.TempDir(), "none"), known); err == nil {
		t.Error("a file that is not there was read")
	}
}

// The schema says the same of fields and kinds as Parse.
func TestSchema(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.NewCompiler().Compile("../schema/routes.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		wholeFile:                             true,
		"{}":                                  true,
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
	f.Fuzz(func(t *testing.T, text []byte) {
		routes, err := Parse(text, known)
		if err != nil {
			if strings.Contains(err.Error(), "line 0") {
				t.Errorf("no line: %v", err)
			}
			return
		}
		for class, r := range routes {
			d, err := newDoor(target{url: r.url, workers: r.workers}, nil)
			if err != nil || !slices.Contains(known, class) || r.workers < 1 || r.timeout <= 0 || r.burst < 1 {
				t.Errorf("%s: %+v, %v", class, r, err)
			} else {
				d.close()
			}
		}
	})
}

// What stands in the README is right.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := bytes.Cut(text, []byte("# routes.yaml\n"))
	example, _, closed := bytes.Cut(rest, []byte("```"))
	if !ok || !closed {
		t.Fatal("README.md has no routes.yaml")
	}
	routes, err := Parse(example, []string{"tag-missing", "quota", "ram-permission", "throttling", "busy"})
	if err != nil || len(routes) != 4 {
		b, _ := json.Marshal(len(routes))
		t.Errorf("%s routes, %v", b, err)
	}
}
