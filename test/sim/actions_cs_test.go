package sim_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"

	"github.com/lbremedy/lbremedy/test/sim"
)

// csCalls are the calls of the container service. The SDK has requests for all
// that it can decode the answers of.
func csCalls() []actionCall {
	const product, version = "CS", "2015-12-15"
	upgrade := func(t testing.TB, c *sim.Cloud) {
		t.Helper()
		check(t, roaCall(t, c, "POST", "/clusters/c-a/components/upgrade", `[{"component_name":"cloud-controller-manager","next_version":"v2.14.0"}]`, nil))
	}
	return []actionCall{
		on("cs:DescribeClustersV1", cs.CreateDescribeClustersV1Request, cs.CreateDescribeClustersV1Response, nil),
		on("cs:DescribeClusterDetail", cs.CreateDescribeClusterDetailRequest, cs.CreateDescribeClusterDetailResponse, func(r *cs.DescribeClusterDetailRequest) {
			r.ClusterId = "c-a"
		}),
		on("cs:DescribeClusterAddonsVersion", cs.CreateDescribeClusterAddonsVersionRequest, cs.CreateDescribeClusterAddonsVersionResponse, func(r *cs.DescribeClusterAddonsVersionRequest) {
			r.ClusterId = "c-a"
		}),
		on("cs:DescribeClusterAddonsUpgradeStatus", cs.CreateDescribeClusterAddonsUpgradeStatusRequest, cs.CreateDescribeClusterAddonsUpgradeStatusResponse, func(r *cs.DescribeClusterAddonsUpgradeStatusRequest) {
			r.ClusterId = "c-a"
		}),
		on("cs:DescribeClusterNodePools", cs.CreateDescribeClusterNodePoolsRequest, cs.CreateDescribeClusterNodePoolsResponse, func(r *cs.DescribeClusterNodePoolsRequest) {
			r.ClusterId = "c-a"
		}),
		on("cs:DescribeClusterNodePoolDetail", cs.CreateDescribeClusterNodePoolDetailRequest, cs.CreateDescribeClusterNodePoolDetailResponse, func(r *cs.DescribeClusterNodePoolDetailRequest) {
			r.ClusterId = "c-a"
			r.NodepoolId = "np-a"
		}),
		on("cs:DescribeClusterUserKubeconfig", cs.CreateDescribeClusterUserKubeconfigRequest, cs.CreateDescribeClusterUserKubeconfigResponse, func(r *cs.DescribeClusterUserKubeconfigRequest) {
			r.ClusterId = "c-a"
		}),
		on("cs:DescribeUserQuota", cs.CreateDescribeUserQuotaRequest, cs.CreateDescribeUserQuotaResponse, nil),
		on("cs:DescribeAddons", cs.CreateDescribeAddonsRequest, cs.CreateDescribeAddonsResponse, nil),
		on("cs:UpgradeK8sComponents", cs.CreateUpgradeClusterAddonsRequest, cs.CreateUpgradeClusterAddonsResponse, func(r *cs.UpgradeClusterAddonsRequest) {
			r.ClusterId = "c-a"
			r.SetContent([]byte(`[{"component_name":"cloud-controller-manager","next_version":"v2.14.0"}]`))
			r.SetContentType("application/json")
		}),
		on("cs:InstallK8sComponents", cs.CreateInstallClusterAddonsRequest, cs.CreateInstallClusterAddonsResponse, func(r *cs.InstallClusterAddonsRequest) {
			r.ClusterId = "c-a"
			r.SetContent([]byte(`[{"name":"ack-node-problem-detector"}]`))
			r.SetContentType("application/json")
		}),
		on("cs:UnInstallK8sComponents", cs.CreateUnInstallClusterAddonsRequest, cs.CreateUnInstallClusterAddonsResponse, func(r *cs.UnInstallClusterAddonsRequest) {
			r.ClusterId = "c-a"
			r.SetContent([]byte(`[{"name":"coredns"}]`))
			r.SetContentType("application/json")
		}),
		plainly("cs:DescribeClusterResources", product, version, "GET /clusters/c-a/resources"),
		plainly("cs:QueryK8sComponentUpgradeStatus", product, version, "GET /clusters/c-a/components/coredns/upgradestatus"),
		plainly("cs:ModifyClusterAddon", product, version, "POST /clusters/c-a/components/coredns", `{"config":"{}"}`),
		plainly("cs:ListClusterAddonInstances", product, version, "GET /clusters/c-a/addon_instances"),
		plainly("cs:GetClusterAddonInstance", product, version, "GET /clusters/c-a/addon_instances/coredns"),
		plainly("cs:ListAddons", product, version, "GET /addons"),
		plainly("cs:DescribeAddon", product, version, "GET /addons/coredns"),
		plainly("cs:RunClusterCheck", product, version, "POST /clusters/c-a/checks", `{"type":"ClusterUpgrade"}`),
		plainly("cs:CreateClusterDiagnosis", product, version, "POST /clusters/c-a/diagnosis", `{"type":"cluster"}`),
		plainly("cs:DescribeTaskInfo", product, version, "GET /tasks/T-74jqwlqpyvafzbiea8c50001").after(upgrade),
	}
}
