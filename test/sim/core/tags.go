package core

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// mostTags is the maximum number of a load balancer's tags:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-tagresources
const mostTags = 20

// CheckTags rejects tags that cannot be added to existing ones.
func CheckTags(more, have map[string]string) *Failure {
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range more {
		if k == "" || len(k) > 64 || strings.HasPrefix(k, "acs:") || strings.HasPrefix(k, "aliyun") || strings.Contains(k, "http://") {
			return Fail(http.StatusBadRequest, "InvalidParameter.TagKey", "The specified tag key is invalid.")
		}
		if len(v) > 128 {
			return Fail(http.StatusBadRequest, "InvalidParameter.TagValue", "The specified tag value is illegal.")
		}
		all[k] = v
	}
	if len(all) > mostTags {
		return Fail(http.StatusBadRequest, "QuotaExceed.TagsPerResource", "The maximum number of tags for each resource is exceeded.")
	}
	return nil
}

// Carries reports whether tags include all wanted ones; an empty value matches any.
func Carries(tags, want map[string]string) bool {
	for k, v := range want {
		if have, ok := tags[k]; !ok || v != "" && have != v {
			return false
		}
	}
	return true
}

// ShowTags returns tags in the usual form of answers, sorted.
func ShowTags(tags map[string]string) []Reply {
	list := make([]Reply, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, Reply{"TagKey": k, "TagValue": tags[k]})
	}
	return list
}
