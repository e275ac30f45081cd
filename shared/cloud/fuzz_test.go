package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

var reads = []func(context.Context, *Reader) error{
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.LoadBalancer(ctx, "lb-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.LoadBalancers(ctx, LBFilter{}); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.Tags(ctx, "lb-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.Listeners(ctx, "lb-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.VServerGroups(ctx, "lb-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.VServerGroup(ctx, "rsp-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.Certificates(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.ACLs(ctx); return err },
	func(ctx context.Context, r *Reader) error {
		_, err := r.SLB.Available(ctx, "intranet", "ipv4")
		return err
	},
	func(ctx context.Context, r *Reader) error { _, err := r.NLB.LoadBalancer(ctx, "nlb-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.NLB.Find(ctx, NLBFilter{}); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.NLB.Tags(ctx, "nlb-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.NLB.Listeners(ctx, "nlb-1"); return err },
	func(ctx context.Context, r *Reader) error {
		_, err := r.NLB.FurtherCertificates(ctx, "lsn-1")
		return err
	},
	func(ctx context.Context, r *Reader) error { _, err := r.SLB.Domains(ctx, "lb-1", 443); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.NLB.ServerGroups(ctx, "k", "v"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.NLB.Servers(ctx, "sgp-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.VPC.VSwitches(ctx, "vpc-1"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.VPC.EIPs(ctx, "1.2.3.4"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.VPC.Blocks(ctx, "vpc-1"); return err },
	func(ctx context.Context, r *Reader) error {
		_, err := r.ECS.Interfaces(ctx, "vpc-1", []string{"10.0.0.1"})
		return err
	},
	func(ctx context.Context, r *Reader) error {
		_, err := r.ECS.Instances(ctx, []string{"i-1"})
		return err
	},
	func(ctx context.Context, r *Reader) error { _, err := r.CS.Cluster(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.CS.NodePools(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.CS.Addons(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.CS.AddonConfig(ctx, "ccm"); return err },
	func(ctx context.Context, r *Reader) error {
		_, err := r.CS.DeleteProtection(ctx, "shop", []string{"web"})
		return err
	},
	func(ctx context.Context, r *Reader) error { _, err := r.CS.MasterRole(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.RAM.RolePolicies(ctx, "role"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.RAM.Policy(ctx, "p", "Custom"); return err },
	func(ctx context.Context, r *Reader) error {
		_, err := r.RAM.PolicyVersions(ctx, "p", "Custom")
		return err
	},
	func(ctx context.Context, r *Reader) error {
		_, err := r.RAM.PolicyRoles(ctx, "p", "Custom")
		return err
	},
	func(ctx context.Context, r *Reader) error { _, err := r.STS.Identity(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.Quotas.List(ctx, "slb", "", "k"); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.Quotas.Named(ctx, "slb", "n"); return err },
	func(ctx context.Context, r *Reader) error {
		_, err := r.Quotas.Applications(ctx, "slb", "c")
		return err
	},
	func(ctx context.Context, r *Reader) error { _, err := r.Billing.Balance(ctx); return err },
	func(ctx context.Context, r *Reader) error { _, err := r.Tickets.Find(ctx, "k"); return err },
}

// FuzzAnswers answers every read with any text: the read ends, and invalid or truncated JSON is an error, never an empty answer.
func FuzzAnswers(f *testing.F) {
	for i, body := range []string{
		`{"LoadBalancerId":"lb-1","RequestId":"R","Address":"10.0.0.1","ListenerPortsAndProtocol":{"ListenerPortAndProtocol":[{"ListenerPort":80,` +
			`"ListenerProtocol":"tcp"}]}}`,
		`{"LoadBalancers":{"LoadBalancer":[{"LoadBalancerId":"lb-1"}]},"TotalCount":2,"PageNumber":1,"PageSize":1}`,
		`{"TagResources":{"TagResource":[{"ResourceId":"lb-1","TagKey":"a","TagValue":"b"}]},"NextToken":"x"}`,
		`{"Listeners":[{"LoadBalancerId":"lb-1","ListenerPort":80,"ListenerProtocol":"tcp"}],"NextToken":"again"}`,
		`{"VServerGroups":{"VServerGroup":[{"VServerGroupId":"rsp-1"}]}}`, `{"VServerGroupId":"rsp-1","BackendServers":{"BackendServer":[]}}`,
		`{"VSwitches":{"VSwitch":[{"VSwitchId":"vsw-1","AvailableIpAddressCount":"3"}]},"TotalCount":-1}`,
		`{"AvailableAmount":"1,234.56"}`, `{"Code":"Throttling","Message":"no"}`, `null`, `[]`, `{}`, ``, `"text"`, `{"Listeners":`,
	} {
		f.Add(uint8(i), 200, body)
		f.Add(uint8(i), 400, body)
	}
	type reply struct {
		status int
		body   string
	}
	var now atomic.Pointer[reply]
	c := wire(f, func(w http.ResponseWriter, _ *http.Request) {
		r := now.Load()
		w.WriteHeader(r.status)
		_, _ = w.Write([]byte(r.body))
	}).Reader
	f.Fuzz(func(t *testing.T, which uint8, status int, body string) {
		if status < 200 || status > 599 || status == http.StatusNoContent || status == http.StatusNotModified || status == http.StatusResetContent {
			status = 200
		}
		now.Store(&reply{status, body})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := reads[int(which)%len(reads)](ctx, c)
		if ctx.Err() != nil {
			t.Fatalf("it does not end: %v", err)
		}
		if err == nil && (!json.Valid([]byte(body)) || status > 299) {
			t.Errorf("status %d with %q is no error", status, body)
		}
	})
}
