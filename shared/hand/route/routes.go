// Package route locates the functions of remote hands by the routes file, and posts calls to them: over HTTP, or by Function Compute's
// API InvokeFunction. A class without a route is handled in the engine's process. Begin with [Load].
package route

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// SchemaFile is the path of the routes file's JSON Schema in the module.
const SchemaFile = "shared/event/schema/routes.v1.json"

// A File is the routes file, in YAML or JSON. Unknown fields and classes are errors. In a URL, a header or a function's name, {class}
// is replaced by the class and {cluster} by the ID of the cluster.
type File struct {
	Default *Route           `json:"default,omitempty"` // of all classes that routes does not name; without it they have no function
	Routes  map[string]Route `json:"routes,omitempty"`  // by class
}

// A Route says where the function of a class is. It inherits nothing from the default.
type Route struct {
	URL     string            `json:"url,omitempty"`     // http or https
	Invoke  *Invoke           `json:"invoke,omitempty"`  // instead of url: a function by Function Compute's API
	Sign    bool              `json:"sign,omitempty"`    // sign requests to url as an HTTP trigger of Function Compute requires
	Headers map[string]string `json:"headers,omitempty"` // of each request, such as Host for a gateway that routes by it
	CA      string            `json:"ca,omitempty"`      // file with the root certificates of an https url, read again when it changes
}

// An Invoke names a function of Function Compute 3.0.
type Invoke struct {
	Function  string `json:"function"`            // name
	Qualifier string `json:"qualifier,omitempty"` // version or alias; default LATEST
	Account   string `json:"account"`             // ID of the Alibaba Cloud account
	Region    string `json:"region"`              // such as cn-hangzhou
	Internal  bool   `json:"internal,omitempty"`  // use the endpoint inside Alibaba's network
	Endpoint  string `json:"endpoint,omitempty"`  // instead of the account's, such as https://fc.example; for tests and proxies
}

// Load returns the endpoint of each class with a route, from the routes file at path for a cluster.
func Load(path, cluster string, classes []string, keys cloud.Credentials) (map[string]*Endpoint, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the routes: %w", err)
	}
	routes, err := Parse(text, cluster, classes)
	if err != nil {
		return nil, fmt.Errorf("routes %s: %w", path, err)
	}
	all := map[string]*Endpoint{}
	for class, t := range routes {
		if all[class], err = newEndpoint(t, keys); err != nil {
			return nil, fmt.Errorf("routes %s: %s: %w", path, class, err)
		}
	}
	return all, nil
}

type target struct {
	url     string
	api     bool // url is that of Function Compute's API
	sign    bool
	headers map[string]string
	ca      string
	name    string // of the function, or the host of url
	region  string // of a function of Function Compute; empty: unknown
}

// Parse reads routes for a cluster, by class, and opens no file that they name. Its error lists all mistakes with line and field.
func Parse(text []byte, cluster string, classes []string) (map[string]target, error) {
	var f File
	doc, err := config.Decode(text, &f)
	if err != nil {
		return nil, err
	}
	c, routes := checker{doc}, map[string]target{}
	if f.Default == nil && len(f.Routes) == 0 {
		c.Fail("routes", "the file has no routes: name a class, or give a default")
	}
	for _, class := range slices.Sorted(maps.Keys(f.Routes)) {
		if !slices.Contains(classes, class) {
			c.Fail("routes."+class, "this class does not exist; classes are %s", strings.Join(classes, ", "))
			continue
		}
		routes[class] = c.route("routes."+class, cluster, class, f.Routes[class])
	}
	if f.Default != nil {
		c.route("default", cluster, "class", *f.Default) // the default must be valid for every class
		if err := c.Err(); err != nil {
			return nil, err
		}
		for _, class := range classes {
			if _, own := f.Routes[class]; !own {
				routes[class] = c.route("default", cluster, class, *f.Default)
			}
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return routes, nil
}

type checker struct{ *config.Document }

var (
	functionName = regex.New(`^[A-Za-z_][A-Za-z0-9_-]{0,127}$`)
	accountID    = regex.New(`^[0-9]{5,20}$`)
	headerName   = regex.New(`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`)
	headerValue  = regex.New(`^[ -~]*$`)
	hostValue    = regex.New(`^[A-Za-z0-9.:\[\]-]+$`)
	regionID     = regex.New(`^[a-z]{2,}-[a-z0-9-]+$`)
)

func (c checker) route(at, cluster, class string, r Route) target {
	fill := strings.NewReplacer("{class}", class, "{cluster}", cluster)
	t := target{url: fill.Replace(r.URL), ca: r.CA, sign: r.Sign}
	switch {
	case r.URL != "" && r.Invoke != nil:
		c.Fail(at+".invoke", "there is a url as well: a function has one address")
		return t
	case r.URL == "" && r.Invoke == nil:
		c.Fail(at, "no destination: set url or invoke")
		return t
	}
	c.address(at, r, &t, fill)
	t.headers = c.headers(at+".headers", r.Headers, fill)
	return t
}

func (c checker) address(at string, r Route, t *target, fill *strings.Replacer) {
	field := at + ".url"
	if i := r.Invoke; i != nil {
		t.api = true
		f := *i
		f.Function, f.Endpoint = fill.Replace(i.Function), strings.TrimSuffix(i.Endpoint, "/")
		if !functionName().MatchString(f.Function) {
			c.Fail(at+".invoke.function", "%q is not a name of a function", f.Function)
		}
		if !accountID().MatchString(f.Account) {
			c.Fail(at+".invoke.account", "%q is not an ID of an account: it has digits only", f.Account)
		}
		if !regionID().MatchString(f.Region) {
			c.Fail(at+".invoke.region", "%q is not a region such as cn-hangzhou", f.Region)
		}
		if r.Sign {
			c.Fail(at+".sign", "requests to the API are always signed: leave it out")
		}
		t.url, t.name, t.region, field = f.address(), f.Function, f.Region, at+".invoke.endpoint"
	}
	u, err := url.Parse(t.url)
	switch {
	case err != nil:
		c.Fail(field, "it is not a URL") // the parser's error quotes the URL with its secrets
		return
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.Fail(field, "it is not a URL such as https://host/path")
		return
	case u.User != nil:
		c.Fail(field, "it holds a password, which would stand in a file that many read: leave it out, since calls are signed")
	case u.Fragment != "":
		c.Fail(field, "the part behind # is never sent: leave it out")
	}
	t.name = cmp.Or(t.name, u.Hostname())
	if r.CA != "" && u.Scheme == "http" {
		c.Fail(at+".ca", "http has no certificates: use https, or leave it out")
	}
}

func (c checker) headers(at string, given map[string]string, fill *strings.Replacer) map[string]string {
	// The engine sets these, or they delimit a message.
	taken := []string{"Authorization", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Traceparent"}
	headers := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		canonical, value := http.CanonicalHeaderKey(name), fill.Replace(given[name])
		_, twice := headers[canonical]
		switch {
		case !headerName().MatchString(name):
			c.Fail(at+"."+name, "it is not a name of a header")
		case slices.Contains(taken, canonical) || strings.HasPrefix(canonical, "X-Acs-"):
			c.Fail(at+"."+name, "the engine sets this header itself")
		case twice:
			c.Fail(at+"."+name, "the header is there twice")
		case !headerValue().MatchString(value) || canonical == "Host" && !hostValue().MatchString(value):
			c.Fail(at+"."+name, "its value can't stand in a header")
		}
		headers[canonical] = value
	}
	return headers
}
