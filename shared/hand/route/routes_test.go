package route

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

var known = []string{"busy", "quota", "tag-missing"}

const wholeFile = `
default:
  url: https://{class}.{cluster}.example/{class}
  sign: true
  headers: {X-Class: "{class}", Host: "{class}.internal"}
  ca: /run/ca.pem
routes:
  quota:
    invoke: {function: "lbremedy-{class}", qualifier: LATEST, account: "123456789012", region: cn-hangzhou, internal: true}
`

func TestParse(t *testing.T) {
	t.Parallel()
	none := map[string]string{}
	whole := map[string]target{
		"busy": {name: "busy.c1.example", url: "https://busy.c1.example/busy", sign: true, ca: "/run/ca.pem",
			headers: map[string]string{"X-Class": "busy", "Host": "busy.internal"}},
		"quota": {name: "lbremedy-quota", region: "cn-hangzhou",
			url: "https://123456789012.cn-hangzhou-internal.fc.aliyuncs.com/2023-03-30/functions/lbremedy-quota/invocations?qualifier=LATEST",
			api: true, headers: none},
		"tag-missing": {name: "tag-missing.c1.example", url: "https://tag-missing.c1.example/tag-missing", sign: true, ca: "/run/ca.pem",
			headers: map[string]string{"X-Class": "tag-missing", "Host": "tag-missing.internal"}},
	}
	for _, tt := range []struct {
		name, text string
		want       map[string]target
	}{
		{"whole", wholeFile, whole},
		{"as JSON", asJSON(t, wholeFile), whole},
		{"one class", "routes: {quota: {url: 'http://a:1/b'}}", map[string]target{"quota": {name: "a", url: "http://a:1/b", headers: none}}},
		{"nothing from the default", "default: {url: 'https://a', headers: {A: b}}\nroutes: {quota: {url: 'https://b'}}", map[string]target{
			"busy":  {name: "a", url: "https://a", headers: map[string]string{"A": "b"}},
			"quota": {name: "b", url: "https://b", headers: none}, "tag-missing": {name: "a", url: "https://a", headers: map[string]string{"A": "b"}},
		}},
		{"an endpoint of its own", "routes: {busy: {invoke: {function: f, account: '12345', region: cn-hangzhou, endpoint: 'http://fc.example:1/'}}}",
			map[string]target{"busy": {name: "f", region: "cn-hangzhou", url: "http://fc.example:1/2023-03-30/functions/f/invocations", api: true, headers: none}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tt.text), "c1", known)
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

func TestParseNamesAll(t *testing.T) {
	t.Parallel()
	const text = `default:
  url: http://{class}.example
  ca: /run/ca.pem
routes:
  qouta: {url: "https://a"}
  busy:
    url: https://user:pa55word@host/
    sign: yes please
    headers: {Authorization: x, "bad name": y}
  quota:
    url: https://a
    invoke: {function: "no name", account: 12, region: here}
    adress: b
    url: https://c
  tag-missing:
    invoke: {function: "no name", account: "12", region: here, endpoint: "ftp://a"}
    sign: true
`
	_, err := Parse([]byte(text), "c1", known)
	if err == nil {
		t.Fatal("it is accepted")
	}
	want := []string{
		`line 14: routes.quota.url: it is there twice`,
		`line 13: routes.quota.adress: the field is unknown; the fields are url, invoke, sign, headers, ca`,
		`line 12: routes.quota.invoke.account: it must be a text: put it in quotes`,
		`line 8: routes.busy.sign: it must be true or false`,
		`line 3: default.ca: http has no certificates: use https, or leave it out`,
		`line 5: routes.qouta: this class does not exist; classes are busy, quota, tag-missing`,
		`line 7: routes.busy.url: it holds a password, which would stand in a file that many read: leave it out, since calls are signed`,
		`line 9: routes.busy.headers.Authorization: the engine sets this header itself`,
		`line 9: routes.busy.headers.bad name: it is not a name of a header`,
		`line 12: routes.quota.invoke: there is a url as well: a function has one address`,
		`line 16: routes.tag-missing.invoke.function: "no name" is not a name of a function`,
		`line 16: routes.tag-missing.invoke.account: "12" is not an ID of an account: it has digits only`,
		`line 16: routes.tag-missing.invoke.region: "here" is not a region such as cn-hangzhou`,
		`line 16: routes.tag-missing.invoke.endpoint: it is not a URL such as https://host/path`,
		`line 17: routes.tag-missing.sign: requests to the API are always signed: leave it out`,
	}
	got := strings.Split(err.Error(), "\n")
	slices.Sort(got)
	slices.Sort(want)
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
		"":                                       "routes: the file has no routes: name a class, or give a default",
		"{}":                                     "routes: the file has no routes",
		"routes: {}":                             "routes: the file has no routes",
		"routes: [":                              "line 1",
		"a: 1\n---\nb: 2":                        "line 2: a second document begins here",
		"- a":                                    "it must be a list of fields",
		"routes: 3":                              "line 1: routes: it must be a list of fields",
		"defualt: {}":                            "line 1: defualt: the field is unknown",
		"default: {}":                            "line 1: default: no destination: set url or invoke",
		"routes: {busy: {}}":                     "line 1: routes.busy: no destination: set url or invoke",
		"routes: {busy: {url: ''}}":              "no destination",
		"routes: {busy: {url: 'ftp://a'}}":       "line 1: routes.busy.url: it is not a URL such as",
		"routes: {busy: {url: 'https://'}}":      "it is not a URL such as",
		"routes: {busy: {url: 'http://a b'}}":    "routes.busy.url: it is not a URL",
		"routes: {busy: {url: 'https://a/#b'}}":  "the part behind # is never sent",
		"routes: {busy: {url: 5}}":               "routes.busy.url: it must be a text: put it in quotes",
		"routes: {busy: {url: null}}":            "it must be a text",
		"routes: {busy: &x {url: 'https://a'}}":  "anchors",
		"routes: {busy: {invoke: {function: f}}": "line 1",
		"routes: {busy: {url: 'https://a', headers: {A: \"b\\nc\"}}}":        "routes.busy.headers.A: its value can't stand in a header",
		"routes: {busy: {url: 'https://a', headers: {A: b, a: c}}}":          "the header is there twice",
		"routes: {busy: {url: 'https://a', headers: {Host: 'a/b'}}}":         "its value can't stand in a header",
		"routes: {busy: {url: 'https://a', headers: {content-length: '1'}}}": "the engine sets this header itself",
		"routes: {busy: {url: 'https://a', headers: {x-acs-date: x}}}":       "the engine sets this header itself",
		"routes: {busy: {invoke: {function: f, account: '1', region: r}}}":   "is not an ID of an account",
		"clusters: {c1: {routes: {busy: {url: 'https://a'}}}}":               "line 1: clusters: the field is unknown; the fields are default, routes",
		strings.Repeat(" ", 1<<20+1):                                         "more than",
	} {
		if _, err := Parse([]byte(text), "c1", known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file, ca := filepath.Join(t.TempDir(), "routes.yaml"), filepath.Join(t.TempDir(), "ca.pem")
	if _, err := Load(file, "c1", known, nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is not there: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "routes: {busy: {url: 'https://a', ca: '"+ca+"'}}")
	if _, err := Load(file, "c1", known, nil); err == nil || !strings.Contains(err.Error(), file+": busy: read the root certificates") {
		t.Errorf("no certificates: %v", err)
	}
	write(ca, "not a certificate")
	if _, err := Load(file, "c1", known, nil); err == nil || !strings.Contains(err.Error(), ca+" holds none") {
		t.Errorf("wrong certificates: %v", err)
	}
	write(file, "routes: {busy: {url: https}}")
	if _, err := Load(file, "c1", known, nil); err == nil || !strings.Contains(err.Error(), file+": line 1: routes.busy.url: ") {
		t.Errorf("a wrong file: %v", err)
	}
	write(file, "routes: {busy: {url: 'https://{class}'}}")
	if all, err := Load(file, "c1", known, nil); err != nil || len(all) != 1 || all["busy"].url != "https://busy" {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.NewCompiler().Compile("../../../" + SchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		wholeFile:                                  true,
		"default: {url: a}":                        true,
		"clusters: {c1: {}}":                       false,
		"routes: {busy: {url: a, adress: b}}":      false,
		"routes: {busy: {url: a, sign: quick}}":    false,
		"default: {invoke: {function: f}}":         false,
		"default: {url: a, auth: {bearer: token}}": false,
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

func FuzzParse(f *testing.F) {
	f.Add([]byte(wholeFile))
	f.Add([]byte("routes: {busy: &x {url: 'https://a'}, quota: *x}"))
	f.Add([]byte("? [a]\n: b"))
	f.Add([]byte("routes: {busy: {url: 'https://a', headers: {A: b}}}"))
	f.Add([]byte("!!binary x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		routes, err := Parse(text, "c1", known)
		if err != nil {
			if strings.Contains(err.Error(), "line 0") {
				t.Errorf("no line: %v", err)
			}
			return
		}
		for class, r := range routes {
			r.ca = ""
			if _, err := newEndpoint(r, nil); err != nil || !slices.Contains(known, class) || r.url == "" {
				t.Errorf("%s: %+v, %v", class, r, err)
			}
		}
	})
}

func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../functions/cmd/lbremedy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "# routes.yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the page has no routes.yaml")
	}
	classes := []string{"tag-missing", "quota", "ram-permission", "busy"}
	if routes, err := Parse([]byte(example), "c1", classes); err != nil || len(routes) != len(classes) {
		t.Errorf("%d routes, %v", len(routes), err)
	}
}
