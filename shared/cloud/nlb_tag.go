package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
)

// NLBWriter writes to network load balancers.
type NLBWriter struct{ c *client }

// Tag sets a tag of an NLB. It may be repeated. It needs grant.TagNLB.
func (w NLBWriter) Tag(ctx context.Context, id, key, value string) error {
	r := nlb.CreateTagResourcesRequest()
	r.ResourceType = "loadbalancer"
	r.ResourceId = &[]string{id}
	r.Tag = &[]nlb.TagResourcesTag{{Key: key, Value: value}}
	return w.c.change(ctx, needs{{"load balancer ID", id}, {"key of the tag", key}}, id, nlbGone, r)
}

// Untag removes the tag with this key, whatever its value, from an NLB. It may be repeated: a missing tag is not an error. It needs grant.UntagNLB.
func (w NLBWriter) Untag(ctx context.Context, id, key string) error {
	r := nlb.CreateUntagResourcesRequest()
	r.ResourceType = "loadbalancer"
	r.ResourceId = &[]string{id}
	r.TagKey = &[]string{key}
	return w.c.change(ctx, needs{{"load balancer ID", id}, {"key of the tag", key}}, id, nlbGone, r)
}
