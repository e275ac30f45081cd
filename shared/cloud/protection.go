package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// Unprotect turns off the deletion protection of a load balancer. It may be repeated. It needs grant.ProtectSLB.
func (w SLBWriter) Unprotect(ctx context.Context, id string) error {
	r := slb.CreateSetLoadBalancerDeleteProtectionRequest()
	r.LoadBalancerId, r.DeleteProtection = id, "off"
	return w.c.change(ctx, needs{{"load balancer ID", id}}, id, []string{"InvalidLoadBalancerId.NotFound"}, r)
}

// Protect turns on the deletion protection of an NLB. It may be repeated. It needs grant.ProtectNLB.
func (w NLBWriter) Protect(ctx context.Context, id string) error { return w.protect(ctx, id, true) }

// Unprotect turns off the deletion protection of an NLB. It may be repeated. It needs grant.ProtectNLB.
func (w NLBWriter) Unprotect(ctx context.Context, id string) error { return w.protect(ctx, id, false) }

func (w NLBWriter) protect(ctx context.Context, id string, on bool) error {
	r := nlb.CreateUpdateLoadBalancerProtectionRequest()
	r.LoadBalancerId, r.DeletionProtectionEnabled = id, requests.NewBoolean(on)
	return w.c.change(ctx, needs{{"load balancer ID", id}}, id, nlbGone, r)
}
