package quota

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// The names of the limits that can be counted:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/quotas
// and https://www.alibabacloud.com/help/en/slb/network-load-balancer/product-overview/limits
const (
	balancers        = "slb_quota_instances_num"
	listeners        = "slb_quota_listeners_num"
	networkBalancers = "nlb_quota_loadbalancers_num"
	networkListeners = "nlb_quota_loadbalancer_listeners_num"
)

// A hint is what a message says about a limit. It tells where to look, and is never written.
type hint struct {
	product string // of the quota center
	name    string // of the limit; empty: the message names none
}

// named finds the limit that an NLB's message names: "The quota of X is exceeded, usage 50/50".
var named = regexp.MustCompile(`(?i)the quota of ([A-Za-z0-9_.-]{1,80}) is exceeded`)

// hints are what messages say about limits without naming them, and their names for CLBs and NLBs.
var hints = []struct{ text, clb, nlb string }{
	{"maximum number of listeners is exceeded", listeners, networkListeners},
	{"code: listenernumberoverlimit", listeners, networkListeners},
	{"instance num exceeded quota", balancers, networkBalancers},
	{"maximum number of slb instances is exceeded", balancers, networkBalancers},
	{"order quota exceeded", balancers, networkBalancers},
	{"code: order.quantity_invalid", balancers, networkBalancers},
}

// read reads what a message says about a limit.
func read(message string, nlb bool) hint {
	h := hint{product: "slb"}
	if nlb {
		h.product = "nlb"
	}
	message = strings.Join(strings.Fields(message), " ")
	if m := named.FindStringSubmatch(message); m != nil {
		h.name = m[1]
		for _, product := range []string{"slb", "nlb", "vpc"} {
			if strings.HasPrefix(h.name, product+"_") {
				h.product = product
			}
		}
		return h
	}
	message = strings.ToLower(message)
	for _, t := range hints {
		if strings.Contains(message, t.text) {
			h.name = t.clb
			if nlb {
				h.name = t.nlb
			}
			return h
		}
	}
	return h
}

// fits reports whether a limit is the one that the message names in another form: by its code, or
// without the product.
func (h hint) fits(q cloud.Quota) bool {
	return h.name != "" && (strings.EqualFold(q.Code, h.name) || q.Name == h.product+"_quota_"+h.name)
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
