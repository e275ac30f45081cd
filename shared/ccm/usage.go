package ccm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// More limits, which only the quota center counts.
var (
	LimitCerts = Limit{Name: "slb_quota_certs_num"}
	LimitACLs  = Limit{Name: "slb_quota_acls_num"}
)

// A Hint is what a message says about a limit. It says where to look, and is never written anywhere.
type Hint struct {
	Product string // of the quota center
	Name    string // of the limit; empty if the message names none
}

// exceeded matches the limit that an NLB's message names: "The quota of X is exceeded, usage 50/50".
var exceeded = regex.New(`(?i)the quota of ([A-Za-z0-9_.-]{1,80}) is exceeded`)

// hints lists what messages say about limits without naming them, and the limits of CLBs and NLBs.
var hints = []struct{ text, clb, nlb string }{
	{"maximum number of listeners is exceeded", LimitListeners.Name, LimitNLBListeners.Name},
	{"code: listenernumberoverlimit", LimitListeners.Name, LimitNLBListeners.Name},
	{"instance num exceeded quota", LimitCLBs.Name, LimitNLBs.Name},
	{"maximum number of slb instances is exceeded", LimitCLBs.Name, LimitNLBs.Name},
	{"order quota exceeded", LimitCLBs.Name, LimitNLBs.Name},
	{"code: order.quantity_invalid", LimitCLBs.Name, LimitNLBs.Name},
}

// HintOf reads what a message about a Service with an NLB (network) or a CLB says about a limit.
func HintOf(message string, network bool) Hint {
	h := Hint{Product: "slb"}
	if network {
		h.Product = "nlb"
	}
	message = strings.Join(strings.Fields(message), " ")
	if m := exceeded().FindStringSubmatch(message); m != nil {
		h.Name = m[1]
		for _, product := range []string{"slb", "nlb", "vpc"} {
			if strings.HasPrefix(h.Name, product+"_") {
				h.Product = product
			}
		}
		return h
	}
	message = strings.ToLower(message)
	for _, t := range hints {
		if strings.Contains(message, t.text) {
			h.Name = t.clb
			if network {
				h.Name = t.nlb
			}
			return h
		}
	}
	return h
}

// Fits reports whether the message names the limit in another form: by its code, or without the product.
func (h Hint) Fits(q cloud.Quota) bool {
	return h.Name != "" && (strings.EqualFold(q.Code, h.Name) || q.Name == h.Product+"_quota_"+h.Name)
}

// A Tally counts the taken places of a load balancer, such as listeners or backends, by their creators according to the names.
type Tally struct {
	Own    int            // by the controller, for the Service itself
	Others map[string]int // by the controller, for other Services, by "namespace/name"
	Manual int            // by a person
}

// Add counts places taken under this name, for the Service of the cluster or another.
func (t *Tally) Add(name string, places int, svc *corev1.Service, cluster string) {
	switch trace, ok := ParseTrace(name); {
	case places == 0:
	case !ok:
		t.Manual += places
	case trace.Of(svc, cluster):
		t.Own += places
	default:
		if t.Others == nil {
			t.Others = map[string]int{}
		}
		t.Others[trace.String()] += places
	}
}

// Total returns how many places are taken.
func (t *Tally) Total() int {
	n := t.Own + t.Manual
	for _, places := range t.Others {
		n += places
	}
	return n
}

// Services returns how many places the controller has taken for each Service, by "namespace/name", including the Service itself.
func (t *Tally) Services(svc *corev1.Service) map[string]int {
	by := map[string]int{}
	maps.Copy(by, t.Others)
	if t.Own > 0 {
		by[svc.Namespace+"/"+svc.Name] += t.Own
	}
	return by
}

// Unlistened returns the ports of the Service without a listener on their number or annotated range. Only UDP shares a number with another protocol.
func Unlistened(svc *corev1.Service, listeners []Listener) []corev1.ServicePort {
	return slices.DeleteFunc(slices.Clone(svc.Spec.Ports), func(p corev1.ServicePort) bool {
		protocol, span, _ := strings.Cut(networkKey(svc, p), ":")
		first, last := ends(span)
		if first == 0 && last == 0 {
			first, last = int(p.Port), int(p.Port)
		}
		return slices.ContainsFunc(listeners, func(l Listener) bool {
			return first <= l.Last && l.Port <= last && strings.EqualFold(protocol, "udp") == strings.EqualFold(l.Protocol, "udp")
		})
	})
}

// A Census counts the load balancers of one kind that the account has in the region.
type Census struct {
	All       int
	Here      int // created by a controller for this cluster
	Elsewhere int // created by a controller for others
}

// Census counts NLBs (network) or CLBs. It needs ListNLBs, or DescribeLoadBalancers.
func (c *View) Census(ctx context.Context, network bool) (Census, error) {
	var n Census
	add := func(tags map[string]string) {
		n.All++
		switch tags[ClusterTag] {
		case "":
		case c.Cluster:
			n.Here++
		default:
			n.Elsewhere++
		}
	}
	if network {
		all, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{})
		if err != nil {
			return n, fmt.Errorf("list NLBs: %w", err)
		}
		for _, lb := range all {
			add(lb.Tags)
		}
		return n, nil
	}
	all, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{})
	if err != nil {
		return n, fmt.Errorf("list load balancers: %w", err)
	}
	for _, lb := range all {
		add(lb.Tags)
	}
	return n, nil
}
