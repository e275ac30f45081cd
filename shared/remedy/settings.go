package remedy

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Settings are the policy's settings for single classes and checks.
type Settings struct {
	VSwitches VSwitches `json:"vswitches,omitzero"` // rules for choosing a vSwitch: vswitch-ip-exhausted, vswitch-not-found, zone-shortage
	RAMDelay  Duration  `json:"ramDelay,omitzero"`  // how long RAM takes to act on a new policy version, default 1m: ram-permission
	PayBySpec bool      `json:"payBySpec,omitzero"` // CLBs billed by spec are still sold to this account: eni-unsupported, the doctor's charge-types
}

// Delay returns how long RAM takes to act on a new policy version.
func (s Settings) Delay() time.Duration {
	return time.Duration(cmp.Or(s.RAMDelay, Duration(time.Minute)))
}

// VSwitches are the rules for choosing a vSwitch.
type VSwitches struct {
	Allow          []string `json:"allow,omitempty"`         // besides the cluster's own
	Reserve        *int64   `json:"reserve,omitzero"`        // free addresses that stay untouched; default 8
	ReplaceMissing bool     `json:"replaceMissing,omitzero"` // a missing vSwitch that a person named may be replaced
}

// Kept returns how many free addresses of a vSwitch stay untouched.
func (v VSwitches) Kept() int64 {
	if v.Reserve == nil {
		return 8
	}
	return *v.Reserve
}

// Allowed reports whether the policy allows the vSwitch besides the cluster's own.
func (v VSwitches) Allowed(id string) bool { return slices.Contains(v.Allow, id) }

// Room returns how many of a vSwitch's free addresses may be used, at least zero.
func (v VSwitches) Room(free int64) int { return int(max(0, free-v.Kept())) }

// A Duration is a length of time, in a file 60s or 1m.
type Duration time.Duration

// String returns the duration as a policy file writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as a policy file does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads such a text.
func (d *Duration) UnmarshalText(text []byte) error { return d.ReadText(string(text)) }

// ReadText reads the duration from a text such as 60s.
func (d *Duration) ReadText(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a duration such as 60s", text)
	}
	*d = Duration(v)
	return nil
}
