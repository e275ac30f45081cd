package sim_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

// csCalls are the calls of the container service. The SDK has request types for those whose answers it can decode.
func csCalls() []actionCall {
	const product, version = "CS", "2015-12-15"
	upgrade := func(t testing.TB, c *sim.Cloud) {
		t.Helper()
		simtest.Check(t, simtest.CallCS(t, c, "POST", "/clusters/c-a/components/upgrade",
			`[{"component_name":"cloud-controller-manager","next_version":"v2.14.0"}]`, nil))
	}
	return []actionCall{
		on("cs:DescribeClustersV1", cs.CreateDescribeClustersV1Request, cs.CreateDescribeClustersV1Response),
		on("cs:DescribeClusterDetail", cs.CreateDescribeClusterDetailRequest, cs.CreateDescribeClusterDetailResponse, "ClusterId", "c-a"),
		on("cs:DescribeClusterAddonsVersion", cs.CreateDescribeClusterAddonsVersionRequest, cs.CreateDescribeClusterAddonsVersionResponse, "ClusterId", "c-a"),
		on("cs:DescribeClusterAddonsUpgradeStatus", cs.CreateDescribeClusterAddonsUpgradeStatusRequest, cs.CreateDescribeClusterAddonsUpgradeStatusResponse,
			"ClusterId", "c-a"),
		on("cs:DescribeClusterNodePools", cs.CreateDescribeClusterNodePoolsRequest, cs.CreateDescribeClusterNodePoolsResponse, "ClusterId", "c-a"),
		on("cs:DescribeClusterNodePoolDetail", cs.CreateDescribeClusterNodePoolDetailRequest, cs.CreateDescribeClusterNodePoolDetailResponse, "ClusterId", "c-a",
			"NodepoolId", "np-a"),
		on("cs:DescribeClusterUserKubeconfig", cs.CreateDescribeClusterUserKubeconfigRequest, cs.CreateDescribeClusterUserKubeconfigResponse, "ClusterId", "c-a"),
		on("cs:DescribeUserQuota", cs.CreateDescribeUserQuotaRequest, cs.CreateDescribeUserQuotaResponse),
		on("cs:DescribeAddons", cs.CreateDescribeAddonsRequest, cs.CreateDescribeAddonsResponse),
		on("cs:UpgradeK8sComponents", cs.CreateUpgradeClusterAddonsRequest, cs.CreateUpgradeClusterAddonsResponse, "ClusterId", "c-a", "Content",
			`[{"component_name":"cloud-controller-manager","next_version":"v2.14.0"}]`),
		on("cs:InstallK8sComponents", cs.CreateInstallClusterAddonsRequest, cs.CreateInstallClusterAddonsResponse, "ClusterId", "c-a", "Content",
			`[{"name":"ack-node-problem-detector"}]`),
		on("cs:UnInstallK8sComponents", cs.CreateUnInstallClusterAddonsRequest, cs.CreateUnInstallClusterAddonsResponse, "ClusterId", "c-a", "Content",
			`[{"name":"coredns"}]`),
		plainly("cs:DescribeClusterResources", product, version, "GET /clusters/c-a/resources"),
		plainly("cs:QueryK8sComponentUpgradeStatus", product, version, "GET /clusters/c-a/components/coredns/upgradestatus"),
		plainly("cs:ModifyClusterAddon", product, version, "POST /clusters/c-a/components/coredns", `{"config":"{}"}`),
		plainly("cs:ListClusterAddonInstances", product, version, "GET /clusters/c-a/addon_instances"),
		plainly("cs:GetClusterAddonInstance", product, version, "GET /clusters/c-a/addon_instances/coredns"),
		plainly("cs:DescribeResourcesDeleteProtection", product, version, "GET /clusters/c-a/resources/namespaces/protection"),
		plainly("cs:UpdateResourcesDeleteProtection", product, version, "PUT /clusters/c-a/resources/protection",
			`{"namespace":"shop","resource_type":"services","resources":["web"],"enable":true}`),
		plainly("cs:ListAddons", product, version, "GET /addons"),
		plainly("cs:DescribeAddon", product, version, "GET /addons/coredns"),
		plainly("cs:RunClusterCheck", product, version, "POST /clusters/c-a/checks", `{"type":"ClusterUpgrade"}`),
		plainly("cs:CreateClusterDiagnosis", product, version, "POST /clusters/c-a/diagnosis", `{"type":"cluster"}`),
		plainly("cs:DescribeTaskInfo", product, version, "GET /tasks/T-74jqwlqpyvafzbiea8c50001").after(upgrade),
	}
}
