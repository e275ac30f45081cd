package sim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// mostTags is how many tags a load balancer can have, and mostAtOnce how many
// AddTags takes in one call:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-tagresources
const (
	mostTags   = 20
	mostAtOnce = 5
)

func tagActions() map[string]*action {
	return map[string]*action{
		"TagResources":     {do: tagResources, need: []string{"ResourceType", "ResourceId"}},
		"UntagResources":   {do: untagResources, need: []string{"ResourceType", "ResourceId"}},
		"ListTagResources": {do: listTagResources, need: []string{"ResourceType"}},
		"AddTags":          {do: addTags, need: []string{"LoadBalancerId", "Tags"}},
		"RemoveTags":       {do: removeTags, need: []string{"LoadBalancerId", "Tags"}},
		"DescribeTags":     {do: describeTags},
	}
}

// checkTags refuses tags that cannot be added to those that are there.
func checkTags(more, have map[string]string) *failure {
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range more {
		if k == "" || len(k) > 64 || strings.HasPrefix(k, "acs:") || strings.HasPrefix(k, "aliyun") || strings.Contains(k, "http://") {
			return fail(http.StatusBadRequest, "InvalidParameter.TagKey", "The specified tag key is invalid.")
		}
		if len(v) > 128 {
			return fail(http.StatusBadRequest, "InvalidParameter.TagValue", "The specified tag value is illegal.")
		}
		all[k] = v
	}
	if len(all) > mostTags {
		return fail(http.StatusBadRequest, "QuotaExceed.TagsPerResource", "The maximum number of tags for each resource is exceeded.")
	}
	return nil
}

// tagged returns the load balancers that ResourceId names.
func (q *request) tagged() ([]*LoadBalancer, *failure) {
	if q.params["ResourceType"] != "instance" {
		return nil, invalid("ResourceType")
	}
	ids := q.params.list("ResourceId")
	if len(ids) > 20 {
		return nil, invalid("ResourceId")
	}
	var list []*LoadBalancer
	for _, id := range ids {
		lb := q.state.LoadBalancers[id]
		if lb == nil {
			return nil, fail(http.StatusNotFound, "InvalidResourceId.NotFound", "The specified ResourceId does not exist.")
		}
		list = append(list, lb)
	}
	return list, nil
}

func tagResources(q *request) (any, *failure) {
	list, bad := q.tagged()
	if bad != nil {
		return nil, bad
	}
	tags, bad := q.params.tags()
	if bad != nil {
		return nil, bad
	}
	if len(tags) == 0 {
		return nil, missing("Tag")
	}
	for _, lb := range list { // all of them, or none
		if bad := checkTags(tags, lb.Tags); bad != nil {
			return nil, bad
		}
	}
	for _, lb := range list {
		q.state.tagging(lb.ID, lb.Tags)
		maps.Copy(lb.Tags, tags)
	}
	return reply{}, nil
}

func untagResources(q *request) (any, *failure) {
	list, bad := q.tagged()
	if bad != nil {
		return nil, bad
	}
	keys := q.params.list("TagKey")
	if len(keys) == 0 && q.params["All"] != "true" {
		return nil, missing("TagKey")
	}
	for _, lb := range list {
		q.state.tagging(lb.ID, lb.Tags)
		maps.DeleteFunc(lb.Tags, func(k, _ string) bool { return len(keys) == 0 || slices.Contains(keys, k) })
	}
	return reply{}, nil
}

func listTagResources(q *request) (any, *failure) {
	list, bad := q.tagged()
	if bad != nil {
		return nil, bad
	}
	want, bad := q.params.tags()
	if bad != nil {
		return nil, bad
	}
	if len(list) == 0 {
		if len(want) == 0 {
			return nil, missing("ResourceId")
		}
		for _, id := range slices.Sorted(maps.Keys(q.state.LoadBalancers)) {
			list = append(list, q.state.LoadBalancers[id])
		}
	}
	all := []reply{}
	for _, lb := range list {
		tags := q.state.seenTags(lb.ID, lb.Tags)
		if !carries(tags, want) {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			if _, ok := want[k]; ok || len(want) == 0 {
				all = append(all, reply{"ResourceType": "instance", "ResourceId": lb.ID, "TagKey": k, "TagValue": tags[k]})
			}
		}
	}
	part, next, bad := chunk(q.params, all, 50, 50)
	if bad != nil {
		return nil, bad
	}
	return reply{"TagResources": reply{"TagResource": part}, "NextToken": next}, nil
}

func addTags(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		tags, bad := q.params.tags()
		if bad != nil {
			return bad
		}
		if len(tags) > mostAtOnce {
			return fail(http.StatusBadRequest, "QuotaExceeded.Tag", "The number of Tag exceeds the limit.")
		}
		if bad := checkTags(tags, lb.Tags); bad != nil {
			return bad
		}
		q.state.tagging(lb.ID, lb.Tags)
		maps.Copy(lb.Tags, tags)
		return nil
	})
}

func removeTags(q *request) (any, *failure) {
	return change(q, func(lb *LoadBalancer) *failure {
		tags, bad := q.params.tags()
		if bad != nil {
			return bad
		}
		q.state.tagging(lb.ID, lb.Tags)
		for k, v := range tags {
			if v == "" || lb.Tags[k] == v {
				delete(lb.Tags, k)
			}
		}
		return nil
	})
}

func describeTags(q *request) (any, *failure) {
	want, bad := q.params.tags()
	if bad != nil {
		return nil, bad
	}
	type pair struct{ key, value string }
	count := map[pair]int{}
	for _, lb := range q.state.LoadBalancers {
		for k, v := range q.state.seenTags(lb.ID, lb.Tags) {
			if w, ok := want[k]; !is(q.params["LoadBalancerId"], lb.ID) || len(want) > 0 && (!ok || !is(w, v)) {
				continue
			}
			if q.params["DistinctKey"] == "true" {
				v = ""
			}
			count[pair{k, v}]++
		}
	}
	pairs := slices.SortedFunc(maps.Keys(count), func(a, b pair) int { return strings.Compare(a.key+"\x00"+a.value, b.key+"\x00"+b.value) })
	part, n, size, bad := page(q.params, pairs, 50, 100)
	if bad != nil {
		return nil, bad
	}
	sets := make([]reply, 0, len(part))
	for _, t := range part {
		sets = append(sets, reply{"TagKey": t.key, "TagValue": t.value, "InstanceCount": count[t]})
	}
	return reply{"TagSets": reply{"TagSet": sets}, "TotalCount": len(pairs), "PageNumber": n, "PageSize": size}, nil
}
