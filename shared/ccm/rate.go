package ccm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ProductName returns the name of a product by the code that ProductOf returns.
func ProductName(code string) string {
	return map[string]string{"slb": "CLB", "nlb": "NLB", "ecs": "ECS", "vpc": "VPC"}[code]
}

// RateLimits returns the account's rate limits on a product's calls in the region, the tightest first: those of the APIs that the controller
// calls most, or all if no name shows which these are. It needs ListProductQuotas.
func (c *View) RateLimits(ctx context.Context, product string) ([]cloud.Quota, error) {
	quotas, err := c.Cloud.Quotas.List(ctx, product, cloud.FlowControl, "")
	if err != nil {
		return nil, fmt.Errorf("list the rate limits of %s: %w", product, err)
	}
	quotas = slices.DeleteFunc(quotas, func(q cloud.Quota) bool {
		of := q.Dimensions["regionId"]
		return of != "" && of != c.Cloud.Region()
	})
	if slices.ContainsFunc(quotas, called) {
		quotas = slices.DeleteFunc(quotas, func(q cloud.Quota) bool { return !called(q) })
	}
	slices.SortStableFunc(quotas, func(a, b cloud.Quota) int { return cmp.Compare(a.Total, b.Total) })
	return quotas, nil
}

func called(q cloud.Quota) bool {
	return slices.ContainsFunc(frequent, func(api string) bool {
		return slices.Contains(identifiers(q.Name), api) || slices.Contains(identifiers(q.Description), api)
	})
}

func identifiers(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
}

// DescribeRates lists up to 5 rate limits, with their periods.
func DescribeRates(limits []cloud.Quota) say.Text {
	var list []say.Text
	for _, q := range limits {
		list = append(list, describeRate(q))
	}
	return say.Clauses(list, 5)
}

func describeRate(q cloud.Quota) say.Text {
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
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
