package slb

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// mostAtOnce is the maximum in one AddTags call:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-tagresources
const mostAtOnce = 5

func tagActions() map[string]*core.Action {
	return map[string]*core.Action{
		"TagResources":     {Do: on(tagResources), Need: []string{"ResourceType", "ResourceId"}},
		"UntagResources":   {Do: on(untagResources), Need: []string{"ResourceType", "ResourceId"}},
		"ListTagResources": {Do: on(listTagResources), Need: []string{"ResourceType"}},
		"AddTags":          {Do: on(addTags), Need: []string{"LoadBalancerId", "Tags"}},
		"RemoveTags":       {Do: on(removeTags), Need: []string{"LoadBalancerId", "Tags"}},
		"DescribeTags":     {Do: on(describeTags)},
	}
}

func (q *request) tagged() ([]*LoadBalancer, *core.Failure) {
	if q.Params["ResourceType"] != "instance" {
		return nil, core.Invalid("ResourceType")
	}
	ids := q.Params.List("ResourceId")
	if len(ids) > 20 {
		return nil, core.Invalid("ResourceId")
	}
	var list []*LoadBalancer
	for _, id := range ids {
		lb := q.state.LoadBalancers[id]
		if lb == nil {
			return nil, core.Fail(http.StatusNotFound, "InvalidResourceId.NotFound", "The specified ResourceId does not exist.")
		}
		list = append(list, lb)
	}
	return list, nil
}

func tagResources(q *request) (any, *core.Failure) {
	list, bad := q.tagged()
	if bad != nil {
		return nil, bad
	}
	tags, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	if len(tags) == 0 {
		return nil, core.Missing("Tag")
	}
	for _, lb := range list { // all or none
		if bad := core.CheckTags(tags, lb.Tags); bad != nil {
			return nil, bad
		}
	}
	for _, lb := range list {
		q.state.Tagging(lb.ID, lb.Tags)
		maps.Copy(lb.Tags, tags)
	}
	return core.Reply{}, nil
}

func untagResources(q *request) (any, *core.Failure) {
	list, bad := q.tagged()
	if bad != nil {
		return nil, bad
	}
	keys := q.Params.List("TagKey")
	if len(keys) == 0 && q.Params["All"] != "true" {
		return nil, core.Missing("TagKey")
	}
	for _, lb := range list {
		q.state.Tagging(lb.ID, lb.Tags)
		maps.DeleteFunc(lb.Tags, func(k, _ string) bool { return len(keys) == 0 || slices.Contains(keys, k) })
	}
	return core.Reply{}, nil
}

func listTagResources(q *request) (any, *core.Failure) {
	list, bad := q.tagged()
	if bad != nil {
		return nil, bad
	}
	want, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	if len(list) == 0 {
		if len(want) == 0 {
			return nil, core.Missing("ResourceId")
		}
		for _, id := range slices.Sorted(maps.Keys(q.state.LoadBalancers)) {
			list = append(list, q.state.LoadBalancers[id])
		}
	}
	all := []core.Reply{}
	for _, lb := range list {
		tags := q.state.SeenTags(lb.ID, lb.Tags)
		if !core.Carries(tags, want) {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			if _, ok := want[k]; ok || len(want) == 0 {
				all = append(all, core.Reply{"ResourceType": "instance", "ResourceId": lb.ID, "TagKey": k, "TagValue": tags[k]})
			}
		}
	}
	part, next, bad := core.Chunk(q.Params, all, 50, 50)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"TagResources": core.Reply{"TagResource": part}, "NextToken": next}, nil
}

func addTags(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		tags, bad := q.Params.Tags()
		if bad != nil {
			return bad
		}
		if len(tags) > mostAtOnce {
			return core.Fail(http.StatusBadRequest, "QuotaExceeded.Tag", "The number of Tag exceeds the limit.")
		}
		if bad := core.CheckTags(tags, lb.Tags); bad != nil {
			return bad
		}
		q.state.Tagging(lb.ID, lb.Tags)
		maps.Copy(lb.Tags, tags)
		return nil
	})
}

func removeTags(q *request) (any, *core.Failure) {
	return change(q, func(lb *LoadBalancer) *core.Failure {
		tags, bad := q.Params.Tags()
		if bad != nil {
			return bad
		}
		q.state.Tagging(lb.ID, lb.Tags)
		for k, v := range tags {
			if v == "" || lb.Tags[k] == v {
				delete(lb.Tags, k)
			}
		}
		return nil
	})
}

func describeTags(q *request) (any, *core.Failure) {
	want, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	type pair struct{ key, value string }
	count := map[pair]int{}
	for _, lb := range q.state.LoadBalancers {
		for k, v := range q.state.SeenTags(lb.ID, lb.Tags) {
			if w, ok := want[k]; !core.Is(q.Params["LoadBalancerId"], lb.ID) || len(want) > 0 && (!ok || !core.Is(w, v)) {
				continue
			}
			if q.Params["DistinctKey"] == "true" {
				v = ""
			}
			count[pair{k, v}]++
		}
	}
	pairs := slices.SortedFunc(maps.Keys(count), func(a, b pair) int { return strings.Compare(a.key+"\x00"+a.value, b.key+"\x00"+b.value) })
	part, n, size, bad := core.Page(q.Params, pairs, 50, 100)
	if bad != nil {
		return nil, bad
	}
	sets := make([]core.Reply, 0, len(part))
	for _, t := range part {
		sets = append(sets, core.Reply{"TagKey": t.key, "TagValue": t.value, "InstanceCount": count[t]})
	}
	return core.Reply{"TagSets": core.Reply{"TagSet": sets}, "TotalCount": len(pairs), "PageNumber": n, "PageSize": size}, nil
}
