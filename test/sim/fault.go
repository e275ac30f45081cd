package sim

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A Fault makes calls fail. Empty selectors Product, Action and Caller select all. Delay combines with the others; of those, the
// first set one applies, in the order of the fields.
type Fault struct {
	Product string // such as slb
	Action  string // such as CreateLoadBalancer; * matches any text
	Caller  string // name

	Delay     time.Duration // before everything else
	Hang      bool          // no answer and no action until the client gives up
	CutBefore bool          // close the connection before the action
	Code      string        // answer with this error instead of the action
	Status    int           // of the error: 400 if 0, or 503 if the code denotes a server's fault
	Message   string        // of the error: the code's usual text if empty
	CutAfter  bool          // close the connection after the action
	Garbage   bool          // answer with half of the body after the action
	Body      string        // answer with this body after the action, with Status or 200
	FailJob   bool          // the answer is normal, but the job fails and changes nothing

	Count int     // number of affected calls; 0: until removed
	Rate  float64 // share of affected calls, between 0 and 1; 0: all
}

type standing struct {
	Fault
	id   int
	left int
}

// dice decide about faults with a rate, equally in each run.
type dice struct{ *rand.Rand }

func (d *dice) below(rate float64) bool {
	if d.Rand == nil {
		d.Rand = rand.New(rand.NewPCG(1, 2))
	}
	return d.Float64() < rate
}

// Fault adds a fault and returns a function that removes it. Of several matching faults, the oldest applies.
func (c *Cloud) Fault(f Fault) (remove func()) {
	id := c.stand(f)
	return func() { c.lift(id) }
}

func (c *Cloud) stand(f Fault) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood++
	c.faults = append(c.faults, &standing{Fault: f, id: c.stood, left: f.Count})
	return c.stood
}

func (c *Cloud) lift(id int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.faults)
	c.faults = slices.DeleteFunc(slices.Clone(c.faults), func(o *standing) bool { return o.id == id })
	return len(c.faults) < n
}

func (c *Cloud) meet(in *incoming, call *Call) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.state.Callers[in.key]; k != nil {
		call.Caller = k.Name
	}
	for i, s := range c.faults {
		hit := (s.Product == "" || s.Product == call.Product) &&
			(s.Action == "" || core.Glob(s.Action, call.Action)) &&
			(s.Caller == "" || s.Caller == call.Caller)
		if !hit || s.Rate > 0 && !c.dice.below(s.Rate) {
			continue
		}
		f := s.Fault
		if s.left--; s.left == 0 {
			c.faults = slices.Delete(slices.Clone(c.faults), i, i+1)
		}
		return &f
	}
	return nil
}

func (f *Fault) before(c *Cloud, r *http.Request, call Call) {
	if f == nil {
		return
	}
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			c.abort(call, "hang")
		}
	}
	switch {
	case f.Hang:
		<-r.Context().Done()
		c.abort(call, "hang")
	case f.CutBefore:
		c.abort(call, "cut")
	}
}

func (f *Fault) refusal(p *core.Product) (any, *core.Failure) {
	if f == nil || f.Code == "" {
		return nil, nil
	}
	usual, _ := core.Usual(f.Code)
	if p != nil && p.Words != nil {
		usual = *p.Words(&usual)
	}
	status := cmp.Or(f.Status, usual.Status, http.StatusBadRequest)
	return nil, core.Fail(status, f.Code, "%s", cmp.Or(f.Message, usual.Message, "The request failed with "+f.Code+"."))
}

// UsualCodes returns the codes of errors that any action may return, sorted. A Fault with one of them needs no message.
func UsualCodes() []string { return core.UsualCodes() }

func (f *Fault) after(c *Cloud, call *Call) {
	if f == nil || f.Code != "" {
		return
	}
	if f.CutAfter {
		c.abort(*call, "cut")
	}
	if f.Garbage || f.Body != "" {
		call.Code = "garbage"
	}
	if f.Body != "" {
		call.Status = cmp.Or(f.Status, http.StatusOK)
	}
}

func (f *Fault) garble(b []byte) []byte {
	switch {
	case f == nil || f.Code != "":
		return b
	case f.Garbage:
		return b[:len(b)/2]
	case f.Body != "":
		return []byte(f.Body)
	}
	return b
}

func (c *Cloud) abort(call Call, code string) {
	call.Code = code
	c.mu.Lock()
	c.record(call)
	c.mu.Unlock()
	panic(http.ErrAbortHandler)
}
