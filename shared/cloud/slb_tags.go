package cloud

import (
	"context"
	"errors"
	"slices"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// taggedAtOnce is how many IDs ListTagResources accepts:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-listtagresources
const taggedAtOnce = 20

// TagsOf returns the tags of existing load balancers by ID, perhaps an empty map each. It needs grant.ListSLBTags.
func (s SLB) TagsOf(ctx context.Context, ids []string) (map[string]map[string]string, error) {
	if len(ids) == 0 || slices.Contains(ids, "") {
		return nil, absent("slb", "ListTagResources", "list of load balancers, or one of them,")
	}
	out := map[string]map[string]string{}
	for part := range slices.Chunk(ids, taggedAtOnce) {
		list, err := s.tagsOf(ctx, part)
		if errors.Is(err, ErrNotFound) { // one of them is missing, and the API does not say which
			for _, id := range part {
				tags, err := s.Tags(ctx, id)
				switch {
				case err == nil:
					out[id] = tags
				case !errors.Is(err, ErrNotFound):
					return nil, err
				}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, id := range part {
			out[id] = map[string]string{}
		}
		for _, t := range list {
			out[string(t.ResourceID)][string(t.TagKey)] = string(t.TagValue)
		}
	}
	return out, nil
}

func (s SLB) tagsOf(ctx context.Context, ids []string) ([]wireTag, error) {
	type answer struct {
		NextToken    text
		TagResources *struct{ TagResource []wireTag }
	}
	return chained("slb", "ListTagResources", pages(ctx, s.c, listing[string, answer, wireTag]{
		request: func(token string) requests.AcsRequest {
			r := slb.CreateListTagResourcesRequest()
			r.ResourceType = "instance"
			r.ResourceId = new(slices.Clone(ids))
			r.NextToken = token
			return r
		},
		page: func(a answer) (p pageOf[wireTag], err error) {
			if a.TagResources == nil {
				return p, lack("TagResources")
			}
			return pageOf[wireTag]{items: a.TagResources.TagResource, next: string(a.NextToken)}, nil
		},
		check: func(t wireTag) error {
			if t.TagKey == "" || !slices.Contains(ids, string(t.ResourceID)) {
				return lack("a tag of a load balancer that was asked for: it is about %q", t.ResourceID)
			}
			return nil
		},
		gone: tagsGone,
	}))
}
