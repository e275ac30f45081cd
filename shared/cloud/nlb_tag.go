package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
)

// NLBWriter writes to network load balancers.
type NLBWriter struct{ c *client }

// Tag gives the NLB with this ID a tag, or the tag another value. It may be made
// again.
//
// It needs grant.TagNLB.
func (w NLBWriter) Tag(ctx context.Context, id, key, value string) error {
	if id == "" || key == "" {
		return absent("nlb", "TagResources", "load balancer ID or the tag's key")
	}
	r := nlb.CreateTagResourcesRequest()
	r.ResourceType = "loadbalancer"
	r.ResourceId = &[]string{id}
	r.Tag = &[]nlb.TagResourcesTag{{Key: key, Value: value}}
	return w.c.change(ctx, id, nlbGone, r)
}

// Untag takes the tag with this key off the NLB with this ID, whatever value it
// has. It may be made again: a tag that is not there is no error.
//
// It needs grant.UntagNLB.
func (w NLBWriter) Untag(ctx context.Context, id, key string) error {
	if id == "" || key == "" {
		return absent("nlb", "UntagResources", "load balancer ID or the tag's key")
	}
	r := nlb.CreateUntagResourcesRequest()
	r.ResourceType = "loadbalancer"
	r.ResourceId = &[]string{id}
	r.TagKey = &[]string{key}
	return w.c.change(ctx, id, nlbGone, r)
}
