package cs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestAddons(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		Cluster: sim.Cluster{
			ID: "c-a", Addons: map[string]string{"cloud-controller-manager": "v2.11.1", "coredns": "v1.9"},
			AddonLatest: map[string]string{"cloud-controller-manager": "v2.14.0"},
		},
		Lag: sim.Lag{Addons: sim.Duration(time.Minute)},
	}, sim.WithClock(func() time.Time { return now }))
	client := simtest.Dial(t, c, c.Client("up", "cs:UpgradeK8sComponents", "cs:Describe*"), cs.NewClientWithOptions)
	version := func() (v struct {
		Version string `json:"version"`
		Next    string `json:"next_version"`
		Can     bool   `json:"can_upgrade"`
	}) {
		t.Helper()
		r := cs.CreateDescribeClusterAddonsVersionRequest()
		r.ClusterId = "c-a"
		resp, err := client.DescribeClusterAddonsVersion(r)
		simtest.Check(t, err)
		m := map[string]json.RawMessage{}
		simtest.Check(t, json.Unmarshal(resp.GetHttpContentBytes(), &m))
		simtest.Check(t, json.Unmarshal(m["cloud-controller-manager"], &v))
		return v
	}
	upgrade := func(body string) (string, error) {
		r := cs.CreateUpgradeClusterAddonsRequest()
		r.ClusterId = "c-a"
		r.SetContent([]byte(body))
		r.SetContentType("application/json")
		resp, err := client.UpgradeClusterAddons(r)
		if err != nil {
			return "", err
		}
		var made struct {
			Task string `json:"task_id"`
		}
		simtest.Check(t, json.Unmarshal(resp.GetHttpContentBytes(), &made))
		return made.Task, nil
	}
	state := func(id string) string {
		t.Helper()
		var info struct {
			State string `json:"state"`
		}
		// The SDK's request type cannot decode task_result, which is a list.
		simtest.Check(t, simtest.CallCS(t, c, "GET", "/tasks/"+id, "", &info))
		return info.State
	}
	const ccm = `[{"component_name":"cloud-controller-manager","next_version":"v2.14.0"}]`
	if v := version(); v.Version != "v2.11.1" || v.Next != "v2.14.0" || !v.Can {
		t.Errorf("got %+v", v)
	}
	id, err := upgrade(ccm)
	simtest.Check(t, err)
	if got := state(id); got != "running" || version().Version != "v2.11.1" {
		t.Errorf("got %s, %+v", got, version())
	}
	_, err = upgrade(ccm)
	simtest.Refused(t, err, "", 409)
	var status map[string]struct {
		Tasks struct {
			Status string `json:"status"`
		} `json:"tasks"`
	}
	simtest.Check(t, simtest.CallCS(t, c, "GET", "/clusters/c-a/components/cloud-controller-manager/upgradestatus", "", &status))
	if got := status["cloud-controller-manager"].Tasks.Status; got != "Upgrading" {
		t.Errorf("got %s", got)
	}
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	if got := state(id); got != "success" || version().Version != "v2.14.0" || version().Can {
		t.Errorf("got %s, %+v", got, version())
	}
	for _, bad := range []string{`{}`, `[]`, ccm, `[{"component_name":"none","next_version":"v1"}]`,
		`[{"component_name":"coredns","version":"v1.8","next_version":"v2"}]`} {
		if _, err := upgrade(bad); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	c.Fault(sim.Fault{Action: "UpgradeClusterAddons", FailJob: true, Count: 1})
	id, err = upgrade(`[{"component_name":"coredns","next_version":"v1.10"}]`)
	simtest.Check(t, err)
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	if got := state(id); got != "fail" || c.Snapshot().Cluster.Addons["coredns"] != "v1.9" {
		t.Errorf("got %s", got)
	}

	simtest.Check(t, simtest.CallCS(t, c, "POST", "/clusters/c-a/components/coredns", `{"config":"{\"replicas\":3}"}`, nil))
	var one struct{ Name, Version, State, Config string }
	simtest.Check(t, simtest.CallCS(t, c, "GET", "/clusters/c-a/addon_instances/coredns", "", &one))
	if one.Version != "v1.9" || one.State != "active" || one.Config != `{"replicas":3}` {
		t.Errorf("got %+v", one)
	}
	var all struct{ Addons []struct{ Name string } }
	simtest.Check(t, simtest.CallCS(t, c, "GET", "/clusters/c-a/addon_instances", "", &all))
	if len(all.Addons) != 2 || all.Addons[0].Name != "cloud-controller-manager" {
		t.Errorf("got %+v", all)
	}
	simtest.Refused(t, simtest.CallCS(t, c, "GET", "/clusters/c-a/addon_instances/none", "", nil), "", 404)
}

func TestKubeconfig(t *testing.T) {
	c := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: "c-a", Kubeconfig: "public", PrivateKubeconfig: "private"}})
	client := simtest.Dial(t, c, c.Client("k", "cs:DescribeClusterUserKubeconfig"), cs.NewClientWithOptions)
	get := func(private bool, minutes string) (out struct{ Config, Expiration string }, err error) {
		r := cs.CreateDescribeClusterUserKubeconfigRequest()
		r.ClusterId, r.PrivateIpAddress = "c-a", requests.NewBoolean(private)
		r.QueryParams["TemporaryDurationMinutes"] = minutes
		resp, err := client.DescribeClusterUserKubeconfig(r)
		if err == nil {
			err = json.Unmarshal(resp.GetHttpContentBytes(), &out)
		}
		return out, err
	}
	got, err := get(true, "60")
	simtest.Check(t, err)
	ends, err := time.Parse(time.RFC3339, got.Expiration)
	simtest.Check(t, err)
	if left := time.Until(ends); got.Config != "private" || left < 58*time.Minute || left > time.Hour {
		t.Errorf("got %+v", got)
	}
	if got, err := get(false, ""); err != nil || got.Config != "public" {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = get(false, "5")
	simtest.Refused(t, err, "", 400)
}
