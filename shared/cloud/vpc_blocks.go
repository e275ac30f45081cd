package cloud

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
)

// Blocks returns the IPv4 and IPv6 blocks of a VPC, the first one before those added later, or ErrNotFound. It needs grant.DescribeVpcAttribute.
func (v VPC) Blocks(ctx context.Context, vpcID string) ([]netip.Prefix, error) {
	type answer struct {
		VpcID               text `json:"VpcId"`
		CidrBlock           text
		SecondaryCidrBlocks struct{ SecondaryCidrBlock []text }
		Ipv6CidrBlock       text
		Ipv6CidrBlocks      struct {
			Ipv6CidrBlock []struct{ Ipv6CidrBlock text }
		}
	}
	var blocks []netip.Prefix
	_, err := read(ctx, v.c, call[answer]{
		needs: needs{{"VPC ID", vpcID}},
		request: func() requests.AcsRequest {
			r := vpc.CreateDescribeVpcAttributeRequest()
			r.VpcId = vpcID
			return r
		},
		check: func(a answer) error {
			switch {
			case string(a.VpcID) != vpcID:
				return lack("VPC %s: it is about %q", vpcID, a.VpcID)
			case a.CidrBlock == "":
				return lack("CidrBlock of VPC %s", vpcID)
			}
			blocks = nil
			texts := append([]text{a.CidrBlock, a.Ipv6CidrBlock}, a.SecondaryCidrBlocks.SecondaryCidrBlock...)
			for _, b := range a.Ipv6CidrBlocks.Ipv6CidrBlock {
				texts = append(texts, b.Ipv6CidrBlock)
			}
			for _, s := range strs(texts) {
				block, err := netip.ParsePrefix(s)
				if err != nil {
					return fmt.Errorf("VPC %s has an invalid address block: %.40q", vpcID, s)
				}
				if !slices.Contains(blocks, block) { // the first IPv6 block is also in its list
					blocks = append(blocks, block)
				}
			}
			return nil
		},
		gone: []string{"InvalidVpcId.NotFound"},
	})
	if err != nil {
		return nil, err
	}
	return blocks, nil
}
