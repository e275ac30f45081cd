package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A State is the common state of a region's products. Its maps are never nil.
type State struct {
	Region       string
	AccountID    string
	Home         string // the cluster's VPC, the default of resources
	Lag          Lag
	ForgetTokens bool

	Now     func() time.Time
	Started time.Time
	Serial  map[string]int // last assigned number by kind of ID

	Made func(id string) bool   // reports whether a resource created by a request still exists
	Copy func() (*State, error) // deep copy, for dry runs

	parts    []any
	tokens   map[string]Settled // results by client token
	tagTrail map[string]Trail[map[string]string]
	jobs     map[string]*Job
	pending  []*Job
}

// NewState returns the empty state of a region.
func NewState(region, account string, now func() time.Time) *State {
	return &State{
		Region: region, AccountID: account, Now: now, Started: now().UTC().Truncate(time.Second), Serial: map[string]int{},
		tokens: map[string]Settled{}, tagTrail: map[string]Trail[map[string]string]{}, jobs: map[string]*Job{},
	}
}

// Adopt copies from the previous state what a World does not contain.
func (s *State) Adopt(was *State) {
	s.Number(was)
	s.tokens, s.tagTrail, s.jobs, s.pending, s.Started = was.tokens, was.tagTrail, was.jobs, was.pending, was.Started
}

// Number continues the numbers of the previous state, which keeps IDs unique.
func (s *State) Number(was *State) {
	for kind, n := range was.Serial {
		s.Serial[kind] = max(s.Serial[kind], n)
	}
}

// Add adds the state of a product.
func (s *State) Add(part any) { s.parts = append(s.parts, part) }

// Part returns a product's state by type.
func Part[T any](s *State) T {
	for _, p := range s.parts {
		if part, ok := p.(T); ok {
			return part
		}
	}
	panic(fmt.Sprintf("sim: the state has no %T", *new(T)))
}

// Owner returns the account ID as a number.
func (s *State) Owner() int64 {
	n, _ := strconv.ParseInt(s.AccountID, 10, 64) // zero for an account ID that is not a number
	return n
}

// ResourceGroup returns the ID of the default resource group.
func (s *State) ResourceGroup() string { return "rg-acfm" + strings.ToLower(Derive(s.AccountID, 11)) }

// ID returns the next unused ID of a kind.
func (s *State) ID(prefix string, used func(string) bool) string {
	for {
		s.Serial[prefix]++
		if id := fmt.Sprintf("%ssim%04d", prefix, s.Serial[prefix]); !used(id) {
			return id
		}
	}
}

// Index calls fill for the elements of list and returns them by ID. Duplicate IDs are errors.
func Index[T any](kind string, list []T, id func(*T) string, fill func(int, *T)) (map[string]*T, error) {
	var errs []error
	m := make(map[string]*T, len(list))
	for i := range list {
		e := &list[i]
		fill(i, e)
		if m[id(e)] != nil {
			errs = append(errs, fmt.Errorf("%s %s occurs twice", kind, id(e)))
		}
		m[id(e)] = e
	}
	return m, errors.Join(errs...)
}

// Sorted returns the elements of m in order of their keys.
func Sorted[T any](m map[string]*T) []T {
	list := make([]T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, *m[k])
	}
	return list
}

// Picked returns the wanted elements of m, not copies, in order of their keys.
func Picked[T any](m map[string]*T, wanted func(*T) bool) []*T {
	type entry struct {
		key string
		v   *T
	}
	entries := make([]entry, 0, len(m))
	for k, v := range m {
		if wanted(v) {
			entries = append(entries, entry{k, v})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	list := make([]*T, len(entries))
	for i, e := range entries {
		list[i] = e.v
	}
	return list
}

// Derive returns n letters and digits that depend only on s.
func Derive(s string, n int) string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	h := fnv.New64a()
	var b strings.Builder
	for b.Len() < n {
		_, _ = io.WriteString(h, s)
		b.WriteByte(letters[h.Sum64()%uint64(len(letters))])
	}
	return b.String()
}

// A Duration is a time.Duration written as "30s" in YAML and JSON.
type Duration time.Duration

// MarshalJSON encodes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON decodes a duration from a string.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// A Caller is an access key. It may call the actions of its Allow list and of the policies of its role or user.
type Caller struct {
	Name        string    `json:"name,omitempty"` // default: the access key ID
	AccessKeyID string    `json:"accessKeyId,omitempty"`
	Secret      string    `json:"secret,omitempty"`
	Token       string    `json:"token,omitempty"` // STS token; empty: a permanent key
	Expires     time.Time `json:"expires,omitzero"`
	Role        string    `json:"role,omitempty"`
	User        string    `json:"user,omitempty"`
	Policy      string    `json:"policy,omitempty"` // session policy that limits the role's rights
	Allow       []string  `json:"allow,omitempty"`  // RAM actions, such as slb:Describe*
	Deny        []string  `json:"deny,omitempty"`
}

// Credentials sign a client's requests. Token is empty for a permanent key.
type Credentials struct {
	AccessKeyID string
	Secret      string
	Token       string
}

// Credentials returns the caller's credentials.
func (k *Caller) Credentials() Credentials {
	return Credentials{AccessKeyID: k.AccessKeyID, Secret: k.Secret, Token: k.Token}
}

// Fill sets a missing key, secret and name. They are derived, so the same World always has the same ones.
func (k *Caller) Fill() {
	if k.AccessKeyID == "" {
		k.AccessKeyID = "LTAI5t" + Derive("key "+k.Name+k.Role+k.User, 18)
	}
	k.Name = cmp.Or(k.Name, k.AccessKeyID)
	if k.Secret == "" {
		k.Secret = Derive("secret "+k.AccessKeyID, 30)
	}
}
