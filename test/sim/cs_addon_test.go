package sim_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"

	"github.com/lbremedy/lbremedy/test/sim"
)

// roaCall makes a request of the container service that the SDK has no type for,
// and decodes the answer.
func roaCall(t testing.TB, c *sim.Cloud, method, path, body string, out any) error {
	t.Helper()
	r := requests.NewCommonRequest()
	r.Method, r.Product, r.Version, r.PathPattern, r.Domain = method, "CS", "2015-12-15", path, "cs.cn-hangzhou.aliyuncs.com"
	if body != "" {
		r.Content = []byte(body)
		r.Headers["Content-Type"] = "application/json"
	}
	resp, err := dial(t, c, c.Admin(), sdk.NewClientWithOptions).ProcessCommonRequest(r)
	if err != nil {
		return err
	}
	if out != nil {
		check(t, json.Unmarshal(resp.GetHttpContentBytes(), out))
	}
	return nil
}

func TestAddons(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		Cluster: sim.Cluster{
			ID: "c-a", Addons: map[string]string{"cloud-controller-manager": "v2.11.1", "coredns": "v1.9"}, AddonLatest: map[string]string{"cloud-controller-manager": "v2.14.0"},
		},
		Lag: sim.Lag{Addons: sim.Duration(time.Minute)},
	}, sim.WithClock(func() time.Time { return now }))
	client := dial(t, c, c.Client("up", "cs:UpgradeK8sComponents", "cs:Describe*"), cs.NewClientWithOptions)
	version := func() (v struct {
		Version string `json:"version"`
		Next    string `json:"next_version"`
		Can     bool   `json:"can_upgrade"`
	}) {
		t.Helper()
		r := cs.CreateDescribeClusterAddonsVersionRequest()
		r.ClusterId = "c-a"
		resp, err := client.DescribeClusterAddonsVersion(r)
		check(t, err)
		m := map[string]json.RawMessage{}
		check(t, json.Unmarshal(resp.GetHttpContentBytes(), &m))
		check(t, json.Unmarshal(m["cloud-controller-manager"], &v))
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
		check(t, json.Unmarshal(resp.GetHttpContentBytes(), &made))
		return made.Task, nil
	}
	state := func(id string) string {
		t.Helper()
		var info struct {
			State string `json:"state"`
		}
		// The SDK's own request cannot decode task_result, which is a list.
		check(t, roaCall(t, c, "GET", "/tasks/"+id, "", &info))
		return info.State
	}
	const ccm = `[{"component_name":"cloud-controller-manager","next_version":"v2.14.0"}]`
	if v := version(); v.Version != "v2.11.1" || v.Next != "v2.14.0" || !v.Can {
		t.Errorf("got %+v", v)
	}
	id, err := upgrade(ccm)
	check(t, err)
	if got := state(id); got != "running" || version().Version != "v2.11.1" {
		t.Errorf("got %s, %+v", got, version())
	}
	_, err = upgrade(ccm)
	refused(t, err, "", 409)
	var status map[string]struct {
		Tasks struct {
			Status string `json:"status"`
		} `json:"tasks"`
	}
	check(t, roaCall(t, c, "GET", "/clusters/c-a/components/cloud-controller-manager/upgradestatus", "", &status))
	if got := status["cloud-controller-manager"].Tasks.Status; got != "Upgrading" {
		t.Errorf("got %s", got)
	}
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	if got := state(id); got != "success" || version().Version != "v2.14.0" || version().Can {
		t.Errorf("got %s, %+v", got, version())
	}
	for _, bad := range []string{`{}`, `[]`, ccm, `[{"component_name":"none","next_version":"v1"}]`, `[{"component_name":"coredns","version":"v1.8","next_version":"v2"}]`} {
		if _, err := upgrade(bad); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	c.Fault(sim.Fault{Action: "UpgradeClusterAddons", FailJob: true, Count: 1})
	id, err = upgrade(`[{"component_name":"coredns","next_version":"v1.10"}]`)
	check(t, err)
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	if got := state(id); got != "fail" || c.Snapshot().Cluster.Addons["coredns"] != "v1.9" {
		t.Errorf("got %s", got)
	}

	check(t, roaCall(t, c, "POST", "/clusters/c-a/components/coredns", `{"config":"{\"replicas\":3}"}`, nil))
	var one struct{ Name, Version, State, Config string }
	check(t, roaCall(t, c, "GET", "/clusters/c-a/addon_instances/coredns", "", &one))
	if one.Version != "v1.9" || one.State != "active" || one.Config != `{"replicas":3}` {
		t.Errorf("got %+v", one)
	}
	var all struct{ Addons []struct{ Name string } }
	check(t, roaCall(t, c, "GET", "/clusters/c-a/addon_instances", "", &all))
	if len(all.Addons) != 2 || all.Addons[0].Name != "cloud-controller-manager" {
		t.Errorf("got %+v", all)
	}
	refused(t, roaCall(t, c, "GET", "/clusters/c-a/addon_instances/none", "", nil), "", 404)
}

func TestKubeconfig(t *testing.T) {
	c := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: "c-a", Kubeconfig: "public", PrivateKubeconfig: "private"}})
	client := dial(t, c, c.Client("k", "cs:DescribeClusterUserKubeconfig"), cs.NewClientWithOptions)
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
	check(t, err)
	ends, err := time.Parse(time.RFC3339, got.Expiration)
	check(t, err)
	if left := time.Until(ends); got.Config != "private" || left < 58*time.Minute || left > time.Hour {
		t.Errorf("got %+v", got)
	}
	if got, err := get(false, ""); err != nil || got.Config != "public" {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = get(false, "5")
	refused(t, err, "", 400)
}
