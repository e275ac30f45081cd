package event

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Call is one request by which a step wrote, as the cloud or the API server answered it:
// what to look for in ActionTrail or in the audit log of the cluster.
type Call struct {
	At       time.Time `json:"at"`                        // when it was answered
	Action   string    `json:"action"`                    // such as "slb:TagResources" or "patch services"
	Resource string    `json:"resource,omitempty"`        // what it is about, such as "lb-1", "policy/p" or "shop/web"
	Request  string    `json:"requestID,omitempty"`       // that the cloud gave it
	Version  string    `json:"resourceVersion,omitempty"` // of the object as it was after a write to the cluster
	Error    string    `json:"error,omitempty"`           // code of an answer that is none of success; NoAnswer: there was none
	Unsure   bool      `json:"unsure,omitempty"`          // the write may have been made, whatever the error says
}

// Wrote reports whether the write was made, or may have been: an answer that is none, as of a gateway, tells nothing.
func (c Call) Wrote() bool { return c.Error == "" || c.Unsure || c.Error == "NoAnswer" }

// Open reports whether no answer came that tells what became of the write: it may still be on its way.
func (c Call) Open() bool { return c.Unsure || c.Error == "NoAnswer" }

// A Person is who called a command: by the name that they gave, as the API server knows
// them, and on which machine.
type Person struct {
	Name     string `json:"name,omitempty"`
	Identity string `json:"identity,omitempty"` // user name in the cluster; empty where no cluster could be asked
	Host     string `json:"host,omitempty"`
}

// String returns the name, with what is known beside it in parentheses.
func (p Person) String() string {
	name, at := cmp.Or(p.Name, p.Identity), ""
	if p.Identity != "" && p.Identity != name {
		at = p.Identity
	}
	if p.Host != "" {
		at = strings.TrimSpace(at + " on " + p.Host)
	}
	if at == "" {
		return name
	}
	return name + " (" + at + ")"
}

// redactCalls redacts the calls of the record's steps, on a copy.
func (r *Record) redactCalls() {
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		calls := slices.Clone(r.Steps[i].Calls)
		for j := range calls {
			c := &calls[j]
			c.Resource = strings.ToValidUTF8(Redact(c.Resource), "?")
			for _, text := range []*string{&c.Action, &c.Request, &c.Version, &c.Error} { // no longer than what they are can be
				*text = clip(Redact(*text))
			}
		}
		r.Steps[i].Calls = calls
	}
}
