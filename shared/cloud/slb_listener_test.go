package cloud_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestListenerWrites(t *testing.T) {
	for _, tt := range []struct {
		protocol    string
		set, create grant.Grant
		config      map[string]string
	}{
		{"tcp", grant.SetTCPListener, grant.CreateTCPListener, map[string]string{"EstablishedTimeout": "500", "HealthCheckType": "http", "AclStatus": "on",
			"AclType": "white", "AclId": "acl-1"}},
		{"udp", grant.SetUDPListener, grant.CreateUDPListener, map[string]string{"HealthCheckInterval": "3", "HealthCheckSwitch": "off",
			"HealthCheckReq": "ping", "HealthCheckExp": "pong"}},
		{"http", grant.SetHTTPListener, grant.CreateHTTPListener, map[string]string{"StickySession": "on", "StickySessionType": "server"}},
		{"https", grant.SetHTTPSListener, grant.CreateHTTPSListener, map[string]string{"ServerCertificateId": "cert-1", "TLSCipherPolicy": "tls_cipher_policy_1_2"}},
	} {
		t.Run(tt.protocol, func(t *testing.T) {
			s := sim.New(t, &sim.World{
				Certificates: []sim.Certificate{{ID: "cert-1", Domain: "example.com"}},
				ACLs:         []sim.ACL{{ID: "acl-1", Name: "office"}},
				LoadBalancers: []sim.LoadBalancer{{
					ID: "lb-1", VGroups: []sim.VGroup{{ID: "rsp-1", Name: "old"}, {ID: "rsp-2", Name: "new"}},
					Listeners: []sim.Listener{{Port: 80, Protocol: tt.protocol, VGroup: "rsp-1", Description: "k8s/80/web/shop/c1", Scheduler: "wlc", Bandwidth: 7,
						Config: tt.config}},
				}},
			})
			ctx := t.Context()
			reader, _ := both(t, s, s.Client("reader", "slb:Describe*"))
			one := func(actions ...string) *cloud.Writer { return writer(t, s, s.Client("one", actions...)) }
			port := cloud.ListenerPort{Port: 80, Protocol: tt.protocol}

			if err := one(tt.set.Action).SLB.SetListenerGroup(ctx, "lb-1", port, "rsp-2"); err != nil {
				t.Fatal(err)
			}
			was, err := reader.SLB.Listeners(ctx, "lb-1")
			if err != nil || len(was) != 1 || was[0].VServerGroup != "rsp-2" || was[0].Scheduler != "wlc" || was[0].Config["AclId"] != tt.config["AclId"] {
				t.Fatalf("got %+v, %v", was, err)
			}
			if err := one(grant.DeleteListener.Action).SLB.DeleteListener(ctx, "lb-1", port); err != nil {
				t.Fatal(err)
			}
			if left, err := reader.SLB.Listeners(ctx, "lb-1"); err != nil || len(left) != 0 {
				t.Fatalf("left are %+v, %v", left, err)
			}
			again := one(tt.create.Action, grant.StartListener.Action)
			if err := again.SLB.CreateListener(ctx, "lb-1", was[0]); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := again.SLB.StartListener(ctx, "lb-1", port); err != nil {
					t.Fatal(err)
				}
			}
			if now, err := reader.SLB.Listeners(ctx, "lb-1"); err != nil || cmp.Diff(was, now) != "" {
				t.Errorf("%v\n%s", err, cmp.Diff(was, now))
			}
			if err := again.SLB.CreateListener(ctx, "lb-1", was[0]); err == nil {
				t.Error("a listener was made on a port that is taken")
			}
			nobody := writer(t, s, s.Client("nobody"))
			for name, err := range map[string]error{
				"set": nobody.SLB.SetListenerGroup(ctx, "lb-1", port, "rsp-1"), "delete": nobody.SLB.DeleteListener(ctx, "lb-1", port),
				"create": nobody.SLB.CreateListener(ctx, "lb-1", was[0]), "start": nobody.SLB.StartListener(ctx, "lb-1", port),
			} {
				if !errors.Is(err, cloud.ErrDenied) {
					t.Errorf("%s without a grant: got %v, want ErrDenied", name, err)
				}
			}
			if err := again.SLB.DeleteListener(ctx, "lb-1", cloud.ListenerPort{Port: 80, Protocol: "sctp"}); err == nil {
				t.Error("a protocol that there isn't was sent")
			}
			if err := again.SLB.SetListenerGroup(ctx, "lb-1", port, ""); err == nil {
				t.Error("no group was sent")
			}
		})
	}
}

func TestReferences(t *testing.T) {
	ends := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	s := sim.New(t, &sim.World{
		Certificates: []sim.Certificate{{ID: "cert-2", Name: "old"}, {ID: "cert-1", Name: "shop", Domain: "shop.example.com", Names: []string{"www.example.com"},
			Expires: ends}},
		ACLs: []sim.ACL{{ID: "acl-2", Name: "office"}, {ID: "acl-1", IPVersion: "ipv6"}},
	})
	r, _ := both(t, s, s.Client("reader", grant.DescribeServerCertificates.Action, grant.DescribeAccessControlLists.Action))
	certificates, err := r.SLB.Certificates(t.Context())
	want := []cloud.Certificate{{ID: "cert-1", Domains: []string{"shop.example.com", "www.example.com"}, Expires: ends}, {ID: "cert-2"}}
	if d := cmp.Diff(want, certificates); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	lists, err := r.SLB.ACLs(t.Context())
	if d := cmp.Diff([]cloud.ACL{{ID: "acl-1", Name: "acl-1", IPVersion: "ipv6"}, {ID: "acl-2", Name: "office", IPVersion: "ipv4"}}, lists); d != "" ||
		err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestUnprotect(t *testing.T) {
	s := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}}, LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", DeleteProtection: true}},
		NLBs: []sim.NLB{{ID: "nlb-1", AddressType: "Intranet", DeletionProtection: true, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}}})
	clb := func(w *cloud.Writer, id string) error { return w.SLB.Unprotect(t.Context(), id) }
	network := func(w *cloud.Writer, id string) error { return w.NLB.Unprotect(t.Context(), id) }
	for id, tt := range map[string]struct {
		grant grant.Grant
		do    func(*cloud.Writer, string) error
		on    func() bool
	}{
		"lb-1":  {grant.ProtectSLB, clb, func() bool { return s.Snapshot().LoadBalancers[0].DeleteProtection }},
		"nlb-1": {grant.ProtectNLB, network, func() bool { return s.Snapshot().NLBs[0].DeletionProtection }},
	} {
		if err := tt.do(writer(t, s, s.Client("nobody")), id); !errors.Is(err, cloud.ErrDenied) || !tt.on() {
			t.Errorf("%s without a grant: got %v, want ErrDenied", id, err)
		}
		w := writer(t, s, s.Client("one", tt.grant.Action))
		if err := tt.do(w, ""); err == nil || errors.Is(err, cloud.ErrDenied) {
			t.Errorf("%s: of nothing was sent: %v", id, err)
		}
		if err := tt.do(w, "lb-nope"); !errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("%s: of one that is gone: got %v, want ErrNotFound", id, err)
		}
		for range 2 {
			if err := tt.do(w, id); err != nil || tt.on() {
				t.Errorf("%s: on %t, %v", id, tt.on(), err)
			}
		}
	}
}

// Protect turns on the deletion protection of an NLB and changes nothing else.
func TestProtect(t *testing.T) {
	s := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}},
		NLBs: []sim.NLB{{ID: "nlb-1", AddressType: "Intranet", Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}}})
	want := s.Snapshot().NLBs
	if err := writer(t, s, s.Client("nobody")).NLB.Protect(t.Context(), "nlb-1"); !errors.Is(err, cloud.ErrDenied) {
		t.Errorf("without a grant: got %v, want ErrDenied", err)
	}
	w := writer(t, s, s.Client("one", grant.ProtectNLB.Action))
	if err := w.NLB.Protect(t.Context(), ""); err == nil || errors.Is(err, cloud.ErrDenied) {
		t.Errorf("of nothing was sent: %v", err)
	}
	if err := w.NLB.Protect(t.Context(), "nlb-nope"); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("of one that is gone: got %v, want ErrNotFound", err)
	}
	want[0].DeletionProtection = true
	for range 2 {
		if err := w.NLB.Protect(t.Context(), "nlb-1"); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, s.Snapshot().NLBs); d != "" {
			t.Error(d)
		}
	}
}

func TestNetworkTags(t *testing.T) {
	s := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}},
		NLBs: []sim.NLB{{ID: "nlb-1", AddressType: "Intranet", Zones: []sim.NLBZone{{VSwitch: "vsw-1"}}}}})
	ctx := t.Context()
	one := func(action string) *cloud.Writer { return writer(t, s, s.Client("one", action)) }
	tags := func() map[string]string { return s.Snapshot().NLBs[0].Tags }
	for range 2 {
		if err := one(grant.TagNLB.Action).NLB.Tag(ctx, "nlb-1", "team", "ops"); err != nil || tags()["team"] != "ops" {
			t.Fatalf("got %v, %v", tags(), err)
		}
	}
	for range 2 {
		if err := one(grant.UntagNLB.Action).NLB.Untag(ctx, "nlb-1", "team"); err != nil || len(tags()) != 0 {
			t.Fatalf("got %v, %v", tags(), err)
		}
	}
	nobody := writer(t, s, s.Client("nobody"))
	for name, err := range map[string]error{"tag": nobody.NLB.Tag(ctx, "nlb-1", "k", "v"), "untag": nobody.NLB.Untag(ctx, "nlb-1", "k")} {
		if !errors.Is(err, cloud.ErrDenied) {
			t.Errorf("%s without a grant: got %v, want ErrDenied", name, err)
		}
	}
	for name, err := range map[string]error{"tag": nobody.NLB.Tag(ctx, "", "k", "v"), "untag": nobody.NLB.Untag(ctx, "nlb-1", "")} {
		if err == nil || errors.Is(err, cloud.ErrDenied) {
			t.Errorf("%s of nothing was sent: %v", name, err)
		}
	}
}
