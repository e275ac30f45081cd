// Package connect configures a program's cluster and cloud and connects to both. Begin with [FromEnv] and [Config].
package connect

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Config says on which cluster and cloud the hands of this process work. FromEnv reads each field up to VPC from its environment variable.
type Config struct {
	Cluster    string // LBREMEDY_CLUSTER: ID of the ACK cluster
	Region     string // LBREMEDY_REGION: its region, such as cn-hangzhou
	Kubeconfig string // LBREMEDY_KUBECONFIG: empty: the pod's own, then KUBECONFIG, then ~/.kube/config
	Context    string // LBREMEDY_CONTEXT: context in the kubeconfig; empty: the current one
	From       string // LBREMEDY_KUBECONFIG_FROM: cs: fetched from the container service; data: Data; empty: Kubeconfig
	As         string // LBREMEDY_KUBECONFIG_AS: user, such as a ServiceAccount, for requests with a kubeconfig from cs
	Data       string // LBREMEDY_KUBECONFIG_DATA: the text of a kubeconfig, or its base64
	Endpoint   string // LBREMEDY_CLOUD_ENDPOINT: host:port that answers for all products; empty: the real endpoints
	Scheme     string // LBREMEDY_CLOUD_SCHEME: HTTPS, or HTTP for a loopback endpoint
	VPC        bool   // LBREMEDY_CLOUD_VPC=true: use the endpoints inside the VPC

	Credentials cloud.Credentials // nil: the SDK's default chain
	Meter       func(cloud.Call)  // called for each request to the cloud; may be nil
	Log         *slog.Logger
}

// recall is for how long looks share their reads of the cluster, its VPC, the region's load balancers, and the Services that fail together.
// It adds to the age of a plan's reads, which a run keeps below 5 s.
const recall = time.Second

// lease is how long a kubeconfig of the container service is valid: short, because it may leak and is cheap to renew.
const lease = time.Hour

// FromEnv returns the configuration in the environment.
func FromEnv() Config {
	return Config{
		Cluster: os.Getenv("LBREMEDY_CLUSTER"), Region: os.Getenv("LBREMEDY_REGION"),
		Kubeconfig: os.Getenv("LBREMEDY_KUBECONFIG"), Context: os.Getenv("LBREMEDY_CONTEXT"),
		From: os.Getenv("LBREMEDY_KUBECONFIG_FROM"), As: os.Getenv("LBREMEDY_KUBECONFIG_AS"), Data: os.Getenv("LBREMEDY_KUBECONFIG_DATA"),
		Endpoint: os.Getenv("LBREMEDY_CLOUD_ENDPOINT"), Scheme: os.Getenv("LBREMEDY_CLOUD_SCHEME"), VPC: os.Getenv("LBREMEDY_CLOUD_VPC") == "true",
	}
}

// Validate returns missing or wrong settings, one sentence each with the way out, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Cluster == "" {
		errs = append(errs, errors.New("no cluster is named: set --cluster or LBREMEDY_CLUSTER to the ID of the ACK cluster"))
	} else if err := event.ValidCluster(c.Cluster); err != nil {
		errs = append(errs, err)
	}
	if c.Region == "" {
		errs = append(errs, errors.New("no region is named: set --region or LBREMEDY_REGION, such as cn-hangzhou"))
	}
	switch {
	case c.From == "data" && c.Data == "":
		errs = append(errs, errors.New("LBREMEDY_KUBECONFIG_FROM is data, and LBREMEDY_KUBECONFIG_DATA is empty: set it to the text of a kubeconfig"))
	case c.From != "data" && c.Data != "":
		errs = append(errs, errors.New("LBREMEDY_KUBECONFIG_DATA is set and not used: set LBREMEDY_KUBECONFIG_FROM to data"))
	case c.From != "" && c.From != "data" && c.From != "cs":
		errs = append(errs, fmt.Errorf("the kubeconfig can't come from %q: set LBREMEDY_KUBECONFIG_FROM to cs or data, or leave it out", c.From))
	case c.From != "" && (c.Kubeconfig != "" || c.Context != ""):
		errs = append(errs, fmt.Errorf("LBREMEDY_KUBECONFIG_FROM is %s, and a kubeconfig file or context is named as well: choose one", c.From))
	}
	if s := strings.ToUpper(c.Scheme); s != "" && s != "HTTP" && s != "HTTPS" {
		errs = append(errs, fmt.Errorf("the scheme %q is neither HTTPS nor HTTP: correct LBREMEDY_CLOUD_SCHEME", c.Scheme))
	}
	return errors.Join(errs...)
}

// Clients returns the clients of local hands without a request. decode makes a step from data.
func (c Config) Clients(decode func(kind string, data []byte) (remedy.Step, error)) (*hand.Clients, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	account, writer, err := cloud.New(cloud.Config{
		Region: c.Region, ClusterID: c.Cluster, Endpoint: c.Endpoint, Scheme: strings.ToUpper(c.Scheme), VPC: c.VPC, Credentials: c.Credentials, Meter: c.Meter,
		Recall: recall,
	})
	if err != nil {
		return nil, err
	}
	cluster, err := c.kube(account)
	if err != nil {
		return nil, err
	}
	return &hand.Clients{
		Kube: cluster, KubeWriter: kube.NewWriter(cluster), Cloud: account, CloudWriter: writer, Decode: decode, Peers: remedy.NewPeerCache(recall), Log: c.Log,
	}, nil
}

// kube returns the cluster. account fetches a kubeconfig with the key of the request: on Function Compute the function's own role.
func (c Config) kube(account *cloud.Reader) (*kube.Cluster, error) {
	if c.From == "cs" {
		return kube.Leased(func(ctx context.Context) (kube.Lease, error) {
			k, err := account.CS.Kubeconfig(ctx, lease)
			return kube.Lease{Kubeconfig: k.Text, Ends: k.Ends, As: c.As}, err
		}), nil
	}
	if c.From == "data" {
		config, err := kube.Read(plain(c.Data))
		if err != nil {
			return nil, err
		}
		return kube.New(config)
	}
	config, err := kube.Load(c.Kubeconfig, c.Context)
	if err != nil {
		return nil, err
	}
	return kube.New(config)
}

// plain decodes a text that may be base64, which a kubeconfig itself never is.
func plain(data string) []byte {
	if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(data)); err == nil {
		return text
	}
	return []byte(data)
}
