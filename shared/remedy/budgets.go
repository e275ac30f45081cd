package remedy

import "cmp"

// Budgets bound how much is written, whatever the plans say. Zero values take the
// defaults.
type Budgets struct {
	Attempts int `json:"attempts,omitzero"` // tries to write on one Service and class in 24 h; 3
	Class    int `json:"class,omitzero"`    // Services written to for one class in 10 min; 5
	// Services written to in one cluster in an hour: this share of its LoadBalancer
	// Services, in percent, and at least Least. 20 % and 3.
	Share int `json:"share,omitzero"`
	Least int `json:"least,omitzero"`
}

const (
	defaultAttempts = 3
	defaultClass    = 5
	defaultShare    = 20
	defaultLeast    = 3
)

// Tries returns how many tries to write on one Service and class there are in 24 h.
func (b Budgets) Tries() int { return cmp.Or(b.Attempts, defaultAttempts) }

// OfClass returns to how many Services may be written for one class in 10 minutes.
func (b Budgets) OfClass() int { return cmp.Or(b.Class, defaultClass) }

// OfCluster returns to how many Services may be written in an hour where there are
// so many of type LoadBalancer.
func (b Budgets) OfCluster(services int) int {
	share := (services*cmp.Or(b.Share, defaultShare) + 99) / 100
	return max(share, cmp.Or(b.Least, defaultLeast))
}
