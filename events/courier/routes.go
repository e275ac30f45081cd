package courier

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/events/courier/invoke"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// SchemaFile is where the JSON Schema of the routes file lies, from the root of the module.
const SchemaFile = "shared/event/schema/routes.v1.json"

// A File is the routes file: where the messages of each class go. It is YAML or JSON.
// Unknown fields, classes and clusters are wrong. {class} and {cluster} in a URL, a header
// or the name of a function stand for the class and for the ID of the cluster.
//
// A function works on one cluster. A courier of several has a file that either names each
// of them under clusters, or has {cluster} in all its addresses. Nothing that stands under
// one cluster is another's, so that no credential goes where nobody meant it to.
type File struct {
	Default  *Route             `json:"default,omitempty"`  // of classes without a route, and of what a route leaves out, except its address
	Routes   map[string]Route   `json:"routes,omitempty"`   // by class
	Clusters map[string]Section `json:"clusters,omitempty"` // by ID of the cluster, instead of default and routes
}

// A Section is what a routes file says of one cluster: the same as a file of its own.
type Section struct {
	Default *Route           `json:"default,omitempty"` // as in the file
	Routes  map[string]Route `json:"routes,omitempty"`  // by class
}

// A Route says where the messages of a class go, and how. Address, auth, headers, ca
// and cleartext belong together: a route with an address of its own takes none of them
// from the default, so that no credential goes where nobody meant it to.
type Route struct {
	URL         string            `json:"url,omitempty"`         // of the function: http or https
	Invoke      *Invoke           `json:"invoke,omitempty"`      // instead of url: the function by Function Compute's API
	Auth        *Auth             `json:"auth,omitempty"`        // how the courier shows who it is to a url; none by default
	Headers     map[string]string `json:"headers,omitempty"`     // of each request; Host is the host that the function is asked for
	CA          string            `json:"ca,omitempty"`          // file with the root certificates of the function; default: the system's
	Cleartext   bool              `json:"cleartext,omitempty"`   // http may carry credentials, since the network keeps others from reading them
	Concurrency int               `json:"concurrency,omitempty"` // most messages in hand at once; default 8
	Rate        float64           `json:"rate,omitempty"`        // most requests a second; default: no limit
	Burst       int               `json:"burst,omitempty"`       // requests that may come at once after a pause; default: as concurrency
	Timeout     string            `json:"timeout,omitempty"`     // of a request; default 2m10s, since a run may take two minutes
	Hold        bool              `json:"hold,omitempty"`        // nothing is sent; the messages stay
}

// An Invoke names a function of Function Compute 3.0. Requests to it are signed.
type Invoke struct {
	Function  string `json:"function"`            // its name
	Qualifier string `json:"qualifier,omitempty"` // version or alias; default LATEST
	Account   string `json:"account"`             // ID of the account
	Region    string `json:"region"`              // such as cn-hangzhou
	Internal  bool   `json:"internal,omitempty"`  // by the endpoint inside Alibaba's network
	Endpoint  string `json:"endpoint,omitempty"`  // another one than the account's, such as https://fc.example; for tests and proxies
}

// An Auth is one way to show who the courier is. Files are read for each request, since
// mounted secrets and projected tokens change in place.
type Auth struct {
	Bearer string `json:"bearer,omitempty"` // file with a token, such as a projected ServiceAccount token
	JWT    *JWT   `json:"jwt,omitempty"`    // a JSON web token, made for each request
	FC     bool   `json:"fc,omitempty"`     // the signature that an HTTP trigger of Function Compute asks for
}

// A JWT says what stands in the token.
type JWT struct {
	Key      string `json:"key"`                // file with the private key in PEM: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA)
	KeyID    string `json:"keyID,omitempty"`    // kid, by which the function finds the public key
	Issuer   string `json:"issuer,omitempty"`   // iss; default lbremedy-courier
	Subject  string `json:"subject,omitempty"`  // sub; default as issuer
	Audience string `json:"audience,omitempty"` // aud; default: scheme and host of the URL
	Life     string `json:"life,omitempty"`     // how long it is good; default 5m
}

// Routes are the routes of one cluster, checked and complete, by class.
type Routes map[string]target

// A target is a route of one class.
type target struct {
	url       string
	api       bool // url is the API's
	auth      Auth
	jwtLife   time.Duration
	headers   map[string]string
	ca        string
	workers   int
	rate      float64
	burst     int
	timeout   time.Duration
	cleartext bool
}

// Limits and defaults.
const (
	defaultWorkers = 8
	defaultTimeout = 130 * time.Second
	defaultLife    = 5 * time.Minute
	mostWorkers    = 1000
	mostTimeout    = 15 * time.Minute
)

// Load reads the routes file at path, and returns its text as well, which Watch takes.
// What it may name, and what it returns, is as Parse says.
func Load(path string, clusters, classes []string) (routes map[string]Routes, text string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the routes: %w", err)
	}
	if routes, err = Parse(b, clusters, classes); err != nil {
		return nil, "", fmt.Errorf("routes %s: %w", path, err)
	}
	return routes, string(b), nil
}

// sample stands for the cluster where a file is checked that names none.
const sample = "cluster"

// Parse reads the routes of these clusters, and returns them by cluster. Without
// clusters it takes those that the file names. The classes are those that the file may
// name. Its error tells all that is wrong, each with line and field. Files that the
// routes name are not looked at: the check may run elsewhere.
func Parse(text []byte, clusters, classes []string) (map[string]Routes, error) {
	var f File
	doc, err := config.Decode(text, &f)
	if err != nil {
		return nil, err
	}
	c := checker{doc}
	plain := f.Clusters == nil
	switch {
	case len(clusters) > 0:
	case plain:
		clusters = []string{sample}
	default:
		clusters = slices.Sorted(maps.Keys(f.Clusters))
	}
	if !plain {
		c.clusters(f, clusters)
	}
	all := map[string]Routes{}
	for _, cluster := range clusters {
		if plain {
			all[cluster] = c.routes("", cluster, Section{f.Default, f.Routes}, classes)
		} else if own, ok := f.Clusters[cluster]; ok {
			all[cluster] = c.routes("clusters."+cluster+".", cluster, own, classes)
		}
	}
	if plain && len(clusters) > 1 {
		c.apart(all, f, clusters)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// A checker notes what is wrong with a routes file, each with its line.
type checker struct{ *config.Document }

// clusters notes what is wrong with the names of the clusters in a file.
func (c checker) clusters(f File, served []string) {
	const both = "the file has clusters, each with routes of its own: say it under each of them"
	if f.Default != nil {
		c.Fail("default", both)
	}
	if f.Routes != nil {
		c.Fail("routes", both)
	}
	for _, id := range slices.Sorted(maps.Keys(f.Clusters)) {
		if err := event.ValidCluster(id); err != nil {
			c.Fail("clusters."+id, "%v", err)
		} else if !slices.Contains(served, id) {
			c.Fail("clusters."+id, "the courier does not serve this cluster, but %s: name it with --cluster, or leave it out", strings.Join(served, ", "))
		}
	}
	for _, id := range served {
		if _, ok := f.Clusters[id]; !ok {
			c.Fail("clusters", "there are no routes for %s, which the courier serves", id)
		}
	}
}

// apart notes the routes of a file without clusters that would bring the failures of
// several to one function.
func (c checker) apart(all map[string]Routes, f File, clusters []string) {
	for _, class := range slices.Sorted(maps.Keys(all[clusters[0]])) {
		t, other := all[clusters[0]][class], all[clusters[1]][class]
		if t.url != other.url || !maps.Equal(t.headers, other.headers) {
			continue
		}
		at := "default"
		if r, own := f.Routes[class]; own && (r.URL != "" || r.Invoke != nil) {
			at = "routes." + class
		}
		c.Fail(at, "the failures of %s would go to one function, and a function works on one cluster: put {cluster} into the address, or name each cluster "+
			"under clusters", strings.Join(clusters, ", "))
	}
}

// routes completes the routes of one cluster, and notes what is wrong with them. Their
// fields stand in the file below that prefix.
func (c checker) routes(prefix, cluster string, f Section, classes []string) Routes {
	if f.Default != nil {
		// Whatever the class, the default must be right by itself.
		c.route(prefix+"default", cluster, "class", *f.Default)
	}
	routes := Routes{}
	for _, class := range slices.Sorted(maps.Keys(f.Routes)) {
		if !slices.Contains(classes, class) {
			c.Fail(prefix+"routes."+class, "there is no such class; there are %s", strings.Join(classes, ", "))
		}
	}
	for _, class := range classes {
		r, own := f.Routes[class]
		switch {
		case own:
			r = r.over(f.Default)
		case f.Default != nil:
			r = *f.Default
		default:
			continue
		}
		if own && r.Hold {
			c.check(prefix+"routes."+class, f.Routes[class])
			continue
		}
		var t target
		if own {
			t = c.route(prefix+"routes."+class, cluster, class, r)
		} else {
			t = checker{&config.Document{}}.route("default", cluster, class, r) // it was checked above
		}
		if !r.Hold {
			routes[class] = t
		}
	}
	return routes
}

// over returns the route completed by the default.
func (r Route) over(d *Route) Route {
	if d == nil {
		return r
	}
	if r.URL == "" && r.Invoke == nil {
		r.URL, r.Invoke = d.URL, d.Invoke
		if r.Auth == nil {
			r.Auth = d.Auth
		}
		headers := maps.Clone(d.Headers)
		if headers == nil {
			headers = map[string]string{}
		}
		maps.Copy(headers, r.Headers)
		r.Headers = headers
		r.CA, r.Cleartext = cmp.Or(r.CA, d.CA), r.Cleartext || d.Cleartext
	}
	r.Concurrency, r.Rate, r.Burst = cmp.Or(r.Concurrency, d.Concurrency), cmp.Or(r.Rate, d.Rate), cmp.Or(r.Burst, d.Burst)
	r.Timeout = cmp.Or(r.Timeout, d.Timeout)
	return r
}

// check says what can't be right about a route that is held.
func (c checker) check(at string, r Route) {
	r.Hold = false
	if !equal(r, Route{}) {
		c.Fail(at+".hold", "it is held, so that all else says nothing: leave it out, or hold")
	}
}

func equal(a, b Route) bool {
	return a.URL == b.URL && a.Invoke == nil && b.Invoke == nil && a.Auth == nil && b.Auth == nil && len(a.Headers)+len(b.Headers) == 0 &&
		a.CA == b.CA && a.Cleartext == b.Cleartext && a.Concurrency == b.Concurrency && a.Rate == b.Rate && a.Burst == b.Burst && a.Timeout == b.Timeout
}

// route completes a route for a class in a cluster and notes what is wrong with it.
func (c checker) route(at, cluster, class string, r Route) target {
	fill := strings.NewReplacer("{class}", class, "{cluster}", cluster)
	t := target{
		url: fill.Replace(r.URL), ca: r.CA, cleartext: r.Cleartext,
		workers: cmp.Or(r.Concurrency, defaultWorkers), rate: r.Rate,
		timeout: c.duration(at+".timeout", r.Timeout, defaultTimeout, time.Second, mostTimeout),
	}
	t.burst = cmp.Or(r.Burst, t.workers)
	if t.workers < 1 || t.workers > mostWorkers {
		c.Fail(at+".concurrency", "%d is not from 1 to %d", t.workers, mostWorkers)
	}
	if t.rate < 0 || math.IsNaN(t.rate) || math.IsInf(t.rate, 0) {
		c.Fail(at+".rate", "%v is no number of requests a second", t.rate)
	}
	if t.burst < 1 {
		c.Fail(at+".burst", "%d is less than one", t.burst)
	}
	if r.Burst != 0 && r.Rate == 0 {
		c.Fail(at+".burst", "without a rate it says nothing: give a rate, or leave it out")
	}
	switch {
	case r.Hold:
		return t
	case r.URL != "" && r.Invoke != nil:
		c.Fail(at+".invoke", "there is a url as well: a function has one address")
		return t
	case r.URL == "" && r.Invoke == nil:
		c.Fail(at, "it says not where to send: give url or invoke, or hold: true")
		return t
	}
	u := c.address(at, r, &t, fill)
	t.headers = c.headers(at+".headers", r.Headers, fill)
	if r.Auth != nil {
		c.auth(at, *r.Auth, u, &t)
	}
	return t
}

var (
	functionName = regex.New(`^[A-Za-z_][A-Za-z0-9_-]{0,127}$`)
	accountID    = regex.New(`^[0-9]{5,20}$`)
	headerName   = regex.New(`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`)
	headerValue  = regex.New(`^[ -~]*$`)
	hostValue    = regex.New(`^[A-Za-z0-9.:\[\]-]+$`)
	regionID     = regex.New(`^[a-z]{2,}-[a-z0-9-]+$`)
)

// address sets where a route goes, and returns it if it can be right.
func (c checker) address(at string, r Route, t *target, fill *strings.Replacer) *url.URL {
	field := at + ".url"
	if i := r.Invoke; i != nil {
		t.api = true
		f := invoke.Function{Name: fill.Replace(i.Function), Qualifier: i.Qualifier, Account: i.Account, Region: i.Region, Internal: i.Internal,
			Endpoint: strings.TrimSuffix(i.Endpoint, "/")}
		if !functionName().MatchString(f.Name) {
			c.Fail(at+".invoke.function", "%q is no name of a function", f.Name)
		}
		if !accountID().MatchString(f.Account) {
			c.Fail(at+".invoke.account", "%q is no ID of an account: it has digits only", f.Account)
		}
		if !regionID().MatchString(f.Region) {
			c.Fail(at+".invoke.region", "%q is no region such as cn-hangzhou", f.Region)
		}
		if r.Auth != nil {
			c.Fail(at+".auth", "requests to the API are signed: leave auth out")
		}
		t.url, field = f.URL(), at+".invoke.endpoint"
	}
	u, err := url.Parse(t.url)
	switch {
	case err != nil:
		c.Fail(field, "it is no URL") // the parser's error quotes it, with what it may hold
		return nil
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.Fail(field, "it is no URL such as https://host/path")
		return nil
	case u.User != nil:
		c.Fail(field, "it holds a password, which would stand in a file that many read: use auth")
		return nil
	case u.Fragment != "":
		c.Fail(field, "the part behind # is never sent: leave it out")
	}
	if r.CA != "" && u.Scheme == "http" {
		c.Fail(at+".ca", "http knows no certificates: use https, or leave it out")
	}
	return u
}

// headers checks the headers of a route and fills in cluster and class.
func (c checker) headers(at string, given map[string]string, fill *strings.Replacer) map[string]string {
	// What the courier sets itself, what says where a message ends, and what belongs to auth.
	taken := []string{"Authorization", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Traceparent"}
	headers := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		canonical, value := http.CanonicalHeaderKey(name), fill.Replace(given[name])
		_, twice := headers[canonical]
		switch {
		case !headerName().MatchString(name):
			c.Fail(at+"."+name, "it is no name of a header")
		case slices.Contains(taken, canonical) || strings.HasPrefix(canonical, "X-Acs-"):
			c.Fail(at+"."+name, "the courier sets this header itself")
		case twice:
			c.Fail(at+"."+name, "the header is there twice")
		case !headerValue().MatchString(value) || canonical == "Host" && !hostValue().MatchString(value):
			c.Fail(at+"."+name, "its value can't stand in a header")
		}
		headers[canonical] = value
	}
	return headers
}

// auth checks how a route shows who the courier is.
func (c checker) auth(at string, a Auth, u *url.URL, t *target) {
	t.auth = a
	ways := 0
	for _, set := range []bool{a.Bearer != "", a.JWT != nil, a.FC} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.Fail(at+".auth", "it names %d ways: name one of bearer, jwt and fc, or leave auth out", ways)
		return
	}
	if a.JWT != nil {
		j := *a.JWT
		if j.Key == "" {
			c.Fail(at+".auth.jwt.key", "name the file with the private key")
		}
		t.jwtLife = c.duration(at+".auth.jwt.life", j.Life, defaultLife, 30*time.Second, 24*time.Hour)
		j.Issuer = cmp.Or(j.Issuer, "lbremedy-courier")
		j.Subject = cmp.Or(j.Subject, j.Issuer)
		if u != nil {
			j.Audience = cmp.Or(j.Audience, u.Scheme+"://"+u.Host)
		}
		t.auth.JWT = &j
	}
	if u != nil && u.Scheme == "http" && !t.cleartext && !loopback(u.Hostname()) {
		c.Fail(at+".auth", "over http all on the way can read it: use https, or say cleartext: true where the network keeps them away")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// duration reads a duration within limits.
func (c checker) duration(at, text string, otherwise, least, most time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		c.Fail(at, "%q is no duration from %s to %s", text, least, most)
		return otherwise
	}
	return d
}

// Without returns those of the classes that have no route, whose messages stay.
func (r Routes) Without(classes []string) []string {
	return slices.DeleteFunc(slices.Clone(classes), func(class string) bool { _, ok := r[class]; return ok })
}
