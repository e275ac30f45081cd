package remedy

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Budgets limit writes, whatever the plans say.
type Budgets struct {
	Attempts int   `json:"attempts,omitzero"` // attempts to write on one Service and class in 24 h; default 3
	Class    int   `json:"class,omitzero"`    // Services written to for one class in 10 min; default 5
	Share    Share `json:"share,omitzero"`    // share of a cluster's LoadBalancer Services written to in an hour; default 20%
	Least    int   `json:"least,omitzero"`    // Services that may be written to in an hour, however few there are; default 3
}

// A Share is a percentage, in a file 20%.
type Share int

// ReadText reads the share from a text such as 20%.
func (s *Share) ReadText(text string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil || !strings.HasSuffix(text, "%") || n < 1 || n > 100 {
		return fmt.Errorf("%q is not a share from 1%% to 100%%", text)
	}
	*s = Share(n)
	return nil
}

// String returns the share as it is in a file.
func (s Share) String() string { return strconv.Itoa(int(s)) + "%" }

// Full returns the budgets with defaults for missing values.
func (b Budgets) Full() Budgets {
	return Budgets{b.Tries(), b.OfClass(), cmp.Or(b.Share, defaultShare), cmp.Or(b.Least, defaultLeast)}
}

const (
	defaultAttempts = 3
	defaultClass    = 5
	defaultShare    = 20
	defaultLeast    = 3
)

// Tries returns how many attempts to write on one Service and class are allowed in 24 h.
func (b Budgets) Tries() int { return cmp.Or(b.Attempts, defaultAttempts) }

// OfClass returns how many Services may be written to for one class in 10 minutes.
func (b Budgets) OfClass() int { return cmp.Or(b.Class, defaultClass) }

// OfCluster returns how many of a cluster's LoadBalancer Services may be written to in an hour.
func (b Budgets) OfCluster(services int) int {
	share := (services*int(cmp.Or(b.Share, defaultShare)) + 99) / 100
	return max(share, cmp.Or(b.Least, defaultLeast))
}
