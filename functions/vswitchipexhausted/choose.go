package vswitchipexhausted

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// lag is how long to wait for the cloud's figures of free addresses to follow.
const lag = time.Minute

// order sorts candidates: the zone that the Service asked for, then most free
// addresses, then ID, so that the choice is the same each time.
func order(a, b cloud.VSwitch, zone string) int {
	return cmp.Or(
		-cmp.Compare(rank(a.Zone == zone), rank(b.Zone == zone)),
		-cmp.Compare(a.Free, b.Free),
		cmp.Compare(a.ID, b.ID),
	)
}

func rank(is bool) int {
	if is {
		return 1
	}
	return 0
}

func describe(v cloud.VSwitch) string {
	return fmt.Sprintf("%s in %s has %s", v.ID, v.Zone, addresses(v.Free))
}

func addresses(n int64) string {
	if n == 1 {
		return "1 free address"
	}
	return fmt.Sprintf("%d free addresses", n)
}
