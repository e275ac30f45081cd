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
	"github.com/lbremedy/lbremedy/shared/say"
)

// frequent are the APIs that the controller calls in every sync
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/provider/alibaba).
var frequent = []string{
	"DescribeLoadBalancers", "DescribeLoadBalancerAttribute", "DescribeLoadBalancerListeners", "DescribeVServerGroups", "DescribeVServerGroupAttribute",
	"AddVServerGroupBackendServers", "RemoveVServerGroupBackendServers", "ListTagResources",
	"ListLoadBalancers", "GetLoadBalancerAttribute", "ListListeners", "ListServerGroups", "ListServerGroupServers", "AddServersToServerGroup",
	"DescribeNetworkInterfaces", "DescribeVpcAttribute", "DescribeVSwitches", "DescribeEipAddresses",
}

// limits says which rate limits the account has in the region and how to raise one. It lists the
// limits of the APIs that the controller calls most, or all limits if no name shows which those are,
// the tightest first.
func limits(product, region string, quotas []cloud.Quota) say.Text {
	quotas = slices.DeleteFunc(slices.Clone(quotas), func(q cloud.Quota) bool {
		of := q.Dimensions[regionID]
		return of != "" && of != region
	})
	if len(quotas) == 0 {
		return say.F("The quota center lists no rate limits of %s; ask Alibaba Cloud for a higher limit.", names[product])
	}
	called := func(q cloud.Quota) bool {
		return slices.ContainsFunc(frequent, func(api string) bool {
			return slices.Contains(words(q.Name), api) || slices.Contains(words(q.Description), api)
		})
	}
	if slices.ContainsFunc(quotas, called) {
		quotas = slices.DeleteFunc(quotas, func(q cloud.Quota) bool { return !called(q) })
	}
	slices.SortStableFunc(quotas, func(a, b cloud.Quota) int { return cmp.Compare(a.Total, b.Total) })
	var list []say.Text
	for _, q := range quotas {
		list = append(list, describe(q))
	}
	text := say.F("The account has these rate limits of %s: %s.", names[product], say.Clauses(list, 5))
	i := slices.IndexFunc(quotas, func(q cloud.Quota) bool { return q.Adjustable })
	if i < 0 {
		return text.And("None of them can be raised by an application.")
	}
	return text.And("If the calls are needed, apply for a higher limit, for example: %s.", application(product, quotas[i]))
}

// application returns the command that applies for a higher limit.
func application(product string, q cloud.Quota) string {
	return fmt.Sprintf("aliyun quotas CreateQuotaApplication --ProductCode %s --QuotaCategory %s --QuotaActionCode %s%s --DesireValue %s"+
		" --Reason 'calls of the cloud controller manager'", product, cloud.FlowControl, q.Code, dimensions(q), number(desired(q)))
}

// regionID is the dimension of limits that apply to one region.
const regionID = "regionId"

// dimensions returns the parameters that tell apart several limits with the same code.
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

// describe returns a clause about a limit.
func describe(q cloud.Quota) say.Text {
	text := say.F("%s: %s calls", q.Name, number(q.Total))
	switch {
	case q.Period == time.Second:
		text = say.F("%s: %s calls per second", q.Name, number(q.Total))
	case q.Period == time.Minute:
		text = say.F("%s: %s calls per minute", q.Name, number(q.Total))
	case q.Period == time.Hour:
		text = say.F("%s: %s calls per hour", q.Name, number(q.Total))
	case q.Period == 24*time.Hour:
		text = say.F("%s: %s calls per day", q.Name, number(q.Total))
	case q.Period > 0:
		text = say.F("%s: %s calls in %s", q.Name, number(q.Total), q.Period)
	}
	if q.Adjustable && q.Most > 0 {
		return text.And("(can be raised to %s)", number(q.Most))
	}
	return text
}

// desired returns twice the limit, or the nearest value that can be applied for.
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
