package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// AdminHelp describes the admin API.
const AdminHelp = `Admin API, on the cloud's own address. Bodies are YAML or JSON. Answers are YAML,
or JSON with "Accept: application/json". An error is one line of text: 400 for what
can't be done, 404 for what is not there. What is refused has changed nothing.

  GET    /sim/             this text
  GET    /sim/world        all that there is, in the form of --world
  PUT    /sim/world        put another world in its place
  PATCH  /sim/world        change parts of it: {account: {arrearage: true}}
  POST   /sim/reset        put the world of the start in its place, without faults and calls
  GET    /sim/KIND         all of a kind
  GET    /sim/KIND/ID      one of them
  PUT    /sim/KIND/ID      make it, or put another in its place
  PATCH  /sim/KIND/ID      change parts of it; null removes
  DELETE /sim/KIND/ID      drop it, whatever protects it
  POST   /sim/faults       put a fault in the way of calls; answers with its number:
                           {product: slb, action: Create*, caller: controller, code: Throttling.User, count: 3}
                           effects: delay: 2s, hang, cutBefore, code (status, message), cutAfter, garbage, body,
                                    failJob
                           limits:  count: 3, rate: 0.5
  GET    /sim/faults       those that stand
  GET    /sim/faults/N     one of them
  DELETE /sim/faults[/N]   remove one, or all
  GET    /sim/calls        what was called: ?caller= &product= &action= &code= &last=N
                           with follow=true as a stream, one JSON object per line
  DELETE /sim/calls        forget it
  GET    /sim/actions      the actions that the cloud answers

KIND is one of the world's lists, such as loadBalancers, nlbs, vswitches,
policies or quotas. ID is the id, of roles, policies and quotas the name, and of
callers the access key ID or the name.
`

var kinds = map[string]string{
	"vpcs": "id", "vswitches": "id", "zones": "id", "routeTables": "id", "loadBalancers": "id", "nlbs": "id", "serverGroups": "id", "securityGroups": "id",
	"eips": "id", "enis": "id",
	"instances": "id", "acls": "id", "certificates": "id", "roles": "name", "policies": "name", "oidcProviders": "name", "callers": "accessKeyId",
	"quotas": "name", "quotaApplications": "id", "tickets": "id",
}

// adminHandler serves programs on this machine. It rejects browsers' pages: the Host has to be a loopback address, without an Origin.
func (c *Cloud) adminHandler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]func(*http.Request) (any, error){
		"GET /sim/world": c.getWorld, "PUT /sim/world": c.putWorld, "PATCH /sim/world": c.patchWorld, "POST /sim/reset": c.reset,
		"GET /sim/{kind}": c.getKind, "GET /sim/{kind}/{id}": c.getOne,
		"PUT /sim/{kind}/{id}": c.putOne, "PATCH /sim/{kind}/{id}": c.patchOne, "DELETE /sim/{kind}/{id}": c.deleteOne,
		"POST /sim/faults": c.postFault, "GET /sim/faults": c.getFaults, "GET /sim/faults/{id}": c.getFault,
		"DELETE /sim/faults": c.deleteFaults, "DELETE /sim/faults/{id}": c.deleteFault, "DELETE /sim/calls": c.deleteCalls,
		"GET /sim/actions": func(*http.Request) (any, error) { return Actions(), nil },
		"GET /sim/{$}":     func(*http.Request) (any, error) { return AdminHelp, nil },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var out any
			err := known(r)
			if err == nil {
				out, err = do(r)
			}
			tell(w, r, out, err)
		})
	}
	mux.HandleFunc("GET /sim/calls", c.serveCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r) {
			http.Error(w, "the admin API answers at a loopback address only, and to no web page", http.StatusForbidden)
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			w = lost{w}
		}
		mux.ServeHTTP(w, r)
	})
}

// lost rewrites the mux's answer to a request that matches no pattern, with the same status and header Allow.
type lost struct{ http.ResponseWriter }

func (l lost) WriteHeader(status int) {
	l.Header().Set("Content-Type", "text/plain; charset=utf-8")
	l.ResponseWriter.WriteHeader(status)
	text := "there is no such path"
	if allow := l.Header().Get("Allow"); allow != "" {
		text = "this path has " + allow
	}
	_, _ = io.WriteString(l.ResponseWriter, text+": see GET /sim/\n")
}

func (l lost) Write(b []byte) (int, error) { return len(b), nil }

func known(r *http.Request, names ...string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%w: %s has no parameter %q", errBad, r.URL.Path, name)
		}
	}
	return nil
}

func local(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return here(strings.Trim(host, "[]")) && r.Header.Get("Origin") == ""
}

var (
	errAbsent = errors.New("not there")
	errBad    = errors.New("bad request")
)

var noise = regexp.MustCompile(`error unmarshaling JSON: |while decoding JSON: |error converting YAML to JSON: |json: |Go struct |strconv\.\w+: parsing `)

func tell(w http.ResponseWriter, r *http.Request, out any, err error) {
	var big *http.MaxBytesError
	switch {
	case errors.Is(err, errAbsent):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case errors.As(err, &big):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, strings.ReplaceAll(noise.ReplaceAllString(err.Error(), ""), "\n", "; "), http.StatusBadRequest)
		return
	case out == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if text, ok := out.(string); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text)
		return
	}
	write, kind := yaml.Marshal, "application/yaml"
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		write, kind = json.Marshal, "application/json"
	}
	b, err := write(out)
	if err != nil {
		panic("sim: an answer that cannot be written: " + err.Error())
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b)
}

const maxWorld = 64 << 20

func read(r *http.Request, v any) error {
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxWorld))
	switch {
	case err != nil:
	case len(bytes.TrimSpace(b)) == 0:
		err = errors.New("the body is empty")
	default:
		err = yaml.UnmarshalStrict(b, v)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	return nil
}

func (c *Cloud) getWorld(*http.Request) (any, error) { return c.Snapshot(), nil }

func (c *Cloud) putWorld(r *http.Request) (any, error) {
	var w World
	if err := read(r, &w); err != nil {
		return nil, err
	}
	return nil, c.Replace(&w)
}

// reset restores the initial World. IDs continue, so objects left from the old World are not mistaken for new ones.
func (c *Cloud) reset(*http.Request) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := newState(c.first.Clone(), c.now)
	if err != nil {
		return nil, fmt.Errorf("reset the world: %w", err)
	}
	s.coreState.Number(c.state.coreState)
	c.state, c.regions, c.faults = s, nil, nil
	c.addClients()
	c.forget()
	return nil, nil
}

func (c *Cloud) patchWorld(r *http.Request) (any, error) {
	var patch map[string]any
	if err := read(r, &patch); err != nil {
		return nil, err
	}
	return nil, c.rewrite(func(w map[string]any) error {
		merge(w, patch)
		return nil
	})
}

// merge applies a JSON merge patch (RFC 7386) to m.
func merge(m, patch map[string]any) {
	for k, v := range patch {
		from, deep := m[k].(map[string]any)
		to, ok := v.(map[string]any)
		switch {
		case v == nil:
			delete(m, k)
		case ok && deep:
			merge(from, to)
		default:
			m[k] = v
		}
	}
}

// rewrite changes the current state in the form of a World, atomically.
func (c *Cloud) rewrite(change func(map[string]any) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.advance(c.now())
	m := form(c.state.world())
	if err := change(m); err != nil {
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	w, err := ParseWorld(b)
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	return c.replace(w)
}

func form(v any) map[string]any {
	var m map[string]any
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		panic("sim: a world that cannot be written: " + err.Error())
	}
	return m
}

// Kinds returns the lists of a [World] that the admin API serves, each with the field that identifies an element.
func Kinds() map[string]string { return maps.Clone(kinds) }

// kind returns a list of a World and the index of the element with an ID, or -1. Callers are also found by name.
func kind(w map[string]any, name, id string) ([]any, int, error) {
	field := kinds[name]
	if field == "" {
		return nil, 0, fmt.Errorf("%s is no kind, %s are: %w", name, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), errAbsent)
	}
	list, _ := w[name].([]any)
	by := func(field string) int {
		return slices.IndexFunc(list, func(e any) bool { m, ok := e.(map[string]any); return ok && m[field] == id })
	}
	i := by(field)
	if i < 0 && name == "callers" {
		i = by("name")
	}
	return list, i, nil
}

// identify sets an element's ID from its path, and rejects a different one.
func identify(one map[string]any, name, id string) error {
	field := kinds[name]
	if has, ok := one[field]; ok && has != id {
		return fmt.Errorf("%w: the %s of %s/%s is not %v", errBad, field, name, id, has)
	}
	one[field] = id
	return nil
}

func (c *Cloud) getKind(r *http.Request) (any, error) {
	list, _, err := kind(form(c.Snapshot()), r.PathValue("kind"), "")
	return slices.Concat([]any{}, list), err
}

func (c *Cloud) getOne(r *http.Request) (any, error) {
	list, i, err := kind(form(c.Snapshot()), r.PathValue("kind"), r.PathValue("id"))
	if err == nil && i < 0 {
		err = fmt.Errorf("%s/%s: %w", r.PathValue("kind"), r.PathValue("id"), errAbsent)
	}
	if err != nil {
		return nil, err
	}
	return list[i], nil
}

func (c *Cloud) putOne(r *http.Request) (any, error) {
	name, id := r.PathValue("kind"), r.PathValue("id")
	var one map[string]any
	if err := read(r, &one); err != nil {
		return nil, err
	}
	return nil, c.rewrite(func(w map[string]any) error {
		list, i, err := kind(w, name, id)
		if err != nil {
			return err
		}
		if one == nil {
			one = map[string]any{}
		}
		key := id
		if i >= 0 {
			key = list[i].(map[string]any)[kinds[name]].(string)
		}
		if err := identify(one, name, key); err != nil {
			return err
		}
		if i < 0 {
			w[name] = append(list, one)
			return nil
		}
		list[i] = one
		return nil
	})
}

func (c *Cloud) patchOne(r *http.Request) (any, error) {
	name, id := r.PathValue("kind"), r.PathValue("id")
	var patch map[string]any
	if err := read(r, &patch); err != nil {
		return nil, err
	}
	return nil, c.rewrite(func(w map[string]any) error {
		list, i, err := kind(w, name, id)
		if err == nil && i < 0 {
			err = fmt.Errorf("%s/%s: %w", name, id, errAbsent)
		}
		if err != nil {
			return err
		}
		one := list[i].(map[string]any)
		key := one[kinds[name]].(string)
		merge(one, patch)
		return identify(one, name, key)
	})
}

func (c *Cloud) deleteOne(r *http.Request) (any, error) {
	name, id := r.PathValue("kind"), r.PathValue("id")
	switch name { // deleting these releases addresses
	case "loadBalancers", "nlbs":
		there := false
		c.Edit(func(s *State) {
			there = s.LoadBalancers[id] != nil && name == "loadBalancers" || s.NLBs[id] != nil && name == "nlbs"
			if name == "nlbs" {
				s.nlbState.Drop(id)
			} else {
				s.slbState.Drop(id)
			}
		})
		if !there {
			return nil, fmt.Errorf("%s/%s: %w", name, id, errAbsent)
		}
		return nil, nil
	}
	return nil, c.rewrite(func(w map[string]any) error {
		list, i, err := kind(w, name, id)
		if err == nil && i < 0 {
			err = fmt.Errorf("%s/%s: %w", name, id, errAbsent)
		}
		if err != nil {
			return err
		}
		w[name] = slices.Delete(list, i, i+1)
		return nil
	})
}

type wireFault struct {
	ID        int      `json:"id,omitempty"`
	Product   string   `json:"product,omitempty"`
	Action    string   `json:"action,omitempty"`
	Caller    string   `json:"caller,omitempty"`
	Delay     Duration `json:"delay,omitempty"`
	Hang      bool     `json:"hang,omitempty"`
	CutBefore bool     `json:"cutBefore,omitempty"`
	Code      string   `json:"code,omitempty"`
	Status    int      `json:"status,omitempty"`
	Message   string   `json:"message,omitempty"`
	CutAfter  bool     `json:"cutAfter,omitempty"`
	Garbage   bool     `json:"garbage,omitempty"`
	Body      string   `json:"body,omitempty"`
	FailJob   bool     `json:"failJob,omitempty"`
	Count     int      `json:"count,omitempty"`
	Rate      float64  `json:"rate,omitempty"`
}

func (c *Cloud) postFault(r *http.Request) (any, error) {
	var f wireFault
	if err := read(r, &f); err != nil {
		return nil, err
	}
	switch {
	case f.Delay == 0 && !f.Hang && !f.CutBefore && f.Code == "" && !f.CutAfter && !f.Garbage && f.Body == "" && !f.FailJob:
		return nil, fmt.Errorf("%w: the fault does nothing: give it delay, hang, cutBefore, code, cutAfter, garbage, body or failJob", errBad)
	case f.Rate < 0 || f.Rate > 1 || f.Count < 0 || f.Delay < 0:
		return nil, fmt.Errorf("%w: rate is between 0 and 1, count and delay are not below 0", errBad)
	case f.Product != "" && !slices.ContainsFunc(slices.Collect(maps.Values(byVersion)), func(p *core.Product) bool { return p.Name == f.Product }):
		return nil, fmt.Errorf("%w: there is no product %s", errBad, f.Product)
	case f.Code == "" && (f.Status != 0 || f.Message != ""):
		return nil, fmt.Errorf("%w: status and message go with a code", errBad)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return nil, fmt.Errorf("%w: status %d is not that of an error", errBad, f.Status)
	}
	f.ID = c.stand(Fault{
		Product: f.Product, Action: f.Action, Caller: f.Caller, Delay: time.Duration(f.Delay), Hang: f.Hang, CutBefore: f.CutBefore, Code: f.Code,
		Status: f.Status, Message: f.Message, CutAfter: f.CutAfter, Garbage: f.Garbage, Body: f.Body, FailJob: f.FailJob, Count: f.Count, Rate: f.Rate,
	})
	return f, nil
}

// wire needs c.mu.
func (s *standing) wire() wireFault {
	f := s.Fault
	return wireFault{
		ID: s.id, Product: f.Product, Action: f.Action, Caller: f.Caller, Delay: Duration(f.Delay), Hang: f.Hang, CutBefore: f.CutBefore, Code: f.Code,
		Status: f.Status, Message: f.Message, CutAfter: f.CutAfter, Garbage: f.Garbage, Body: f.Body, FailJob: f.FailJob, Count: max(s.left, 0), Rate: f.Rate,
	}
}

func (c *Cloud) getFaults(*http.Request) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []wireFault{}
	for _, s := range c.faults {
		list = append(list, s.wire())
	}
	return list, nil
}

func (c *Cloud) getFault(r *http.Request) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.faults {
		if strconv.Itoa(s.id) == r.PathValue("id") {
			return s.wire(), nil
		}
	}
	return nil, fmt.Errorf("fault %s: %w", r.PathValue("id"), errAbsent)
}

func (c *Cloud) deleteFaults(*http.Request) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
	return nil, nil
}

func (c *Cloud) deleteFault(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !c.lift(id) {
		return nil, fmt.Errorf("fault %s: %w", r.PathValue("id"), errAbsent)
	}
	return nil, nil
}
