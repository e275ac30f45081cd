package throttling

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

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
		return slices.ContainsFunc(ccm.Frequent(), func(api string) bool {
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
	return text.And("If the calls are needed, apply for a higher limit, for example: %s.",
		step.ApplyCommand(cloud.FlowControl, quotas[i], "calls of the cloud controller manager"))
}

// regionID is the dimension of limits that apply to one region.
const regionID = "regionId"

// words splits a text into names.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
}

// describe returns a clause about a limit.
func describe(q cloud.Quota) say.Text {
	text := say.F("%s: %s calls", q.Name, number(q.Total))
	switch q.Period {
	case 0:
	case time.Second:
		text = say.F("%s: %s calls per second", q.Name, number(q.Total))
	case time.Minute:
		text = say.F("%s: %s calls per minute", q.Name, number(q.Total))
	case time.Hour:
		text = say.F("%s: %s calls per hour", q.Name, number(q.Total))
	case 24 * time.Hour:
		text = say.F("%s: %s calls per day", q.Name, number(q.Total))
	default:
		text = say.F("%s: %s calls in %s", q.Name, number(q.Total), q.Period)
	}
	if q.Adjustable && q.Most > 0 {
		return text.And("(can be raised to %s)", number(q.Most))
	}
	return text
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
