package sim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	sdkerrors "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/bssopenapi"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/workorder"

	"github.com/lbremedy/lbremedy/test/sim"
)

func TestVPC(t *testing.T) {
	w := &sim.World{EIPs: []sim.EIP{{IP: "198.51.100.7", Instance: "lb-1"}}}
	for i := range 60 {
		w.VSwitches = append(w.VSwitches, sim.VSwitch{ID: fmt.Sprintf("vsw-%02d", i), Free: new(i)})
	}
	c := sim.New(t, w)
	client := dial(t, c, c.Admin(), vpc.NewClientWithOptions)
	seen := 0
	for page := 1; ; page++ {
		r := vpc.CreateDescribeVSwitchesRequest()
		r.VpcId, r.PageSize, r.PageNumber = "vpc-1", requests.NewInteger(50), requests.NewInteger(page)
		resp, err := client.DescribeVSwitches(r)
		check(t, err)
		if len(resp.VSwitches.VSwitch) == 0 {
			break
		}
		for _, v := range resp.VSwitches.VSwitch {
			if v.AvailableIpAddressCount != int64(seen) || v.Status != "Available" || v.ZoneId != "cn-hangzhou-h" {
				t.Errorf("got %+v", v)
			}
			seen++
		}
	}
	if seen != 60 {
		t.Errorf("got %d vSwitches, want 60", seen)
	}
	r := vpc.CreateDescribeVSwitchesRequest()
	r.PageSize = requests.NewInteger(51)
	_, err := client.DescribeVSwitches(r)
	refused(t, err, "InvalidParameter.PageSize", 400)

	a := vpc.CreateDescribeVSwitchAttributesRequest()
	a.VSwitchId = "vsw-07"
	one, err := client.DescribeVSwitchAttributes(a)
	check(t, err)
	if one.AvailableIpAddressCount != 7 || one.VpcId != "vpc-1" {
		t.Errorf("got %+v", one)
	}
	a.VSwitchId = "vsw-x"
	_, err = client.DescribeVSwitchAttributes(a)
	refused(t, err, "InvalidVswitchID.NotFound", 404)
	v := vpc.CreateDescribeVpcAttributeRequest()
	v.VpcId = "vpc-1"
	net, err := client.DescribeVpcAttribute(v)
	check(t, err)
	if net.CidrBlock != "10.0.0.0/8" || len(net.VSwitchIds.VSwitchId) != 60 {
		t.Errorf("got %+v", net)
	}
	v.VpcId = "vpc-x"
	_, err = client.DescribeVpcAttribute(v)
	refused(t, err, "InvalidVpcId.NotFound", 404)
	e := vpc.CreateDescribeEipAddressesRequest()
	e.AssociatedInstanceId, e.AssociatedInstanceType = "lb-1", "SlbInstance"
	eips, err := client.DescribeEipAddresses(e)
	check(t, err)
	if l := eips.EipAddresses.EipAddress; len(l) != 1 || l[0].IpAddress != "198.51.100.7" || l[0].Status != "InUse" {
		t.Errorf("got %+v", l)
	}
}

func TestECS(t *testing.T) {
	c := sim.New(t, &sim.World{
		ENIs:      []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.5", "10.0.0.6"}, VSwitch: "vsw-1", Instance: "i-a"}, {ID: "eni-b", IPs: []string{"10.0.0.7"}, Status: "Available"}},
		Instances: []sim.Instance{{ID: "i-a", IP: "10.0.0.2", VSwitch: "vsw-1"}, {ID: "i-b"}},
	})
	client := dial(t, c, c.Admin(), ecs.NewClientWithOptions)
	r := ecs.CreateDescribeNetworkInterfacesRequest()
	r.VpcId, r.PrivateIpAddress, r.Status = "vpc-1", &[]string{"10.0.0.6", "10.0.0.7"}, "InUse"
	enis, err := client.DescribeNetworkInterfaces(r)
	check(t, err)
	if l := enis.NetworkInterfaceSets.NetworkInterfaceSet; len(l) != 1 || l[0].NetworkInterfaceId != "eni-a" || l[0].PrivateIpAddress != "10.0.0.5" || len(l[0].PrivateIpSets.PrivateIpSet) != 2 {
		t.Errorf("got %+v", l)
	}
	i := ecs.CreateDescribeInstancesRequest()
	i.InstanceIds, i.MaxResults = `["i-a","i-x"]`, requests.NewInteger(10)
	instances, err := client.DescribeInstances(i)
	check(t, err)
	if l := instances.Instances.Instance; len(l) != 1 || l[0].VpcAttributes.PrivateIpAddress.IpAddress[0] != "10.0.0.2" || l[0].ZoneId != "cn-hangzhou-h" {
		t.Errorf("got %+v", l)
	}
}

func TestCS(t *testing.T) {
	c := sim.New(t, &sim.World{
		VSwitches: []sim.VSwitch{{ID: "vsw-a"}, {ID: "vsw-pod", Zone: "cn-hangzhou-i"}},
		Cluster:   sim.Cluster{Type: "Kubernetes", Network: "terway-eniip", PodVSwitches: []string{"vsw-pod"}, Addons: map[string]string{"cloud-controller-manager": "v2.13.0"}},
	})
	client := dial(t, c, c.Admin(), cs.NewClientWithOptions)
	id := c.Snapshot().Cluster.ID
	r := cs.CreateDescribeClusterDetailRequest()
	r.ClusterId = id
	resp, err := client.DescribeClusterDetail(r)
	check(t, err)
	var detail struct {
		VPC        string   `json:"vpc_id"`
		VSwitches  []string `json:"vswitch_ids"`
		Type       string   `json:"cluster_type"`
		MetaData   string   `json:"meta_data"`
		WorkerRole string   `json:"worker_ram_role_name"`
	}
	check(t, json.Unmarshal(resp.GetHttpContentBytes(), &detail))
	if detail.VPC != "vpc-1" || !slices.Equal(detail.VSwitches, []string{"vsw-a"}) || detail.Type != "Kubernetes" ||
		!strings.Contains(detail.MetaData, `"Network":"terway-eniip"`) || !strings.Contains(detail.MetaData, "vsw-pod") {
		t.Errorf("got %+v", detail)
	}
	rr := cs.CreateDescribeClusterResourcesRequest()
	rr.ClusterId = id
	res, err := client.DescribeClusterResources(rr)
	// The answer is a list, which this SDK cannot decode; it keeps the text.
	if e, ok := errors.AsType[*sdkerrors.ClientError](err); !ok || e.ErrorCode() != "SDK.JsonUnmarshalError" {
		t.Errorf("got %v", err)
	}
	if got := res.GetHttpContentString(); !strings.Contains(got, `"instance_id":"KubernetesMasterRole-`) || !strings.Contains(got, "ALIYUN::RAM::Role") {
		t.Errorf("got %s", got)
	}
	ra := cs.CreateDescribeClusterAddonsVersionRequest()
	ra.ClusterId = id
	addons, err := client.DescribeClusterAddonsVersion(ra)
	check(t, err)
	var byName map[string]struct {
		Version string `json:"version"`
	}
	check(t, json.Unmarshal(addons.GetHttpContentBytes(), &byName))
	if byName["cloud-controller-manager"].Version != "v2.13.0" {
		t.Errorf("got %+v", byName)
	}
	rp := cs.CreateDescribeClusterNodePoolsRequest()
	rp.ClusterId = id
	pools, err := client.DescribeClusterNodePools(rp)
	check(t, err)
	if got := pools.GetHttpContentString(); !strings.Contains(got, `"is_default":true`) || !strings.Contains(got, `"vswitch_ids":["vsw-a"]`) {
		t.Errorf("got %s", got)
	}
	r.ClusterId = "c-none"
	_, err = client.DescribeClusterDetail(r)
	if e := refused(t, err, "", 404); !strings.Contains(e.Message(), `"code":"ErrorClusterNotFound"`) {
		t.Errorf("got %s", e.Message())
	}
	r.ClusterId = id
	_, err = dial(t, c, sim.Credentials{AccessKeyID: c.Admin().AccessKeyID, Secret: "x"}, cs.NewClientWithOptions).DescribeClusterDetail(r)
	refused(t, err, "SignatureDoesNotMatch", 400)
}

func TestDesk(t *testing.T) {
	c := sim.New(t, nil)
	client := dial(t, c, c.Admin(), workorder.NewClientWithOptions)
	products, err := client.ListProducts(workorder.CreateListProductsRequest())
	check(t, err)
	rc := workorder.CreateListCategoriesRequest()
	rc.ProductId = requests.NewInteger64(products.Data[0].ProductList[0].ProductId)
	categories, err := client.ListCategories(rc)
	check(t, err)
	r := workorder.CreateCreateTicketRequest()
	r.Severity, r.Description = requests.NewInteger(1), "The role lacks nlb:ListAsynJobs."
	_, err = client.CreateTicket(r)
	refused(t, err, "MissingParameter.CategoryId", 400)
	r.CategoryId = fmt.Sprint(categories.Data[0].CategoryId)
	r.FormParams["Title"] = "a title" // not in the request's struct
	made, err := client.CreateTicket(r)
	check(t, err)
	reply := workorder.CreateReplyTicketRequest()
	reply.TicketId, reply.Content, reply.Encrypt = made.Data, "more", requests.NewBoolean(false)
	_, err = client.ReplyTicket(reply)
	check(t, err)
	l := workorder.CreateListTicketsRequest()
	l.Keyword, l.StatusList, l.PageNumber, l.PageSize = "ListAsynJobs", &[]string{"dealing"}, requests.NewInteger(1), requests.NewInteger(10)
	tickets, err := client.ListTickets(l)
	check(t, err)
	if tickets.TotalCount != 1 || tickets.Data[0].TicketId != made.Data || tickets.Data[0].Title != "a title" {
		t.Errorf("got %+v", tickets)
	}
	n := workorder.CreateListTicketNotesRequest()
	n.TicketId = made.Data
	notes, err := client.ListTicketNotes(n)
	check(t, err)
	if len(notes.Data) != 2 || notes.Data[1].Dialog.Content != "more" {
		t.Errorf("got %+v", notes.Data)
	}
	end := workorder.CreateCloseTicketRequest()
	end.TicketId = made.Data
	_, err = client.CloseTicket(end)
	check(t, err)
	if tickets, err = client.ListTickets(l); err != nil || tickets.TotalCount != 0 {
		t.Errorf("got %+v, %v", tickets, err)
	}
}

// TestAPIServer shows the load balancer that the controller did not make.
func TestAPIServer(t *testing.T) {
	c := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: "c-a", APIServer: "lb-api"}})
	got, err := attribute(dial(t, c, c.Admin(), slb.NewClientWithOptions), "lb-api")
	check(t, err)
	if l := got.ListenerPorts.ListenerPort; len(l) != 1 || l[0] != 6443 || got.AddressType != "intranet" || got.VpcId != "vpc-1" || got.Tags.Tag[0].TagKey != "ack.aliyun.com" || got.Tags.Tag[0].TagValue != "c-a" {
		t.Errorf("got %+v", got)
	}
	var detail struct {
		ID  string `json:"external_loadbalancer_id"`
		URL string `json:"master_url"`
	}
	check(t, roaCall(t, c, "GET", "/clusters/c-a", "", &detail))
	if detail.ID != "lb-api" || !contains(detail.URL, got.Address+":6443") {
		t.Errorf("got %+v", detail)
	}
	if again := sim.New(t, c.Snapshot()).Snapshot(); len(again.LoadBalancers) != 1 {
		t.Errorf("got %+v", again.LoadBalancers)
	}
	c.DropLoadBalancer("lb-api")
	check(t, roaCall(t, c, "GET", "/clusters/c-a", "", &detail))
	if !contains(detail.URL, got.Address+":6443") {
		t.Errorf("without its load balancer: got %+v", detail)
	}
}

// TestTicketLife closes a ticket, opens it again and closes it for good, by
// actions that the SDK has no requests for.
func TestTicketLife(t *testing.T) {
	c := sim.New(t, &sim.World{Tickets: []sim.Ticket{{ID: "T1", Title: "a", Description: "case 7"}, {ID: "T2", Description: "other", Status: "completed"}}})
	client := dial(t, c, c.Admin(), sdk.NewClientWithOptions)
	call := func(action string, said map[string]string, out any) error {
		r := requests.NewCommonRequest()
		r.Product, r.Version, r.ApiName, r.Domain, r.QueryParams = "Workorder", "2021-06-10", action, "workorder.aliyuncs.com", said
		resp, err := client.ProcessCommonRequest(r)
		if err == nil && out != nil {
			err = json.Unmarshal(resp.GetHttpContentBytes(), out)
		}
		return err
	}
	get := func() string {
		t.Helper()
		var out struct {
			Data struct {
				Description string
				Status      struct{ Value string }
			}
		}
		check(t, call("GetTicket", map[string]string{"TicketId": "T1"}, &out))
		if out.Data.Description != "case 7" {
			t.Errorf("got %+v", out)
		}
		return out.Data.Status.Value
	}
	if got := get(); got != "2" {
		t.Errorf("got %s", got)
	}
	refused(t, call("ReopenTicket", map[string]string{"TicketId": "T1", "Content": "again"}, nil), "param.illegal", 400)
	check(t, call("CloseTicket", map[string]string{"TicketId": "T1"}, nil))
	refused(t, call("ReplyTicket", map[string]string{"TicketId": "T1", "Content": "more", "Encrypt": "false"}, nil), "param.illegal", 400)
	if got := get(); got != "6" {
		t.Errorf("got %s", got)
	}
	check(t, call("ReopenTicket", map[string]string{"TicketId": "T1", "Content": "again"}, nil))
	check(t, call("ReplyTicket", map[string]string{"TicketId": "T1", "Content": "more", "Encrypt": "false"}, nil))
	check(t, call("CloseTicket", map[string]string{"TicketId": "T1"}, nil))
	check(t, call("EvaluateTicket", map[string]string{"TicketId": "T1", "Solved": "true", "Score": "5"}, nil))
	refused(t, call("EvaluateTicket", map[string]string{"TicketId": "T1", "Solved": "true", "Score": "6"}, nil), "param.illegal", 400)
	var list struct{ TotalCount int }
	check(t, call("ListTickets", map[string]string{"StatusList.1": "confirmed", "PageNumber": "1", "PageSize": "10"}, &list))
	if list.TotalCount != 2 {
		t.Errorf("got %+v", list)
	}
	refused(t, call("ListTickets", map[string]string{"PageNumber": "1", "PageSize": "9"}, nil), "param.illegal", 400)
	refused(t, call("GetTicket", map[string]string{"TicketId": "T9"}, nil), "param.illegal", 400)
}

func TestQuotasAndBalance(t *testing.T) {
	c := sim.New(t, &sim.World{Account: sim.Account{Balance: "1,234.56"}})
	client := dial(t, c, c.Admin(), quotas.NewClientWithOptions)
	r := quotas.CreateListProductQuotasRequest()
	r.ProductCode, r.KeyWord = "slb", "slb_quota_backendservers_num"
	list, err := client.ListProductQuotas(r)
	check(t, err)
	if len(list.Quotas) != 1 || list.Quotas[0].TotalQuota != 200 || !list.Quotas[0].Adjustable || list.Quotas[0].QuotaActionCode == "" {
		t.Fatalf("got %+v", list.Quotas)
	}
	a := quotas.CreateCreateQuotaApplicationRequest()
	a.ProductCode, a.QuotaActionCode, a.DesireValue, a.Reason = "slb", list.Quotas[0].QuotaActionCode, requests.NewFloat(300), "more backends"
	app, err := client.CreateQuotaApplication(a)
	check(t, err)
	if app.Status != "Process" || app.DesireValue != 300 {
		t.Errorf("got %+v", app)
	}
	b, err := dial(t, c, c.Client("money", "bss:DescribeAcccount"), bssopenapi.NewClientWithOptions).QueryAccountBalance(bssopenapi.CreateQueryAccountBalanceRequest())
	check(t, err)
	if !b.Success || b.Data.AvailableAmount != "1,234.56" || b.Data.Currency != "CNY" {
		t.Errorf("got %+v", b)
	}
}
