package throttling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// frequent are the APIs that the controller calls in each sync
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/provider/alibaba).
var frequent = []string{
	"DescribeLoadBalancers", "DescribeLoadBalancerAttribute", "DescribeLoadBalancerListeners", "DescribeVServerGroups", "DescribeVServerGroupAttribute",
	"AddVServerGroupBackendServers", "RemoveVServerGroupBackendServers", "ListTagResources",
	"ListLoadBalancers", "GetLoadBalancerAttribute", "ListListeners", "ListServerGroups", "ListServerGroupServers", "AddServersToServerGroup",
	"DescribeNetworkInterfaces", "DescribeVpcAttribute", "DescribeVSwitches", "DescribeEipAddresses",
}

// limits names, in sentences, the rate limits of the account and how to raise one:
// those of the APIs that the controller calls most, if known, the tightest first.
// Those of other regions don't count.
func limits(product, region string, quotas []cloud.Quota) string {
	quotas = slices.DeleteFunc(slices.Clone(quotas), func(q cloud.Quota) bool {
		of := q.Dimensions[regionID]
		return of != "" && of != region
	})
	if len(quotas) == 0 {
		return fmt.Sprintf("The quota center lists no rate limits of %s; ask Alibaba Cloud for a higher one.", names[product])
	}
	called := func(q cloud.Quota) bool {
		return slices.ContainsFunc(frequent, func(api string) bool {
			return slices.Contains(words(q.Name), api) || slices.Contains(words(q.Description), api)
		})
	}
	some := slices.Clone(quotas)
	if slices.ContainsFunc(some, called) {
		some = slices.DeleteFunc(some, func(q cloud.Quota) bool { return !called(q) })
	}
	slices.SortStableFunc(some, func(a, b cloud.Quota) int { return cmp.Compare(a.Total, b.Total) })
	var list []string
	for _, q := range some {
		list = append(list, describe(q))
	}
	text := fmt.Sprintf("The account's rate limits of %s: %s.", names[product], remedy.List(list, 5))
	i := slices.IndexFunc(some, func(q cloud.Quota) bool { return q.Adjustable })
	if i < 0 {
		return text + " None of them can be raised by an application."
	}
	return text + fmt.Sprintf(" If the calls are needed, apply for more, such as: aliyun quotas CreateQuotaApplication --ProductCode %s --QuotaCategory %s --QuotaActionCode %s%s --DesireValue %s --Reason 'calls of the cloud controller manager'.",
		product, cloud.FlowControl, some[i].Code, dimensions(some[i]), number(desired(some[i])))
}

// regionID is the dimension of limits that each region has.
const regionID = "regionId"

// dimensions returns the parameters by which an application says which of several
// limits of one code it is about.
func dimensions(q cloud.Quota) string {
	text := ""
	for i, key := range slices.Sorted(maps.Keys(q.Dimensions)) {
		text += fmt.Sprintf(" --Dimensions.%[1]d.Key %[2]s --Dimensions.%[1]d.Value %[3]s", i+1, key, q.Dimensions[key])
	}
	return text
}

// words splits a text into names.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
}

func describe(q cloud.Quota) string {
	text := fmt.Sprintf("%s %s calls", q.Name, number(q.Total))
	if q.Period > 0 {
		text += " " + period(q.Period)
	}
	if q.Adjustable && q.Most > 0 {
		text += fmt.Sprintf(" (up to %s can be applied for)", number(q.Most))
	}
	return text
}

func period(d time.Duration) string {
	switch d {
	case time.Second:
		return "a second"
	case time.Minute:
		return "a minute"
	case time.Hour:
		return "an hour"
	case 24 * time.Hour:
		return "a day"
	}
	return "in " + d.String()
}

// desired returns twice what there is, as far as it can be applied for.
func desired(q cloud.Quota) float64 {
	want := max(2*q.Total, q.Least)
	if q.Most > 0 {
		want = min(want, q.Most)
	}
	steps := slices.Sorted(slices.Values(q.Steps))
	if i := slices.IndexFunc(steps, func(n float64) bool { return n >= want }); i >= 0 {
		want = steps[i]
	}
	return want
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
