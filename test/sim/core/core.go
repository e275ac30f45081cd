// Package core has the common parts of the simulated products: requests with their parameters, answers and errors, jobs, client
// tokens, lag, and state that belongs to no product. A product is a package beside this one, with a [Product], the table of its
// actions, and a State for each region, which [Part] finds. Handlers run with all state locked.
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

// Skew is the maximum deviation of a time stamp, and the time for which nonces are remembered
// (https://www.alibabacloud.com/help/en/sdk/product-overview/rpc-mechanism).
const Skew = 15 * time.Minute

// A Reply is the body of an answer.
type Reply map[string]any

// A Failure is an OpenAPI error.
type Failure struct {
	Status  int
	Code    string
	Message string
	Denied  map[string]any // AccessDeniedDetail
}

// Error returns the code and the text.
func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Fail returns a failure with a formatted message.
func Fail(status int, code, format string, args ...any) *Failure {
	return &Failure{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotAuthorized is the usual error for calls that RAM denies.
var NotAuthorized = Failure{
	Status: http.StatusForbidden, Code: "NoPermission",
	Message: "You are not authorized to do this action. You should be authorized by RAM.",
}

// A Request is a call for a handler.
type Request struct {
	Product *Product
	Action  *Action
	Params  Params
	Caller  *Caller
	State   *State
	Now     time.Time
	Doomed  bool // its job fails
}

// A Product is a part of the cloud with its own version, actions and conventions.
type Product struct {
	Name     string // in RAM actions, such as slb
	Version  string
	Host     string                  // public endpoint, in the field HostId
	Regional bool                    // resources are separate for each region
	Lower    bool                    // errors are {code, message, requestId}
	Refusal  Failure                 // the error for a call that RAM denies
	Words    func(*Failure) *Failure // converts a general error to the product's; nil: unchanged
	Actions  map[string]*Action
}

// An Action answers a request, with the state locked.
type Action struct {
	Name     string // set from the table's key
	Do       func(q *Request) (any, *Failure)
	Path     string                  // of a ROA action; {} matches a segment
	Method   string                  // of a ROA action; GET if empty
	Need     []string                // required parameters
	RAM      []string                // RAM actions, one of which suffices; default <product>:<Action>
	Resource func(q *Request) string // part after acs:<product>:<region>:<account>:; default *
	Filtered bool                    // RAM may filter this list instead of denying it
	Open     bool                    // unsigned
}

// Action returns the action of this name that has no path, or nil.
func (p *Product) Action(name string) *Action {
	if p == nil || p.Actions[name] == nil || p.Actions[name].Path != "" {
		return nil
	}
	return p.Actions[name]
}

// Route returns a method's action on a path, the more specific one first, and adds the path's segments as path.0, path.1 and so on.
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

// RequestID returns an ID in the cloud's format, an upper-case UUID.
func RequestID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := strings.ToUpper(hex.EncodeToString(b[:]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
