// Package core is what the products of the simulated cloud share: requests with their parameters, answers and errors,
// jobs, client tokens, lag, and the state that belongs to no product.
//
// A product is a package beside this one. It has a [Product], which is the table of its actions, and a State of its
// own for each region, which [Part] finds. A handler runs with all state locked.
package core

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Skew is how far a time stamp may be from the present, and how long a nonce is
// remembered.
//
// https://www.alibabacloud.com/help/en/sdk/product-overview/rpc-mechanism
const Skew = 15 * time.Minute

// A Reply is the body of an answer.
type Reply map[string]any

// A Failure is an error as the OpenAPI answers it.
type Failure struct {
	Status  int
	Code    string
	Message string
	Denied  map[string]any // AccessDeniedDetail
}

// Error returns the code and the text.
func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Fail returns a failure with a text.
func Fail(status int, code, format string, args ...any) *Failure {
	return &Failure{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotAuthorized is how most products refuse what RAM does not allow.
var NotAuthorized = Failure{
	Status: http.StatusForbidden, Code: "NoPermission",
	Message: "You are not authorized to do this action. You should be authorized by RAM.",
}

// A Request is a call on its way to its handler.
type Request struct {
	Product *Product
	Action  *Action
	Params  Params
	Caller  *Caller
	State   *State
	Now     time.Time
	Doomed  bool // its job fails
}

// A Product is a part of the cloud with its own version, table and manners.
type Product struct {
	Name     string // in RAM actions, such as slb
	Version  string
	Host     string                  // of the public endpoint, as HostId says it
	Regional bool                    // each region has resources of its own
	Lower    bool                    // errors are {code, message, requestId}
	Refusal  Failure                 // what RAM's refusal looks like
	Words    func(*Failure) *Failure // puts a general error into the product's words; nil: they are good
	Actions  map[string]*Action
}

// An Action answers a request. State is locked while it runs.
type Action struct {
	Name     string // filled from the table's key
	Do       func(q *Request) (any, *Failure)
	Path     string                  // of a ROA action, with {} for a segment
	Method   string                  // of a ROA action; GET if empty
	Need     []string                // parameters without which it is refused
	RAM      []string                // RAM actions of which one suffices; <product>:<Action> if nil
	Resource func(q *Request) string // behind acs:<product>:<region>:<account>:, * if nil
	Filtered bool                    // a list that RAM may filter instead of refusing it
	Open     bool                    // nobody signs it
}

// Action returns the action of this name that has no path, or nil.
func (p *Product) Action(name string) *Action {
	if p == nil || p.Actions[name] == nil || p.Actions[name].Path != "" {
		return nil
	}
	return p.Actions[name]
}

// Route finds the action of a method on a path and adds the path's parameters
// as path.0, path.1 and so on. Of two that fit, the one that names more of the
// path is meant.
func (p *Product) Route(method, path string, in Params) *Action {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	var best *Action
	var found []string
	for _, a := range p.Actions {
		pattern := strings.Split(strings.Trim(a.Path, "/"), "/")
		if a.Path == "" || cmp.Or(a.Method, http.MethodGet) != method || len(pattern) != len(segments) {
			continue
		}
		var open []string
		match := true
		for i, s := range pattern {
			if s == "{}" {
				open = append(open, segments[i])
				continue
			}
			match = match && s == segments[i]
		}
		if match && (best == nil || len(open) < len(found)) {
			best, found = a, open
		}
	}
	for i, v := range found {
		in[fmt.Sprintf("path.%d", i)] = v
	}
	return best
}

// RequestID returns an ID in the form of the cloud's: a UUID in upper case.
func RequestID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := strings.ToUpper(hex.EncodeToString(b[:]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
