package event

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Call is one request by which a step wrote, as the cloud or the API server answered it. It names what to look for in ActionTrail or
// in the cluster's audit log.
type Call struct {
	At       time.Time `json:"at"`                        // when it was answered
	Action   string    `json:"action"`                    // such as "slb:TagResources" or "patch services"
	Resource string    `json:"resource,omitempty"`        // its object, such as "lb-1", "policy/p" or "shop/web"
	Request  string    `json:"requestID,omitempty"`       // ID that the cloud gave it
	Version  string    `json:"resourceVersion,omitempty"` // of the object after a write to the cluster
	Error    string    `json:"error,omitempty"`           // code of an unsuccessful answer; NoAnswer: none came
	Unsure   bool      `json:"unsure,omitempty"`          // the write may have been made, whatever the error says
}

// Wrote reports whether the write was made or may have been: an answer that is not the API's, as of a gateway, proves nothing.
func (c Call) Wrote() bool { return c.Error == "" || c.Unsure || c.Error == "NoAnswer" }

// Open reports whether no answer settled the write: it may still be on its way.
func (c Call) Open() bool { return c.Unsure || c.Error == "NoAnswer" }

// A Person is the caller of a command: the name that they gave, their identity by the API server, and their machine.
type Person struct {
	Name     string `json:"name,omitempty"`
	Identity string `json:"identity,omitempty"` // user name in the cluster; empty if no cluster could be asked
	Host     string `json:"host,omitempty"`
}

// String returns the name, with the other known facts in parentheses.
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

func (r *Record) redactCalls() {
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		calls := slices.Clone(r.Steps[i].Calls)
		for j := range calls {
			c := &calls[j]
			c.Resource = strings.ToValidUTF8(Redact(c.Resource), "?")
			for _, text := range []*string{&c.Action, &c.Request, &c.Version, &c.Error} { // limited to the length that such texts can have
				*text = clip(Redact(*text))
			}
		}
		r.Steps[i].Calls = calls
	}
}
