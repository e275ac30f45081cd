package rampermission

import (
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
)

// RAM has a minute unless the policy file says how long.
func TestDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{"mode: fix": time.Minute, "ramDelay: 2s": 2 * time.Second} {
		p, err := policyfile.Parse([]byte(text), nil, Remedy.Sections...)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(delay.Of(p)); got != want {
			t.Errorf("%q: RAM settles in %s, want %s", text, got, want)
		}
	}
}
