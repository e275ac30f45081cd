package cloud

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
)

// An Instance is an ECS server.
type Instance struct {
	ID     string
	Status string   // "Running", "Stopped" and the steps between
	VPC    string   // ID; empty in the classic network
	IPs    []string // private addresses in the VPC, sorted
}

// instancesAtOnce is how many IDs DescribeInstances accepts:
// https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-describeinstances
const instancesAtOnce = 100

// Instances returns the existing servers of the region with these IDs, sorted by ID. It needs grant.DescribeInstances.
func (e ECS) Instances(ctx context.Context, ids []string) ([]Instance, error) {
	const action = "DescribeInstances"
	if len(ids) == 0 || slices.Contains(ids, "") {
		return nil, absent("ecs", action, "list of instances, or one of them,")
	}
	type wireInstance struct {
		InstanceID    text `json:"InstanceId"`
		Status        text
		VpcAttributes struct {
			VpcID            text `json:"VpcId"`
			PrivateIPAddress struct {
				IPAddress []text `json:"IpAddress"`
			} `json:"PrivateIpAddress"`
		}
	}
	type answer struct {
		NextToken text
		Instances *struct{ Instance []wireInstance }
	}
	var out []Instance
	for part := range slices.Chunk(ids, instancesAtOnce) {
		asked, err := json.Marshal(part)
		if err != nil {
			return nil, absent("ecs", action, "list of instances") // strings always encode
		}
		list, err := chained("ecs", action, pages(ctx, e.c, listing[string, answer, wireInstance]{
			request: func(token string) requests.AcsRequest {
				r := ecs.CreateDescribeInstancesRequest()
				r.InstanceIds = string(asked)
				r.NextToken, r.MaxResults = token, whole(100)
				return r
			},
			page: func(a answer) (p pageOf[wireInstance], err error) {
				if a.Instances == nil {
					return p, lack("Instances")
				}
				return pageOf[wireInstance]{items: a.Instances.Instance, next: string(a.NextToken)}, nil
			},
			check: func(i wireInstance) error {
				if i.InstanceID == "" || i.Status == "" {
					return lack("ID and status of instance %q", i.InstanceID)
				}
				return nil
			},
		}))
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			of := w.VpcAttributes
			i := Instance{ID: string(w.InstanceID), Status: string(w.Status), VPC: string(of.VpcID), IPs: strs(of.PrivateIPAddress.IPAddress)}
			slices.Sort(i.IPs)
			out = append(out, i)
		}
	}
	return sorted(out, func(i Instance) string { return i.ID }), nil
}
