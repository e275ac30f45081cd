package cloud

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"
)

// A Kubeconfig gives access to a cluster for a while.
type Kubeconfig struct {
	Text []byte    // YAML with a key, not for logs
	Ends time.Time // when the API server stops accepting it
}

// Kubeconfig returns a kubeconfig for the caller, a RAM user or role, whose permissions RBAC decides. It is valid for life, from 15 minutes
// to 3 days, and uses the API server's address inside the VPC. The error is ErrNotFound without such a cluster. It needs
// grant.DescribeClusterUserKubeconfig
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-describeclusteruserkubeconfig).
func (s CS) Kubeconfig(ctx context.Context, life time.Duration) (Kubeconfig, error) {
	type answer struct {
		Config     text `json:"config"`
		Expiration text `json:"expiration"`
	}
	var ends time.Time
	a, err := read(ctx, s.c, call[answer]{
		request: func() requests.AcsRequest {
			r := cs.CreateDescribeClusterUserKubeconfigRequest()
			r.ClusterId = s.c.ClusterID
			r.PrivateIpAddress = requests.NewBoolean(true)
			r.QueryParams["TemporaryDurationMinutes"] = strconv.Itoa(int(life / time.Minute))
			return r
		},
		check: func(a answer) (err error) {
			if a.Config == "" || a.Expiration == "" {
				return lack("config and expiration of the kubeconfig")
			}
			if ends, err = time.Parse(time.RFC3339, string(a.Expiration)); err != nil {
				return fmt.Errorf("the expiration of the kubeconfig is %q, and no time", a.Expiration)
			}
			return nil
		},
		gone: clusterGone,
	})
	if err != nil {
		return Kubeconfig{}, err
	}
	return Kubeconfig{Text: []byte(a.Config), Ends: ends}, nil
}
