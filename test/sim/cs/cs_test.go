package cs_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	sdkerrors "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestClusters(t *testing.T) {
	c := sim.New(t, nil)
	r := cs.CreateDescribeClustersV1Request()
	resp, err := simtest.Dial(t, c, c.Admin(), cs.NewClientWithOptions).DescribeClustersV1(r)
	simtest.Check(t, err)
	if got := resp.GetHttpContentString(); !strings.Contains(got, c.Snapshot().Cluster.ID) || !strings.Contains(got, `"total_count":1`) {
		t.Errorf("got %s", got)
	}
	r.Name = "other"
	if resp, err = simtest.Dial(t, c, c.Admin(), cs.NewClientWithOptions).DescribeClustersV1(r); err != nil || !strings.Contains(resp.GetHttpContentString(),
		`"total_count":0`) {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestCS(t *testing.T) {
	c := sim.New(t, &sim.World{
		VSwitches: []sim.VSwitch{{ID: "vsw-a"}, {ID: "vsw-pod", Zone: "cn-hangzhou-i"}},
		Cluster: sim.Cluster{Type: "Kubernetes", Network: "terway-eniip", PodVSwitches: []string{"vsw-pod"},
			Addons: map[string]string{"cloud-controller-manager": "v2.13.0"}},
	})
	client := simtest.Dial(t, c, c.Admin(), cs.NewClientWithOptions)
	id := c.Snapshot().Cluster.ID
	r := cs.CreateDescribeClusterDetailRequest()
	r.ClusterId = id
	resp, err := client.DescribeClusterDetail(r)
	simtest.Check(t, err)
	var detail struct {
		VPC        string   `json:"vpc_id"`
		VSwitches  []string `json:"vswitch_ids"`
		Type       string   `json:"cluster_type"`
		MetaData   string   `json:"meta_data"`
		WorkerRole string   `json:"worker_ram_role_name"`
	}
	simtest.Check(t, json.Unmarshal(resp.GetHttpContentBytes(), &detail))
	if detail.VPC != "vpc-1" || !slices.Equal(detail.VSwitches, []string{"vsw-a"}) || detail.Type != "Kubernetes" ||
		!strings.Contains(detail.MetaData, `"Network":"terway-eniip"`) || !strings.Contains(detail.MetaData, "vsw-pod") {
		t.Errorf("got %+v", detail)
	}
	rr := cs.CreateDescribeClusterResourcesRequest()
	rr.ClusterId = id
	res, err := client.DescribeClusterResources(rr)
	// This SDK cannot decode the answer, a list, but keeps its text.
	if e, ok := errors.AsType[*sdkerrors.ClientError](err); !ok || e.ErrorCode() != "SDK.JsonUnmarshalError" {
		t.Errorf("got %v", err)
	}
	if got := res.GetHttpContentString(); !strings.Contains(got, `"instance_id":"KubernetesMasterRole-`) || !strings.Contains(got, "ALIYUN::RAM::Role") {
		t.Errorf("got %s", got)
	}
	ra := cs.CreateDescribeClusterAddonsVersionRequest()
	ra.ClusterId = id
	addons, err := client.DescribeClusterAddonsVersion(ra)
	simtest.Check(t, err)
	var byName map[string]struct {
		Version string `json:"version"`
	}
	simtest.Check(t, json.Unmarshal(addons.GetHttpContentBytes(), &byName))
	if byName["cloud-controller-manager"].Version != "v2.13.0" {
		t.Errorf("got %+v", byName)
	}
	rp := cs.CreateDescribeClusterNodePoolsRequest()
	rp.ClusterId = id
	pools, err := client.DescribeClusterNodePools(rp)
	simtest.Check(t, err)
	if got := pools.GetHttpContentString(); !strings.Contains(got, `"is_default":true`) || !strings.Contains(got, `"vswitch_ids":["vsw-a"]`) {
		t.Errorf("got %s", got)
	}
	r.ClusterId = "c-none"
	_, err = client.DescribeClusterDetail(r)
	if e := simtest.Refused(t, err, "", 404); !strings.Contains(e.Message(), `"code":"ErrorClusterNotFound"`) {
		t.Errorf("got %s", e.Message())
	}
	r.ClusterId = id
	_, err = simtest.Dial(t, c, sim.Credentials{AccessKeyID: c.Admin().AccessKeyID, Secret: "x"}, cs.NewClientWithOptions).DescribeClusterDetail(r)
	simtest.Refused(t, err, "SignatureDoesNotMatch", 400)
}

func TestAPIServer(t *testing.T) {
	c := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: "c-a", APIServer: "lb-api"}})
	got, err := simtest.Attribute(simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions), "lb-api")
	simtest.Check(t, err)
	if l := got.ListenerPorts.ListenerPort; len(l) != 1 || l[0] != 6443 || got.AddressType != "intranet" || got.VpcId != "vpc-1" ||
		got.Tags.Tag[0].TagKey != "ack.aliyun.com" || got.Tags.Tag[0].TagValue != "c-a" {
		t.Errorf("got %+v", got)
	}
	var detail struct {
		ID  string `json:"external_loadbalancer_id"`
		URL string `json:"master_url"`
	}
	simtest.Check(t, simtest.CallCS(t, c, "GET", "/clusters/c-a", "", &detail))
	if detail.ID != "lb-api" || !strings.Contains(detail.URL, got.Address+":6443") {
		t.Errorf("got %+v", detail)
	}
	if again := sim.New(t, c.Snapshot()).Snapshot(); len(again.LoadBalancers) != 1 {
		t.Errorf("got %+v", again.LoadBalancers)
	}
	c.DropLoadBalancer("lb-api")
	simtest.Check(t, simtest.CallCS(t, c, "GET", "/clusters/c-a", "", &detail))
	if !strings.Contains(detail.URL, got.Address+":6443") {
		t.Errorf("without its load balancer: got %+v", detail)
	}
}
