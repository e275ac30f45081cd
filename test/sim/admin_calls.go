package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

type wireCall struct {
	At        time.Time         `json:"at"`
	Caller    string            `json:"caller,omitempty"`
	Product   string            `json:"product,omitempty"`
	Action    string            `json:"action,omitempty"`
	Status    int               `json:"status,omitempty"`
	Code      string            `json:"code,omitempty"`
	Params    map[string]string `json:"params,omitempty"`
	RequestID string            `json:"requestId,omitempty"`
}

type asked struct {
	caller, product, action, code string
	last                          int // number of last calls; negative: all
	follow                        bool
}

func readAsked(r *http.Request) (asked, error) {
	q := r.URL.Query()
	want := asked{caller: q.Get("caller"), product: q.Get("product"), action: q.Get("action"), code: q.Get("code"), last: -1}
	if err := known(r, "caller", "product", "action", "code", "last", "follow"); err != nil {
		return want, err
	}
	if last := q.Get("last"); last != "" {
		n, err := strconv.Atoi(last)
		if err != nil || n < 0 {
			return want, fmt.Errorf("%w: last=%s is not a number of calls", errBad, last)
		}
		want.last = n
	}
	if follow := q.Get("follow"); follow != "" {
		var err error
		if want.follow, err = strconv.ParseBool(follow); err != nil {
			return want, fmt.Errorf("%w: follow=%s is neither true nor false", errBad, follow)
		}
	}
	return want, nil
}

func (want asked) has(k Call) bool {
	return core.Is(want.caller, k.Caller) && core.Is(want.product, k.Product) &&
		(want.action == "" || core.Glob(want.action, k.Action)) && core.Is(want.code, k.Code)
}

func (want asked) pick(calls []Call) []wireCall {
	list := []wireCall{}
	for _, k := range calls {
		if want.has(k) {
			list = append(list, wireCall{k.At, k.Caller, k.Product, k.Action, k.Status, k.Code, k.Params, k.RequestID})
		}
	}
	if want.last >= 0 {
		list = list[max(0, len(list)-want.last):]
	}
	return list
}

// callsFrom returns the calls from number n that are still recorded, the next number, and a channel that is closed at the next call.
func (c *Cloud) callsFrom(n int) (calls []Call, next int, news <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.news == nil {
		c.news = make(chan struct{})
	}
	return slices.Clone(c.calls[min(max(0, n-c.forgotten), len(c.calls)):]), c.forgotten + len(c.calls), c.news
}

// serveCalls returns the calls so far, and to a following client later ones until it closes the connection or has enough.
func (c *Cloud) serveCalls(w http.ResponseWriter, r *http.Request) {
	want, err := readAsked(r)
	if err != nil || !want.follow {
		tell(w, r, want.pick(c.Calls()), err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	for n := 0; ; want.last = -1 {
		calls, next, news := c.callsFrom(n)
		n = next
		for _, k := range want.pick(calls) {
			if err := enc.Encode(k); err != nil {
				return
			}
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

func (c *Cloud) deleteCalls(*http.Request) (any, error) {
	c.ResetCalls()
	return nil, nil
}
