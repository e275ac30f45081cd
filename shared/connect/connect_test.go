package connect_test

import (
	"encoding/base64"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/infra/ram"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		config connect.Config
		want   []string
	}{
		"nothing":       {connect.Config{}, []string{"LBREMEDY_CLUSTER", "LBREMEDY_REGION"}},
		"a bad cluster": {connect.Config{Cluster: "a.b", Region: "r"}, []string{"a.b"}},
		"a bad scheme":  {connect.Config{Cluster: "c", Region: "r", Scheme: "ftp"}, []string{"LBREMEDY_CLOUD_SCHEME"}},
		"from nowhere":  {connect.Config{Cluster: "c", Region: "r", From: "sc"}, []string{"LBREMEDY_KUBECONFIG_FROM", "sc"}},
		"no data":       {connect.Config{Cluster: "c", Region: "r", From: "data"}, []string{"LBREMEDY_KUBECONFIG_DATA is empty"}},
		"data unused":   {connect.Config{Cluster: "c", Region: "r", Data: "x"}, []string{"not used"}},
		"two ways":      {connect.Config{Cluster: "c", Region: "r", From: "cs", Kubeconfig: "f"}, []string{"choose one"}},
	} {
		err := tt.config.Validate()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want it to say %s", name, err, want)
			}
		}
		if _, err := tt.config.Clients(step.Decode); err == nil {
			t.Errorf("%s connects", name)
		}
	}
	good := connect.Config{Cluster: "c-1", Region: "cn-hangzhou", Endpoint: "127.0.0.1:1", Scheme: "http"}
	for name, change := range map[string]func(*connect.Config){
		"no kubeconfig": func(c *connect.Config) { c.Kubeconfig = "no/such/file" },
		"a bad one":     func(c *connect.Config) { c.Kubeconfig = file(t, "{") },
		"a bad address": func(c *connect.Config) {
			c.Kubeconfig = file(t, `{"clusters":[{"name":"a","cluster":{"server":"::"}}],"current-context":"a",`+
				`"contexts":[{"name":"a","context":{"cluster":"a"}}]}`)
		},
		"a bad endpoint": func(c *connect.Config) { c.Endpoint = "example.com:80" },
	} {
		c := good
		change(&c)
		if _, err := c.Clients(step.Decode); err == nil {
			t.Errorf("%s connects", name)
		}
	}
}

func TestKubeconfigFrom(t *testing.T) {
	k := cluster.Join(t)
	ns := k.Namespace(t)
	text, err := os.ReadFile(k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	account := sim.New(t, &sim.World{Cluster: sim.Cluster{ID: "c-1", Kubeconfig: "no way", PrivateKubeconfig: string(text)}})
	base := connect.Config{Cluster: "c-1", Region: account.Region(), Endpoint: account.Addr(), Scheme: "http"}
	as := func(key sim.Credentials) cloud.Credentials {
		return cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token})
	}

	c := base
	c.From, c.Credentials = "cs", as(account.Client("nobody"))
	clients, err := c.Clients(step.Decode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.Kube.Namespace(t.Context(), ns); !errors.Is(err, kube.ErrUnavailable) ||
		!strings.Contains(err.Error(), "cs:DescribeClusterUserKubeconfig") {
		t.Errorf("without the permission: got %v", err)
	}
	d, err := ram.Policy([]grant.Grant{grant.DescribeClusterUserKubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	c.Credentials = as(account.Holder("function", sim.Narrow(string(d.JSON()), account.Snapshot().AccountID, account.Region(), "c-1")))
	if clients, err = c.Clients(step.Decode); err != nil {
		t.Fatal(err)
	}
	account.ResetCalls()
	for range 3 {
		if _, err := clients.Kube.Namespace(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	if calls := account.Calls(); len(calls) != 1 || calls[0].Params["PrivateIpAddress"] != "true" || calls[0].Params["TemporaryDurationMinutes"] != "60" {
		t.Errorf("got %+v, want one call for an hour inside the VPC", calls)
	}

	// In the name of a ServiceAccount, to which the admission policy applies.
	c.As = "system:serviceaccount:" + ns + ":lbremedy-busy" // of a namespace of the test, so other tests' bindings do not apply
	if clients, err = c.Clients(step.Decode); err != nil {
		t.Fatal(err)
	}
	me, err := clients.Kube.Me(t.Context())
	if err != nil || me.Name != c.As || !slices.Contains(me.Groups, "system:serviceaccounts:"+ns) {
		t.Errorf("it comes as %+v, %v", me, err)
	}
	if _, err := clients.Kube.Namespace(t.Context(), ns); !errors.Is(err, kube.ErrDenied) {
		t.Errorf("what the ServiceAccount may not do: got %v", err)
	}

	for name, data := range map[string]string{"plain": string(text), "base64": base64.StdEncoding.EncodeToString(text) + "\n"} {
		c := base
		c.From, c.Data = "data", data
		clients, err := c.Clients(step.Decode)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Kube.Namespace(t.Context(), ns); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c = base
	c.From, c.Data = "data", "a secret that is not a kubeconfig"
	if _, err := c.Clients(step.Decode); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v for data that is not a kubeconfig", err)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := t.TempDir() + "/kubeconfig"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
