package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func dial(t testing.TB, s *sim.Cloud, k sim.Credentials, change ...func(*cloud.Config)) *cloud.Reader {
	t.Helper()
	reads, _ := both(t, s, k, change...)
	return reads
}

func writer(t testing.TB, s *sim.Cloud, k sim.Credentials) *cloud.Writer {
	t.Helper()
	_, writes := both(t, s, k)
	return writes
}

func both(t testing.TB, s *sim.Cloud, k sim.Credentials, change ...func(*cloud.Config)) (*cloud.Reader, *cloud.Writer) {
	t.Helper()
	c := cloud.Config{
		Region:      s.Region(),
		ClusterID:   s.Snapshot().Cluster.ID,
		Endpoint:    s.Addr(),
		Scheme:      "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: k.AccessKeyID, Secret: k.Secret, Token: k.Token}),
	}
	for _, f := range change {
		f(&c)
	}
	reads, writes, err := cloud.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reads.Close)
	if reads.Region() != s.Region() {
		t.Errorf("got region %s", reads.Region())
	}
	return reads, writes
}

func world() *sim.World {
	return &sim.World{
		VSwitches: []sim.VSwitch{
			{ID: "vsw-a", Name: "nodes", Free: new(0), CIDR: "10.0.0.0/24"},
			{ID: "vsw-b", Zone: "cn-hangzhou-i", Free: new(41), CIDR: "10.0.1.0/24", IPv6: "2408:1::/64"},
			{ID: "vsw-pod", Zone: "cn-hangzhou-i", Free: new(7), CIDR: "10.0.2.0/24"},
		},
		Cluster: sim.Cluster{
			ID: "c0123456789", Name: "shop", Type: "Kubernetes", Version: "1.36.3-aliyun.1", Network: "terway-eniip",
			VSwitches: []string{"vsw-b", "vsw-a"}, PodVSwitches: []string{"vsw-pod"}, MasterRole: "KubernetesMasterRole-x", WorkerRole: "KubernetesWorkerRole-x",
			NodePools: []sim.NodePool{{ID: "np-1", Name: "default-nodepool", Default: true, VSwitches: []string{"vsw-a"}}},
			Addons:    map[string]string{"cloud-controller-manager": "v2.12.1", "terway-eniip": "v1.15.0"},

			AddonConfig: map[string]string{"terway-eniip": `{"IPVlan":"true"}`}, Protected: []string{"prod", "prod/web"},
		},
		LoadBalancers: []sim.LoadBalancer{{
			ID: "lb-1", Name: "web", Address: "10.0.1.9", VSwitch: "vsw-b", SlaveZone: "cn-hangzhou-h", Spec: "slb.s1.small", Bandwidth: 5, ResourceGroup: "rg-1",
			DeleteProtection:       true,
			Tags:                   map[string]string{"kubernetes.do.not.delete": "a1", "ack.aliyun.com": "c0123456789"},
			ModificationProtection: sim.Protection{Status: "ConsoleProtection", Reason: "managed.by.ack"},
			Listeners: []sim.Listener{
				{Port: 443, VGroup: "rsp-1", Description: "k8s/443/web/shop/c0123456789", Scheduler: "wrr", Bandwidth: -1,
					Config: map[string]string{"HealthCheckInterval": "2", "HealthCheck": "on"}},
				{Port: 53, Protocol: "udp", VGroup: "rsp-1", Scheduler: "rr", Bandwidth: 5},
			},
			VGroups: []sim.VGroup{{ID: "rsp-1", Name: "k8s/443/web/shop/c0123456789", Backends: []sim.Backend{
				{Server: "i-1", IP: "10.0.0.2", Port: 30443, Weight: new(0), Description: "k8s/30443/web/shop/c0123456789"}, {Server: "eni-1", IP: "10.0.2.4",
					Type: "eni", Port: 8443},
			}}},
		}, {
			ID: "lb-9", Name: "tls", Listeners: []sim.Listener{{Port: 8443, Protocol: "https",
				Domains: []sim.Domain{{ID: "de-1", Name: "a.example.com", Certificate: "cert-2"}}}},
		}},
		NLBs: []sim.NLB{
			{
				ID: "nlb-1", Name: "api", DNSName: "nlb-1.example", AddressType: "Intranet", IPVersion: "DualStack", ResourceGroup: "rg-2", DeletionProtection: true,
				ModificationProtection: sim.Protection{Status: "ConsoleProtection", Reason: "managed.by.ack"}, SecurityGroups: []string{"sg-2", "sg-1"},
				Tags:  map[string]string{"kubernetes.do.not.delete": "a2", "ack.aliyun.com": "c0123456789"},
				Zones: []sim.NLBZone{{VSwitch: "vsw-b", Address: "10.0.1.20"}, {VSwitch: "vsw-a", Address: "10.0.0.20"}},
				Listeners: []sim.NLBListener{{ID: "lsn-2", Port: 443, Protocol: "TCPSSL", Description: "k8s.443.TCPSSL.api.shop.c0123456789",
					Certificates: []string{"cert-1"}, Further: []string{"cert-3", "cert-2"},
					Config: map[string]string{"SecurityPolicyId": "tls_1", "ProxyProtocolV2Config.Ppv2VpcIdEnabled": "true"}}, {ID: "lsn-1", Port: 53, Protocol: "UDP",
					Status: "Stopped"}},
			},
			{ID: "nlb-2", Name: "other", Zones: []sim.NLBZone{{VSwitch: "vsw-b", Address: "10.0.1.21"}}},
		},
		VPCs:      []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8"}, {ID: "vpc-2", CIDR: "192.168.0.0/16", SecondaryCIDRs: []string{"10.200.0.0/16"}}},
		Instances: []sim.Instance{{ID: "i-2", Name: "worker", IP: "10.0.0.9", VSwitch: "vsw-a"}},
		ServerGroups: []sim.ServerGroup{
			{ID: "sgp-2"},
			{ID: "sgp-1", Name: "k8s.8080.TCP.api.shop.c0123456789", Tags: map[string]string{"kubernetes.do.not.delete": "a2"}, Servers: []sim.Server{
				{ID: "i-1", Port: 30080, Weight: new(0)}, {ID: "eni-1", Type: "Eni", IP: "10.0.2.4", Port: 8080},
			}},
		},
		Quotas: []sim.Quota{{Code: "q_1", Name: "slb_quota_backendservers_num", Total: 200, Max: 400, Adjustable: true},
			{Product: "nlb", Code: "q_2", Name: "nlb_quota_loadbalancers_num", Total: 60}},
		QuotaApplications: []sim.QuotaApplication{
			{ID: "app-1", Code: "q_1", Desired: 250, Status: "Disagree", Opinion: "Too many.", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			{ID: "app-2", Code: "q_1", Desired: 300, At: time.Date(2026, 3, 2, 3, 4, 5, 0, time.UTC)},
		},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-1"}, {
			ID: "sg-2", Name: "k8s-nlb-a2", Description: "k8s.shop.api.c0123456789", Tags: map[string]string{"kubernetes.do.not.delete": "a2"},
			Rules: []sim.SecurityRule{
				{Source: "203.0.113.0/24", Description: "k8s.shop.api.c0123456789"}, {Source6: "2001:db8::/32", Protocol: "tcp", Ports: "80/443", Priority: 2},
				{Source: "0.0.0.0/0", Policy: "Drop", Priority: 100},
			},
		}},
		EIPs:  []sim.EIP{{ID: "eip-1", IP: "198.51.100.7", Instance: "lb-1", InstanceType: "SlbInstance"}},
		ENIs:  []sim.ENI{{ID: "eni-1", IPs: []string{"10.0.2.5", "10.0.2.4", "2408:1::5"}, VSwitch: "vsw-pod", Instance: "i-1"}},
		Roles: []sim.Role{{Name: "KubernetesMasterRole-x", Policies: []string{"k8sMasterRolePolicy-Ccm-x"}}},
		Policies: []sim.Policy{{
			Name: "k8sMasterRolePolicy-Ccm-x", Roles: []string{"Other"}, Users: []string{"ann"},
			Versions: []sim.PolicyVersion{
				{ID: "v9", Document: document("slb:*"), Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
				{ID: "v10", Document: document("vpc:*"), Default: true, Created: time.Date(2026, 2, 2, 3, 4, 5, 0, time.UTC)},
			},
		}},
	}
}

func document(action string) string {
	return `{"Version":"1","Statement":[{"Effect":"Allow","Action":["` + action + `"],"Resource":["*"]}]}`
}

const policy = "k8sMasterRolePolicy-Ccm-x"

var reads = []struct {
	name  string
	needs grant.Grant
	call  func(context.Context, *cloud.Reader) (any, error)
	want  any
}{
	{
		"SLB.LoadBalancer", grant.DescribeLoadBalancerAttribute,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.SLB.LoadBalancer(ctx, "lb-1") },
		func() cloud.LoadBalancer {
			lb := lb1
			lb.Ports = []cloud.ListenerPort{{53, "udp", ""}, {443, "tcp", "k8s/443/web/shop/c0123456789"}}
			return lb
		}(),
	},
	{
		"SLB.LoadBalancers", grant.DescribeLoadBalancers,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.SLB.LoadBalancers(ctx, cloud.LBFilter{Address: "10.0.1.9", VPC: "vpc-1", Name: "web", TagKey: "kubernetes.do.not.delete", TagValue: "a1",
				IDs: []string{"lb-1", "lb-2"}})
		},
		[]cloud.LoadBalancer{lb1},
	},
	{
		"SLB.Tags", grant.ListSLBTags,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.SLB.Tags(ctx, "lb-1") },
		lb1.Tags,
	},
	{
		"SLB.Listeners", grant.DescribeLoadBalancerListeners,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			list, err := c.SLB.Listeners(ctx, "lb-1")
			for i := range list { // the cloud shows defaults too; only what was set counts here
				for k := range list[i].Config {
					if list[i].Port != 443 || k != "HealthCheckInterval" && k != "HealthCheck" {
						delete(list[i].Config, k)
					}
				}
				if len(list[i].Config) == 0 {
					list[i].Config = nil
				}
			}
			return list, err
		},
		[]cloud.Listener{
			{Port: 53, Protocol: "udp", Status: "running", VServerGroup: "rsp-1", Scheduler: "rr", Bandwidth: 5},
			{Port: 443, Protocol: "tcp", Status: "running", VServerGroup: "rsp-1", Description: "k8s/443/web/shop/c0123456789", Scheduler: "wrr", Bandwidth: -1,
				Config: map[string]string{"HealthCheckInterval": "2", "HealthCheck": "on"}},
		},
	},
	{
		"SLB.Domains", grant.DescribeDomainExtensions,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.SLB.Domains(ctx, "lb-9", 8443) },
		map[string]string{"a.example.com": "cert-2"},
	},
	{
		"SLB.VServerGroups", grant.DescribeVServerGroups,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.SLB.VServerGroups(ctx, "lb-1") },
		[]cloud.VServerGroup{{
			ID: "rsp-1", Name: "k8s/443/web/shop/c0123456789", LoadBalancer: "lb-1", Servers: 2,
			Listeners: []cloud.ListenerPort{{Port: 53, Protocol: "udp"}, {Port: 443, Protocol: "tcp"}},
		}},
	},
	{
		"SLB.Available", grant.DescribeAvailableResource,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.SLB.Available(ctx, "intranet", "ipv4")
		},
		[]cloud.ZonePair{{Zone: "cn-hangzhou-h", SlaveZone: "cn-hangzhou-i"}, {Zone: "cn-hangzhou-i", SlaveZone: "cn-hangzhou-h"}},
	},
	{
		"Billing.Balance", grant.QueryAccountBalance,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.Billing.Balance(ctx) },
		cloud.Balance{Available: 1_000_000, Currency: "CNY"},
	},
	{
		"SLB.VServerGroup", grant.DescribeVServerGroupAttribute,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.SLB.VServerGroup(ctx, "rsp-1") },
		cloud.VServerGroup{
			ID: "rsp-1", Name: "k8s/443/web/shop/c0123456789", LoadBalancer: "lb-1", Servers: 2,
			Backends: []cloud.Backend{
				{ID: "eni-1", IP: "10.0.2.4", Type: "eni", Port: 8443, Weight: 100, VPC: "vpc-1"},
				{ID: "i-1", IP: "10.0.0.2", Type: "ecs", Port: 30443, Weight: 0, VPC: "vpc-1", Description: "k8s/30443/web/shop/c0123456789"},
			},
		},
	},
	{
		"NLB.LoadBalancer", grant.GetNLB,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.NLB.LoadBalancer(ctx, "nlb-1") },
		nlb1,
	},
	{
		"NLB.Find", grant.ListNLBs,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.NLB.Find(ctx, cloud.NLBFilter{DNSName: "nlb-1.example", Name: "api", TagKey: "ack.aliyun.com"})
		},
		[]cloud.NetworkLoadBalancer{nlb1},
	},
	{
		"NLB.Tags", grant.ListNLBTags,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.NLB.Tags(ctx, "nlb-1") },
		nlb1.Tags,
	},
	{
		"NLB.Listeners", grant.ListNLBListeners,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.NLB.Listeners(ctx, "nlb-1") },
		[]cloud.NetworkListener{
			{ID: "lsn-1", Port: 53, Protocol: "UDP", Status: "Stopped", Config: map[string]string{
				"IdleTimeout": "900", "Cps": "0", "Mss": "0", "AlpnEnabled": "false", "CaEnabled": "false", "ProxyProtocolEnabled": "false", "SecSensorEnabled": "false",
			}},
			{ID: "lsn-2", Port: 443, Protocol: "TCPSSL", Status: "Running", Description: "k8s.443.TCPSSL.api.shop.c0123456789", Config: map[string]string{
				"IdleTimeout": "900", "Cps": "0", "Mss": "0", "AlpnEnabled": "false", "CaEnabled": "false", "ProxyProtocolEnabled": "false", "SecSensorEnabled": "false",
				"SecurityPolicyId": "tls_1", "CertificateIds": "cert-1", "Ppv2VpcIdEnabled": "true",
			}},
		},
	},
	{
		"NLB.FurtherCertificates", grant.ListListenerCertificates,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.NLB.FurtherCertificates(ctx, "lsn-2")
		},
		[]string{"cert-2", "cert-3"},
	},
	{
		"VPC.VSwitches", grant.DescribeVSwitches,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.VPC.VSwitches(ctx, "vpc-1") },
		[]cloud.VSwitch{
			{ID: "vsw-a", Zone: "cn-hangzhou-h", CIDR: "10.0.0.0/24", Status: "Available"},
			{ID: "vsw-b", Zone: "cn-hangzhou-i", CIDR: "10.0.1.0/24", Status: "Available", Free: 41, IPv6: true},
			{ID: "vsw-pod", Zone: "cn-hangzhou-i", CIDR: "10.0.2.0/24", Status: "Available", Free: 7},
		},
	},
	{
		"VPC.EIPs", grant.DescribeEipAddresses,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.VPC.EIPs(ctx, "198.51.100.7") },
		[]string{"lb-1"},
	},
	{
		"ECS.Interfaces", grant.DescribeNetworkInterfaces,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.ECS.Interfaces(ctx, "vpc-1", []string{"10.0.2.4", "10.0.9.9"})
		},
		[]cloud.Interface{{
			ID: "eni-1", Status: "InUse", IP: "10.0.2.5", IPs: []string{"10.0.2.4", "10.0.2.5",
				"2408:1::5"},
		}},
	},
	{
		"ECS.Interfaces", grant.DescribeNetworkInterfaces,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			enis, err := c.ECS.Interfaces(ctx, "vpc-1", []string{"2408:1::5", "10.0.2.4", "2408:1::6"})
			return len(enis), err
		},
		1, // found by an address of each family
	},
	{
		"ECS.Instances", grant.DescribeInstances,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.ECS.Instances(ctx, []string{"i-2", "i-none"})
		},
		[]cloud.Instance{{ID: "i-2", Status: "Running", VPC: "vpc-1", IPs: []string{"10.0.0.9"}}},
	},
	{
		"ECS.SecurityGroups", grant.DescribeSecurityGroups,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.ECS.SecurityGroups(ctx, "kubernetes.do.not.delete", "a2")
		},
		[]cloud.SecurityGroup{{ID: "sg-2", Name: "k8s-nlb-a2", Description: "k8s.shop.api.c0123456789"}},
	},
	{
		"ECS.SecurityGroup", grant.DescribeSecurityGroup,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.ECS.SecurityGroup(ctx, "sg-2") },
		cloud.SecurityGroup{ID: "sg-2", Name: "k8s-nlb-a2", Description: "k8s.shop.api.c0123456789", Rules: []cloud.SecurityRule{
			{ID: "sgr-sg-2-1", Source: "203.0.113.0/24", Protocol: "ALL", Ports: "-1/-1", Priority: 1, Description: "k8s.shop.api.c0123456789"},
			{ID: "sgr-sg-2-2", Source6: "2001:db8::/32", Protocol: "TCP", Ports: "80/443", Priority: 2},
			{ID: "sgr-sg-2-3", Drop: true, Source: "0.0.0.0/0", Protocol: "ALL", Ports: "-1/-1", Priority: 100},
		}},
	},
	{
		"VPC.Blocks", grant.DescribeVpcAttribute,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			blocks, err := c.VPC.Blocks(ctx, "vpc-2")
			return fmt.Sprint(blocks), err
		},
		"[192.168.0.0/16 10.200.0.0/16]",
	},
	{
		"VPC.Blocks", grant.DescribeVpcAttribute,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			blocks, err := c.VPC.Blocks(ctx, "vpc-1")
			return fmt.Sprint(blocks), err
		},
		"[10.0.0.0/8 2408:1::/56]",
	},
	{
		"NLB.ServerGroups", grant.ListServerGroups,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.NLB.ServerGroups(ctx, "kubernetes.do.not.delete", "a2")
		},
		[]cloud.ServerGroup{{ID: "sgp-1", Name: "k8s.8080.TCP.api.shop.c0123456789", VPC: "vpc-1", Protocol: "TCP", Status: "Available", Config: map[string]string{
			"ServerGroupType": "Instance", "AddressIPVersion": "ipv4", "AnyPortEnabled": "false", "ResourceGroupId": "rg-acfmubxxmqpafyz", "Scheduler": "Wrr",
			"PersistenceEnabled": "false", "PersistenceTimeout": "0", "ConnectionDrainEnabled": "false", "ConnectionDrainTimeout": "0",
			"PreserveClientIpEnabled": "true",
			"HealthCheckEnabled":      "true", "HealthCheckType": "TCP", "HealthCheckConnectPort": "0", "HealthCheckConnectTimeout": "5", "HealthCheckInterval": "10",
			"HealthyThreshold": "2", "UnhealthyThreshold": "2",
		}}},
	},
	{
		"NLB.ServerGroupsOf", grant.ListServerGroups,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.NLB.ServerGroupsOf(ctx, []string{"sgp-1", "sgp-9"})
		},
		[]cloud.ServerGroup{{ID: "sgp-1", Name: "k8s.8080.TCP.api.shop.c0123456789", VPC: "vpc-1", Protocol: "TCP", Status: "Available", Config: map[string]string{
			"ServerGroupType": "Instance", "AddressIPVersion": "ipv4", "AnyPortEnabled": "false", "ResourceGroupId": "rg-acfmubxxmqpafyz", "Scheduler": "Wrr",
			"PersistenceEnabled": "false", "PersistenceTimeout": "0", "ConnectionDrainEnabled": "false", "ConnectionDrainTimeout": "0",
			"PreserveClientIpEnabled": "true",
			"HealthCheckEnabled":      "true", "HealthCheckType": "TCP", "HealthCheckConnectPort": "0", "HealthCheckConnectTimeout": "5", "HealthCheckInterval": "10",
			"HealthyThreshold": "2", "UnhealthyThreshold": "2",
		}}},
	},
	{
		"NLB.Servers", grant.ListServerGroupServers,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.NLB.Servers(ctx, "sgp-1") },
		[]cloud.Backend{{ID: "eni-1", IP: "10.0.2.4", Type: "eni", Port: 8080, Weight: 100}, {ID: "i-1", Type: "ecs", Port: 30080, Weight: 0}},
	},
	{
		"Quotas.List", grant.ListProductQuotas,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.Quotas.List(ctx, "slb", cloud.CommonQuota, "slb_quota_backendservers_num")
		},
		[]cloud.Quota{{
			Product: "slb", Code: "q_1", Name: "slb_quota_backendservers_num", Description: "slb_quota_backendservers_num", Total: 200, Why: "applicationProcess",
			Dimensions: map[string]string{"regionId": "cn-hangzhou"},
		}},
	},
	{
		"Quotas.Named", grant.ListProductQuotas,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.Quotas.Named(ctx, "nlb", "nlb_quota_loadbalancers_num")
		},
		cloud.Quota{
			Product: "nlb", Code: "q_2", Name: "nlb_quota_loadbalancers_num", Description: "nlb_quota_loadbalancers_num", Total: 60, Used: 2, Why: "limitReached",
			Dimensions: map[string]string{"regionId": "cn-hangzhou"},
		},
	},
	{
		"Quotas.Applications", grant.ListQuotaApplications,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.Quotas.Applications(ctx, "slb", "q_1")
		},
		[]cloud.QuotaApplication{
			{ID: "app-2", Desired: 300, Status: "Process", At: time.Date(2026, 3, 2, 3, 4, 5, 0, time.UTC),
				For: map[string]string{"regionId": "cn-hangzhou"}},
			{ID: "app-1", Desired: 250, Status: "Disagree", Opinion: "Too many.", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				For: map[string]string{"regionId": "cn-hangzhou"}},
		},
	},
	{
		"CS.Cluster", grant.DescribeClusterDetail,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.CS.Cluster(ctx) },
		cloud.Cluster{
			ID: "c0123456789", VPC: "vpc-1", Region: "cn-hangzhou", Type: "Kubernetes", Profile: "Default",
			VSwitches: []string{"vsw-a", "vsw-b"}, PodVSwitches: []string{"vsw-pod"}, Network: "terway-eniip",
		},
	},
	{
		"CS.Kubeconfig", grant.DescribeClusterUserKubeconfig,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			k, err := c.CS.Kubeconfig(ctx, time.Hour)
			if left := time.Until(k.Ends).Round(time.Minute); err == nil && left != time.Hour {
				return nil, fmt.Errorf("it is good for %s", left)
			}
			return strings.Contains(string(k.Text), "server: https://10."), err // inside the VPC
		},
		true,
	},
	{
		"CS.NodePools", grant.DescribeClusterNodePools,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.CS.NodePools(ctx) },
		[]cloud.NodePool{{ID: "np-1", Default: true, VSwitches: []string{"vsw-a"}}},
	},
	{
		"CS.Addons", grant.DescribeClusterAddons,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.CS.Addons(ctx) },
		map[string]string{"cloud-controller-manager": "v2.12.1", "terway-eniip": "v1.15.0"},
	},
	{
		"CS.AddonConfig", grant.GetClusterAddon,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.CS.AddonConfig(ctx, "terway-eniip") },
		`{"IPVlan":"true"}`,
	},
	{
		"CS.DeleteProtection", grant.DescribeDeleteProtection,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.CS.DeleteProtection(ctx, "prod", []string{"web", "other"})
		},
		map[string]bool{"web": true, "other": false},
	},
	{
		"CS.DeleteProtection of namespaces", grant.DescribeDeleteProtection,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.CS.DeleteProtection(ctx, "", []string{"prod", "test"})
		},
		map[string]bool{"prod": true, "test": false},
	},
	{
		"CS.MasterRole", grant.DescribeClusterResources,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.CS.MasterRole(ctx) },
		"KubernetesMasterRole-x",
	},
	{
		"RAM.RolePolicies", grant.ListPoliciesForRole,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.RAM.RolePolicies(ctx, "KubernetesMasterRole-x")
		},
		[]cloud.PolicyRef{{Name: policy, Type: cloud.CustomPolicy}},
	},
	{
		"RAM.Policy", grant.GetPolicy,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.RAM.Policy(ctx, policy, cloud.CustomPolicy)
		},
		cloud.Policy{
			Name: policy, Type: cloud.CustomPolicy, Version: "v10", Document: document("vpc:*"),
		},
	},
	{
		"RAM.PolicyVersions", grant.ListPolicyVersions,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			list, err := c.RAM.PolicyVersions(ctx, policy, cloud.CustomPolicy)
			for i := range list {
				list[i].Document = "" // not every answer contains it
			}
			return list, err
		},
		[]cloud.PolicyVersion{
			{ID: "v9", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			{ID: "v10", Default: true, Created: time.Date(2026, 2, 2, 3, 4, 5, 0, time.UTC)},
		},
	},
	{
		"RAM.PolicyRoles", grant.ListEntitiesForPolicy,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			return c.RAM.PolicyRoles(ctx, policy, cloud.CustomPolicy)
		},
		cloud.Entities{Roles: []string{"KubernetesMasterRole-x", "Other"}, Users: []string{"ann"}},
	},
	{
		"STS.Identity", grant.GetCallerIdentity,
		func(ctx context.Context, c *cloud.Reader) (any, error) {
			i, err := c.STS.Identity(ctx)
			i.ARN = i.ARN[strings.LastIndex(i.ARN, ":")+1:]
			return i, err
		},
		cloud.Identity{Account: account, ARN: "user/one"},
	},
	{
		"Tickets.Find", grant.ListTickets,
		func(ctx context.Context, c *cloud.Reader) (any, error) { return c.Tickets.Find(ctx, "case 7") },
		[]cloud.TicketState{{ID: "T1"}},
	},
}

const account = "1234567890123456"

var lb1 = cloud.LoadBalancer{
	ID: "lb-1", Name: "web", Address: "10.0.1.9", AddressType: "intranet", IPVersion: "ipv4", VPC: "vpc-1", VSwitch: "vsw-b", Zone: "cn-hangzhou-i",
	SlaveZone: "cn-hangzhou-h",
	Network:   "vpc", Bandwidth: 5, InternetCharge: "paybytraffic", Status: "active", Spec: "slb.s1.small", PayType: "PayOnDemand", ChargeType: "PayBySpec",
	ResourceGroup:    "rg-1",
	DeleteProtection: true, Protected: true, ProtectionReason: "managed.by.ack",
	Tags: map[string]string{"kubernetes.do.not.delete": "a1", "ack.aliyun.com": "c0123456789"},
}

var nlb1 = cloud.NetworkLoadBalancer{
	ID: "nlb-1", Name: "api", DNSName: "nlb-1.example", VPC: "vpc-1", Status: "Active", AddressType: "Intranet", IPVersion: "DualStack", ResourceGroup: "rg-2",
	SecurityGroups: []string{"sg-1", "sg-2"}, DeleteProtection: true, Protected: true, ProtectionReason: "managed.by.ack",
	Zones: []cloud.NetworkZone{{Zone: "cn-hangzhou-h", VSwitch: "vsw-a", Address: "10.0.0.20"}, {Zone: "cn-hangzhou-i", VSwitch: "vsw-b",
		Address: "10.0.1.20"}},
	CrossZone: true, IPv6AddressType: "Intranet",
	Tags: map[string]string{"kubernetes.do.not.delete": "a2", "ack.aliyun.com": "c0123456789"},
}

func start(t *testing.T) *sim.Cloud {
	w := world()
	w.AccountID = account
	w.Tickets = []sim.Ticket{{ID: "T1", Title: "the vSwitches are full", Description: "this is case 7"}, {ID: "T2", Title: "another"}}
	return sim.New(t, w)
}

func TestReads(t *testing.T) {
	s := start(t)
	for _, r := range reads {
		t.Run(r.name, func(t *testing.T) {
			got, err := r.call(t.Context(), dial(t, s, s.Client("one", r.needs.Action)))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(r.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if r.needs == grant.GetCallerIdentity {
				return // the API allows it to everyone
			}
			_, err = r.call(t.Context(), dial(t, s, s.Client("none")))
			if !errors.Is(err, cloud.ErrDenied) {
				t.Fatalf("without %s: got %v, want ErrDenied", r.needs, err)
			}
			if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Refused != r.needs.Action {
				t.Errorf("got %+v, want %s refused", e, r.needs)
			}
		})
	}
}

func TestWrites(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	one := func(action string) *cloud.Writer { return writer(t, s, s.Client("one", action)) }
	nobody := writer(t, s, s.Client("none"))
	tags := func() map[string]string { return s.Snapshot().LoadBalancers[0].Tags }
	versions := func() (ids []string) {
		for _, v := range s.Snapshot().Policies[0].Versions {
			id := v.ID
			if v.Default {
				id += " default"
			}
			ids = append(ids, id)
		}
		return ids
	}

	if err := one(grant.TagSLB.Action).SLB.Tag(ctx, "lb-1", "team", "ops & co"); err != nil {
		t.Fatal(err)
	}
	if tags()["team"] != "ops & co" {
		t.Errorf("got tags %v", tags())
	}
	if err := one(grant.UntagSLB.Action).SLB.Untag(ctx, "lb-1", "team"); err != nil {
		t.Fatal(err)
	}
	if err := one(grant.UntagSLB.Action).SLB.Untag(ctx, "lb-1", "team"); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, there := tags()["team"]; there || len(tags()) != 2 {
		t.Errorf("got tags %v", tags())
	}

	if err := one(grant.CreatePolicyVersion.Action).RAM.CreatePolicyVersion(ctx, policy, document("ecs:*")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"v9", "v10", "v11 default"}, versions()); d != "" {
		t.Error(d)
	}
	if err := one(grant.SetDefaultPolicyVersion.Action).RAM.SetDefaultPolicyVersion(ctx, policy, "v10"); err != nil {
		t.Fatal(err)
	}
	if err := one(grant.DeletePolicyVersion.Action).RAM.DeletePolicyVersion(ctx, policy, "v11"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"v9", "v10 default"}, versions()); d != "" {
		t.Error(d)
	}

	s.Edit(func(s *sim.State) { s.QuotaApplications["app-2"].Status = "Disagree" })
	more := one(grant.CreateQuotaApplication.Action).Quotas
	if err := more.Apply(ctx, "slb", "q_1", map[string]string{"regionId": "cn-hangzhou"}, 250, "240 backends are needed"); err != nil {
		t.Error(err)
	}
	made, err := dial(t, s, s.Admin()).Quotas.Applications(ctx, "slb", "q_1")
	if err != nil || len(made) != 3 || !slices.ContainsFunc(made, func(a cloud.QuotaApplication) bool { return a.Open() && a.Desired == 250 }) {
		t.Errorf("got applications %+v, %v", made, err)
	}
	if err := more.Apply(ctx, "slb", "q_1", nil, 250, "240 backends are needed"); err == nil {
		t.Error("a second application was taken while one is open")
	}
	if err := more.Apply(ctx, "slb", "q_x", nil, 250, "none"); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("for no quota: got %v, want ErrNotFound", err)
	}

	ask := cloud.Ticket{Title: "Which role?", Description: "It is case 8.", Category: "53811", Urgent: true}
	id, err := one(grant.CreateTicket.Action).Tickets.Create(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	found := s.Snapshot().Tickets
	i := slices.IndexFunc(found, func(t sim.Ticket) bool { return t.ID == id })
	if i < 0 || found[i].Title != ask.Title || found[i].Description != ask.Description || found[i].Severity != 2 {
		t.Errorf("got tickets %+v", found)
	}
	ticket := func() sim.Ticket {
		found := s.Snapshot().Tickets
		return found[slices.IndexFunc(found, func(t sim.Ticket) bool { return t.ID == id })]
	}
	if err := one(grant.ReplyTicket.Action).Tickets.Reply(ctx, id, "Another Service, too."); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := one(grant.CloseTicket.Action).Tickets.Close(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if got := ticket(); got.Status != "completed" {
		t.Errorf("after Close: got %+v", got)
	}
	if err := one(grant.ReopenTicket.Action).Tickets.Reopen(ctx, id, "It is back."); err != nil {
		t.Fatal(err)
	}
	if got := ticket(); got.Status != "in_progress" || !slices.Equal(got.Notes, []string{"Another Service, too.", "It is back."}) {
		t.Errorf("after Reopen: got %+v", got)
	}

	for name, err := range map[string]error{
		"Reply":                   nobody.Tickets.Reply(ctx, id, "r"),
		"Close":                   nobody.Tickets.Close(ctx, id),
		"Reopen":                  nobody.Tickets.Reopen(ctx, id, "r"),
		"Tag":                     nobody.SLB.Tag(ctx, "lb-1", "k", "v"),
		"Untag":                   nobody.SLB.Untag(ctx, "lb-1", "k"),
		"CreatePolicyVersion":     nobody.RAM.CreatePolicyVersion(ctx, policy, document("ecs:*")),
		"DeletePolicyVersion":     nobody.RAM.DeletePolicyVersion(ctx, policy, "v9"),
		"SetDefaultPolicyVersion": nobody.RAM.SetDefaultPolicyVersion(ctx, policy, "v9"),
		"Create":                  second(nobody.Tickets.Create(ctx, ask)),
		"Apply":                   nobody.Quotas.Apply(ctx, "slb", "q_1", nil, 250, "none"),
	} {
		if !errors.Is(err, cloud.ErrDenied) {
			t.Errorf("%s without its grant: got %v, want ErrDenied", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestKindsOfErrors(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	c, w := both(t, s, s.Admin())
	elsewhere := dial(t, s, s.Admin(), func(c *cloud.Config) { c.ClusterID = "c-other" })
	stranger := dial(t, s, sim.Credentials{AccessKeyID: "LTAI5tNobodyKnowsThis", Secret: "a secret of nobody"})
	for range 3 {
		if err := w.RAM.CreatePolicyVersion(ctx, policy, document("ecs:*")); err != nil {
			t.Fatal(err)
		}
	}
	managed := world()
	managed.Cluster.Type, managed.Cluster.MasterRole = "ManagedKubernetes", ""
	m := sim.New(t, managed)
	for name, tt := range map[string]struct {
		err  error
		want error
		code string
	}{
		"load balancer":         {second(c.SLB.LoadBalancer(ctx, "lb-x")), cloud.ErrNotFound, "InvalidLoadBalancerId.NotFound"},
		"tags":                  {second(c.SLB.Tags(ctx, "lb-x")), cloud.ErrNotFound, "InvalidResourceId.NotFound"},
		"NLB":                   {second(c.NLB.LoadBalancer(ctx, "nlb-x")), cloud.ErrNotFound, "ResourceNotFound.loadBalancer"},
		"tags of an NLB":        {second(c.NLB.Tags(ctx, "nlb-x")), cloud.ErrNotFound, "ResourceNotFound.loadBalancer"},
		"limit":                 {second(c.Quotas.Named(ctx, "slb", "backendservers_num")), cloud.ErrNotFound, "QUOTA.NOT.FOUND"},
		"vServer group":         {second(c.SLB.VServerGroup(ctx, "rsp-x")), cloud.ErrNotFound, "InvalidParameter"},
		"role":                  {second(c.RAM.RolePolicies(ctx, "x")), cloud.ErrNotFound, "EntityNotExist.Role"},
		"policy":                {second(c.RAM.Policy(ctx, "x", cloud.CustomPolicy)), cloud.ErrNotFound, "EntityNotExist.Policy"},
		"cluster":               {second(elsewhere.CS.Cluster(ctx)), cloud.ErrNotFound, "ErrorClusterNotFound"},
		"master role":           {second(dial(t, m, m.Admin()).CS.MasterRole(ctx)), cloud.ErrNotFound, "NoMasterRole"},
		"tag of nothing":        {w.SLB.Tag(ctx, "lb-x", "k", "v"), cloud.ErrNotFound, "InvalidResourceId.NotFound"},
		"version to delete":     {w.RAM.DeletePolicyVersion(ctx, policy, "v99"), cloud.ErrNotFound, "EntityNotExist.Policy.Version"},
		"five versions":         {w.RAM.CreatePolicyVersion(ctx, policy, document("ecs:*")), cloud.ErrConflict, "LimitExceeded.Policy.Version"},
		"unknown key":           {second(stranger.SLB.LoadBalancer(ctx, "lb-1")), cloud.ErrDenied, "InvalidAccessKeyId.NotFound"},
		"unknown key, ROA":      {second(stranger.CS.Cluster(ctx)), cloud.ErrDenied, "InvalidAccessKeyId.NotFound"},
		"reply to no ticket":    {w.Tickets.Reply(ctx, "T-x", "r"), nil, "param.illegal"},
		"category of no ticket": {second(w.Tickets.Create(ctx, cloud.Ticket{Description: "d", Category: "1"})), nil, "param.illegal"},
	} {
		var e *cloud.Error
		if !errors.As(tt.err, &e) {
			t.Errorf("%s: got %v, want a cloud.Error", name, tt.err)
			continue
		}
		for _, k := range kinds {
			if got, want := errors.Is(tt.err, k), tt.want == k; got != want {
				t.Errorf("%s: %v is %v: got %t, want %t", name, tt.err, k, got, want)
			}
		}
		if e.Code != tt.code {
			t.Errorf("%s: got code %s, want %s", name, e.Code, tt.code)
		}
	}
}

var kinds = []error{cloud.ErrNotFound, cloud.ErrDenied, cloud.ErrThrottled, cloud.ErrConflict, cloud.ErrUnavailable}

func TestLongLists(t *testing.T) {
	w := &sim.World{}
	tags := map[string]string{}
	for i := range 20 {
		tags[fmt.Sprintf("key-%02d", i)] = "v"
	}
	var listeners []sim.Listener
	for i := range 130 {
		listeners = append(listeners, sim.Listener{Port: i + 1})
	}
	w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{ID: "lb-000", Tags: tags, Listeners: listeners})
	var ids, ips []string
	for i := range 250 {
		w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{ID: fmt.Sprintf("lb-%03d", i+1)})
		w.VSwitches = append(w.VSwitches, sim.VSwitch{ID: fmt.Sprintf("vsw-%03d", i), CIDR: fmt.Sprintf("10.1.%d.0/24", i)})
		w.ENIs = append(w.ENIs, sim.ENI{ID: fmt.Sprintf("eni-%03d", i), IPs: []string{fmt.Sprintf("10.9.0.%d", i+1)}, VSwitch: "vsw-000"})
		w.Tickets = append(w.Tickets, sim.Ticket{ID: fmt.Sprintf("T%03d", i), Description: "of case 9"})
		ids = append(ids, fmt.Sprintf("lb-%03d", i+1))
		ips = append(ips, fmt.Sprintf("10.9.0.%d", i+1))
	}
	s := sim.New(t, w)
	c := dial(t, s, s.Admin())
	ctx := t.Context()
	all, err := c.SLB.LoadBalancers(ctx, cloud.LBFilter{})
	count(t, "load balancers", len(all), 251, err)
	some, err := c.SLB.LoadBalancers(ctx, cloud.LBFilter{IDs: append(ids[:25:25], ids[0])})
	count(t, "load balancers by ID", len(some), 25, err)
	ports, err := c.SLB.Listeners(ctx, "lb-000")
	count(t, "listeners", len(ports), 130, err)
	labels, err := c.SLB.Tags(ctx, "lb-000")
	count(t, "tags", len(labels), 20, err)
	none, err := c.SLB.Tags(ctx, "lb-001")
	count(t, "tags of none", len(none), 0, err)
	if none == nil {
		t.Error("no tags: got nil, want an empty map")
	}
	vsws, err := c.VPC.VSwitches(ctx, "vpc-1")
	count(t, "vSwitches", len(vsws), 250, err)
	enis, err := c.ECS.Interfaces(ctx, "vpc-1", ips)
	count(t, "interfaces", len(enis), 250, err)
	tickets, err := c.Tickets.Find(ctx, "case 9")
	count(t, "tickets", len(tickets), 250, err)
	if !slices.IsSortedFunc(all, func(a, b cloud.LoadBalancer) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("load balancers are not sorted")
	}
}

func count(t *testing.T, what string, got, want int, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: got %d and %v, want %d", what, got, err, want)
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		fault sim.Fault
		want  error // of a read that never recovers
		tries int   // tries of such a read
	}{
		"throttled":     {sim.Fault{Code: "Throttling.User"}, cloud.ErrThrottled, 3},
		"unavailable":   {sim.Fault{Code: "ServiceUnavailable"}, cloud.ErrUnavailable, 3},
		"unavailable 4": {sim.Fault{Code: "ServiceUnavailable", Status: 400}, cloud.ErrUnavailable, 3},
		"internal":      {sim.Fault{Code: "InternalError"}, cloud.ErrUnavailable, 3},
		"500":           {sim.Fault{Code: "WhoKnows", Status: 502}, cloud.ErrUnavailable, 3},
		"cut":           {sim.Fault{CutBefore: true}, cloud.ErrUnavailable, 3},
		"cut after":     {sim.Fault{CutAfter: true}, cloud.ErrUnavailable, 3},
		"half answer":   {sim.Fault{Garbage: true}, cloud.ErrUnavailable, 1},
		"clock":         {sim.Fault{Code: "InvalidTimeStamp.Expired"}, cloud.ErrUnavailable, 3},
		"old token":     {sim.Fault{Code: "InvalidSecurityToken.Expired"}, cloud.ErrUnavailable, 3},
		"older token":   {sim.Fault{Code: "SecurityTokenExpired"}, cloud.ErrUnavailable, 3},
		"nonce used":    {sim.Fault{Code: "SignatureNonceUsed"}, cloud.ErrUnavailable, 3},
		"wrong token":   {sim.Fault{Code: "InvalidSecurityToken.MismatchWithAccessKey"}, cloud.ErrDenied, 1},
		"refused":       {sim.Fault{Code: "Forbidden.RAM", Status: 403}, cloud.ErrDenied, 1},
		"of no kind":    {sim.Fault{Code: "InvalidParameter"}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			c := dial(t, s, s.Admin())
			tt.fault.Count = 2
			remove := s.Fault(tt.fault)
			if got, err := c.VPC.VSwitches(t.Context(), "vpc-1"); tt.tries == 3 && (err != nil || len(got) != 3) {
				t.Errorf("gets better: got %v and %v", got, err)
			}
			remove()
			s.ResetCalls()
			tt.fault.Count = 0
			s.Fault(tt.fault)
			_, err := c.VPC.VSwitches(t.Context(), "vpc-1")
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if got := len(s.Calls()); got != tt.tries {
				t.Errorf("got %d tries, want %d", got, tt.tries)
			}
		})
	}
}

func TestWritesAreMadeOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		fault sim.Fault
		want  error
		made  bool
	}{
		"throttled":   {sim.Fault{Code: "Throttling.User"}, cloud.ErrThrottled, false},
		"unavailable": {sim.Fault{Code: "ServiceUnavailable"}, cloud.ErrUnavailable, false},
		"500":         {sim.Fault{Code: "InternalError", Status: 500}, cloud.ErrUnavailable, false},
		"cut before":  {sim.Fault{CutBefore: true}, cloud.ErrUnavailable, false},
		"cut after":   {sim.Fault{CutAfter: true}, cloud.ErrUnavailable, true},
		"half answer": {sim.Fault{Garbage: true}, cloud.ErrUnavailable, true},
		"fault 4":     {sim.Fault{Status: 400, Body: `{"Code":"InternalError"}`}, cloud.ErrUnavailable, true},
		"gateway":     {sim.Fault{Status: 408, Body: "<html>"}, cloud.ErrUnavailable, true},
		"nonce used":  {sim.Fault{Status: 400, Body: `{"Code":"SignatureNonceUsed"}`}, cloud.ErrUnavailable, true},
		"refused":     {sim.Fault{Code: "Forbidden.RAM", Status: 403}, cloud.ErrDenied, false},
		"of no kind":  {sim.Fault{Code: "InvalidParameter"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var told []event.Call
			w := writer(t, s, s.Admin()).OnWrite(func(k event.Call) { told = append(told, k) })
			s.Fault(tt.fault)
			if err := w.SLB.Tag(t.Context(), "lb-1", "k", "v"); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if len(told) != 1 || told[0].Open() != (tt.want == cloud.ErrUnavailable) {
				t.Errorf("told %+v", told)
			}
			if got := len(s.Calls()); got != 1 {
				t.Errorf("got %d tries, want 1", got)
			}
			if _, made := s.Snapshot().LoadBalancers[0].Tags["k"]; made != tt.made {
				t.Errorf("written: got %t, want %t", made, tt.made)
			}
		})
	}
}

// TestTogether runs with -race: the SDK's clients and tables are not safe for several goroutines. More calls at once would measure the machine.
func TestTogether(t *testing.T) {
	s := start(t)
	k := s.Admin()
	c, w := both(t, s, k)
	var wg sync.WaitGroup
	turn := make(chan struct{}, 16)
	together := func(do func()) {
		turn <- struct{}{}
		wg.Go(func() { defer func() { <-turn }(); do() })
	}
	for range 4 {
		for _, r := range reads {
			together(func() {
				if _, err := r.call(t.Context(), c); err != nil {
					t.Errorf("%s: %v", r.name, err)
				}
			})
			together(func() {
				if err := w.SLB.Tag(t.Context(), "lb-1", "k", "v"); err != nil {
					t.Error(err)
				}
			})
		}
		together(func() {
			if _, _, err := cloud.New(cloud.Config{Region: "cn-hangzhou", ClusterID: "c1"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestTemporaryKeys(t *testing.T) {
	w := world()
	w.Callers = []sim.Caller{{Name: "session", AccessKeyID: "STS.NUabcdefghij", Secret: "s3cret-of-the-session", Token: "CAIS+token/of=the session",
		Allow: []string{"*"}}}
	s := sim.New(t, w)
	k := s.Snapshot().Callers[0].Credentials()
	c := dial(t, s, k)
	if _, err := c.VPC.VSwitches(t.Context(), "vpc-1"); err != nil {
		t.Errorf("RPC: %v", err)
	}
	if _, err := c.CS.Cluster(t.Context()); err != nil {
		t.Errorf("ROA: %v", err)
	}
	// The answer to a wrong signature contains the whole request, and the error of a lost connection its address.
	bad := dial(t, s, sim.Credentials{AccessKeyID: k.AccessKeyID, Secret: "not-the-secret", Token: k.Token})
	for name, err := range map[string]error{
		"RPC": second(bad.VPC.VSwitches(t.Context(), "vpc-1")),
		"ROA": second(bad.CS.Cluster(t.Context())),
	} {
		if !errors.Is(err, cloud.ErrDenied) {
			t.Errorf("%s: got %v, want ErrDenied", name, err)
		}
		secretless(t, err, k.AccessKeyID, "not-the-secret", k.Token, "CAIS", "%3D", "://")
	}
	s.Fault(sim.Fault{CutBefore: true})
	secretless(t, second(c.VPC.VSwitches(t.Context(), "vpc-1")), k.AccessKeyID, k.Secret, k.Token, "Signature", "://")
}

func secretless(t *testing.T, err error, secrets ...string) {
	t.Helper()
	if err == nil {
		t.Error("got no error")
		return
	}
	for _, s := range secrets {
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), s) {
				t.Errorf("%q is in the error: %v", s, e)
			}
		}
	}
}

func TestContext(t *testing.T) {
	s := start(t)
	c, w := both(t, s, s.Admin())
	calls := map[string]func(context.Context) error{
		"read": func(ctx context.Context) error { return second(c.VPC.VSwitches(ctx, "vpc-1")) },
		"ROA":  func(ctx context.Context) error { return second(c.CS.Cluster(ctx)) },
		"write": func(ctx context.Context) error {
			return w.SLB.Tag(ctx, "lb-1", "k", "v")
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			remove := s.Fault(sim.Fault{Hang: true})
			defer remove()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cloud.ErrUnavailable) {
				t.Errorf("got %v, want DeadlineExceeded and ErrUnavailable", err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want Canceled", err)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("took %v", d)
			}
			remove()
			// The calls that hung may reach the simulator's record only now; the code says that this one was never sent.
			err := call(ctx)
			if e, ok := errors.AsType[*cloud.Error](err); !errors.Is(err, context.Canceled) || !ok || e.Code != "NotSent" {
				t.Errorf("ended before: got %v, want Canceled and NotSent", err)
			}
		})
	}
}

func TestContextEndsThePause(t *testing.T) {
	s := start(t)
	c := dial(t, s, s.Admin())
	s.Fault(sim.Fault{Code: "Throttling"})
	if _, err := c.VPC.VSwitches(ending{t.Context()}, "vpc-1"); !errors.Is(err, cloud.ErrThrottled) {
		t.Errorf("got %v, want the error that there was", err)
	}
	if n := len(s.Calls()); n != 1 {
		t.Errorf("it was tried %d times, though no second try fitted", n)
	}
}

type ending struct{ context.Context }

func (ending) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

func TestRate(t *testing.T) {
	s := start(t)
	c := dial(t, s, s.Admin(), func(c *cloud.Config) { c.Rate = 0.5 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.VPC.VSwitches(ctx, "vpc-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.VPC.VSwitches(ctx, "vpc-1"); !errors.Is(err, cloud.ErrThrottled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrThrottled for want of time", err)
	}
	if _, err := c.SLB.LoadBalancer(ctx, "lb-1"); err != nil {
		t.Errorf("another product: %v", err)
	}
	free := dial(t, s, s.Admin(), func(c *cloud.Config) { c.Rate = -1 })
	for range 20 {
		if _, err := free.VPC.VSwitches(t.Context(), "vpc-1"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMeter(t *testing.T) {
	s := start(t)
	var calls []cloud.Call
	c := dial(t, s, s.Admin(), func(c *cloud.Config) { c.Meter = func(k cloud.Call) { calls = append(calls, k) } })
	s.Fault(sim.Fault{Action: "DescribeVSwitches", Code: "Throttling", Count: 1})
	if _, err := c.VPC.VSwitches(t.Context(), "vpc-1"); err != nil {
		t.Fatal(err)
	}
	_, _ = c.SLB.LoadBalancer(t.Context(), "lb-x")
	for i := range calls {
		if calls[i].Duration <= 0 {
			t.Errorf("call %d took %v", i, calls[i].Duration)
		}
		if off := time.Since(calls[i].Date).Abs(); off > time.Minute {
			t.Errorf("call %d was answered %v from now, by the cloud's clock", i, off)
		}
		calls[i].Duration, calls[i].Date = 0, time.Time{}
	}
	want := []cloud.Call{
		{Product: "vpc", Action: "DescribeVSwitches", Code: "Throttling", Status: 400, Throttled: true},
		{Product: "vpc", Action: "DescribeVSwitches", Status: 200},
		{Product: "slb", Action: "DescribeLoadBalancerAttribute", Code: "InvalidLoadBalancerId.NotFound", Status: 404},
	}
	if d := cmp.Diff(want, calls); d != "" {
		t.Error(d)
	}
}

// Each write reports the names that ActionTrail uses for it, even if it is refused or its answer is lost.
func TestTold(t *testing.T) {
	s := start(t)
	var told []event.Call
	c, w := both(t, s, s.Admin())
	w = w.OnWrite(func(k event.Call) { told = append(told, k) })
	ctx := t.Context()
	listener := cloud.ListenerPort{Port: 80, Protocol: "tcp"}
	for range 2 {
		_ = w.SLB.Tag(ctx, "lb-1", "k", "v")
		_ = w.SLB.Untag(ctx, "lb-1", "k")
		_ = w.SLB.SetListenerGroup(ctx, "lb-x", listener, "rsp-1")
		_ = w.SLB.Unprotect(ctx, "lb-1")
		_ = w.NLB.Tag(ctx, "nlb-1", "k", "v")
		_ = w.NLB.Untag(ctx, "nlb-1", "k")
		_ = w.NLB.Unprotect(ctx, "nlb-1")
		_ = w.NLB.Protect(ctx, "nlb-1")
		_ = w.RAM.SetDefaultPolicyVersion(ctx, "none", "v1")
		_ = w.RAM.DeletePolicyVersion(ctx, "none", "v2")
		_ = w.RAM.CreatePolicyVersion(ctx, "none", document("slb:*"))
		_ = w.Quotas.Apply(ctx, "slb", "none", nil, 9, "because")
		_ = w.SLB.Tag(ctx, "", "k", "v") // not sent
		w = w.Dry()
	}
	var got []string
	for _, k := range told {
		if k.Request == "" {
			t.Errorf("no request ID: %+v", k)
		}
		got = append(got, strings.TrimSpace(k.Action+" "+k.Resource+" "+k.Error))
	}
	want := []string{
		"slb:TagResources lb-1", "slb:UntagResources lb-1", "slb:SetLoadBalancerTCPListenerAttribute lb-x/tcp:80 InvalidLoadBalancerId.NotFound",
		"slb:SetLoadBalancerDeleteProtection lb-1", "nlb:TagResources nlb-1", "nlb:UntagResources nlb-1", "nlb:UpdateLoadBalancerProtection nlb-1",
		"nlb:UpdateLoadBalancerProtection nlb-1",
		"ram:SetDefaultPolicyVersion policy/none/v1 EntityNotExist.Policy", "ram:DeletePolicyVersion policy/none/v2 EntityNotExist.Policy",
		"ram:CreatePolicyVersion policy/none EntityNotExist.Policy", "quotas:CreateQuotaApplication slb/none QUOTA.NOT.FOUND",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if tags, err := c.SLB.Tags(ctx, "lb-1"); err != nil || tags["k"] != "" {
		t.Errorf("the tags are %v, %v", tags, err)
	}
	s.Fault(sim.Fault{CutAfter: true})
	told = nil
	_, w = both(t, s, s.Admin())
	_ = w.OnWrite(func(k event.Call) { told = append(told, k) }).SLB.Tag(ctx, "lb-1", "k", "v")
	if len(told) != 1 || told[0].Error != "NoAnswer" || told[0].Request != "" {
		t.Errorf("told %+v", told)
	}
}

func TestNothingIsAskedAboutNothing(t *testing.T) {
	s := start(t)
	c, w := both(t, s, s.Admin())
	ctx := t.Context()
	for name, err := range map[string]error{
		"LoadBalancer":            second(c.SLB.LoadBalancer(ctx, "")),
		"LoadBalancers, tag":      second(c.SLB.LoadBalancers(ctx, cloud.LBFilter{TagValue: "v"})),
		"LoadBalancers, ID":       second(c.SLB.LoadBalancers(ctx, cloud.LBFilter{IDs: []string{"lb-1", ""}})),
		"Tags":                    second(c.SLB.Tags(ctx, "")),
		"Listeners":               second(c.SLB.Listeners(ctx, "")),
		"VServerGroups":           second(c.SLB.VServerGroups(ctx, "")),
		"VServerGroup":            second(c.SLB.VServerGroup(ctx, "")),
		"VSwitches":               second(c.VPC.VSwitches(ctx, "")),
		"EIPs":                    second(c.VPC.EIPs(ctx, "")),
		"Interfaces, VPC":         second(c.ECS.Interfaces(ctx, "", []string{"10.0.2.4"})),
		"Interfaces, none":        second(c.ECS.Interfaces(ctx, "vpc-1", nil)),
		"Interfaces, empty":       second(c.ECS.Interfaces(ctx, "vpc-1", []string{""})),
		"SecurityGroups, key":     second(c.ECS.SecurityGroups(ctx, "", "a2")),
		"SecurityGroups, value":   second(c.ECS.SecurityGroups(ctx, "kubernetes.do.not.delete", "")),
		"SecurityGroup":           second(c.ECS.SecurityGroup(ctx, "")),
		"Instances, none":         second(c.ECS.Instances(ctx, nil)),
		"Instances, empty":        second(c.ECS.Instances(ctx, []string{"i-1", ""})),
		"Blocks":                  second(c.VPC.Blocks(ctx, "")),
		"ServerGroups":            second(c.NLB.ServerGroups(ctx, "", "v")),
		"Servers":                 second(c.NLB.Servers(ctx, "")),
		"Applications":            second(c.Quotas.Applications(ctx, "slb", "")),
		"Named":                   second(c.Quotas.Named(ctx, "slb", "")),
		"Apply":                   w.Quotas.Apply(ctx, "slb", "q_1", nil, 1, ""),
		"RolePolicies":            second(c.RAM.RolePolicies(ctx, "")),
		"Policy":                  second(c.RAM.Policy(ctx, "", cloud.CustomPolicy)),
		"PolicyVersions":          second(c.RAM.PolicyVersions(ctx, "x", "")),
		"PolicyRoles":             second(c.RAM.PolicyRoles(ctx, "", "")),
		"Find":                    second(c.Tickets.Find(ctx, "")),
		"Tag":                     w.SLB.Tag(ctx, "lb-1", "", "v"),
		"Untag":                   w.SLB.Untag(ctx, "", "k"),
		"CreatePolicyVersion":     w.RAM.CreatePolicyVersion(ctx, policy, ""),
		"DeletePolicyVersion":     w.RAM.DeletePolicyVersion(ctx, policy, ""),
		"SetDefaultPolicyVersion": w.RAM.SetDefaultPolicyVersion(ctx, "", "v1"),
		"Create":                  second(w.Tickets.Create(ctx, cloud.Ticket{Title: "t"})),
		"Reply":                   w.Tickets.Reply(ctx, "T1", ""),
		"Close":                   w.Tickets.Close(ctx, ""),
		"Reopen":                  w.Tickets.Reopen(ctx, "", "r"),
	} {
		if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Code != "NotSent" || !strings.Contains(e.Message, "is empty") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(s.Calls()); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func TestOnce(t *testing.T) {
	s := sim.New(t, world())
	r := dial(t, s, s.Client("c", "vpc:DescribeVSwitches", "cs:DescribeClusterDetail"))
	free := func(r *cloud.Reader, id string) int64 {
		t.Helper()
		list, err := r.VPC.VSwitches(t.Context(), "vpc-1")
		i := slices.IndexFunc(list, func(v cloud.VSwitch) bool { return v.ID == id })
		if err != nil || i < 0 {
			t.Fatal(list, err)
		}
		return list[i].Free
	}
	once := r.Once()
	if got := free(once, "vsw-b"); got != 41 {
		t.Errorf("got %d free addresses, want 41", got)
	}
	if _, err := once.CS.Cluster(t.Context()); err != nil {
		t.Error(err)
	}
	s.Edit(func(st *sim.State) { *st.VSwitches["vsw-b"].Free = 40 })
	for name, want := range map[*cloud.Reader]int64{once: 41, r: 40, r.Once(): 40} {
		if got := free(name, "vsw-b"); got != want {
			t.Errorf("got %d free addresses, want %d", got, want)
		}
	}
	if got := free(once, "vsw-a"); got != 0 {
		t.Errorf("got %d free addresses of another vSwitch, want 0", got)
	}
	if first, err := once.CS.Cluster(t.Context()); err != nil || first.ID != s.Snapshot().Cluster.ID {
		t.Errorf("got %v and %v, want the cluster again", first, err)
	}
	want := map[string]int{"DescribeVSwitches": 3, "DescribeClusterDetail": 1}
	got := map[string]int{}
	for _, c := range s.CallsOf("c") {
		got[c.Action]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	if _, err := once.SLB.LoadBalancers(t.Context(), cloud.LBFilter{}); !errors.Is(err, cloud.ErrDenied) {
		t.Errorf("got %v, want %v", err, cloud.ErrDenied)
	}
	s.Client("c", "slb:DescribeLoadBalancers")
	if lbs, err := once.SLB.LoadBalancers(t.Context(), cloud.LBFilter{Name: "web"}); err != nil || len(lbs) != 1 {
		t.Errorf("got %v and %v, want one load balancer", lbs, err)
	}
}

func TestServiceAccount(t *testing.T) {
	simtest.ServiceAccount(t, func(ctx context.Context) error { _, err := cloud.DefaultChain()(ctx); return err })
}
