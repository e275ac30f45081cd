package cloud

import (
	"context"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
)

// A SecurityGroup limits the traffic to its members.
type SecurityGroup struct {
	ID          string
	Name        string
	Description string
	Rules       []SecurityRule // for incoming traffic; nil if only the group was read
}

// A SecurityRule accepts or drops incoming traffic. Its source is one of Source, Source6 and Others.
type SecurityRule struct {
	ID          string
	Drop        bool   // otherwise it accepts
	Source      string // IPv4 block or address
	Source6     string // IPv6 block or address
	Others      string // ID of a security group or prefix list whose members are the source
	Protocol    string // "ALL", "TCP", "UDP", …
	Ports       string // such as "80/80"; "-1/-1": all
	Priority    int    // 1 is the highest
	Description string
}

// SecurityGroups returns the security groups of the region with this tag, without their rules. It needs grant.DescribeSecurityGroups.
func (e ECS) SecurityGroups(ctx context.Context, key, value string) ([]SecurityGroup, error) {
	type group struct {
		SecurityGroupID   text `json:"SecurityGroupId"`
		SecurityGroupName text
		Description       text
	}
	type answer struct {
		NextToken      text
		SecurityGroups *struct{ SecurityGroup []group }
	}
	list, err := chained("ecs", "DescribeSecurityGroups", pages(ctx, e.c, listing[string, answer, group]{
		needs: needs{{"key of the tag", key}, {"value of the tag", value}},
		request: func(token string) requests.AcsRequest {
			r := ecs.CreateDescribeSecurityGroupsRequest()
			r.Tag = &[]ecs.DescribeSecurityGroupsTag{{Key: key, Value: value}}
			r.NextToken, r.MaxResults = token, whole(100)
			return r
		},
		page: func(a answer) (p pageOf[group], err error) {
			if a.SecurityGroups == nil {
				return p, lack("SecurityGroups")
			}
			return pageOf[group]{items: a.SecurityGroups.SecurityGroup, next: string(a.NextToken)}, nil
		},
		check: func(g group) error {
			if g.SecurityGroupID == "" {
				return lack("ID of a security group")
			}
			return nil
		},
	}))
	out := values(list, func(g group) SecurityGroup {
		return SecurityGroup{ID: string(g.SecurityGroupID), Name: string(g.SecurityGroupName), Description: string(g.Description)}
	})
	return sorted(out, func(g SecurityGroup) string { return g.ID }), err
}

// SecurityGroup returns a group with its rules for incoming traffic in their order, or ErrNotFound. It needs grant.DescribeSecurityGroupAttribute.
func (e ECS) SecurityGroup(ctx context.Context, id string) (SecurityGroup, error) {
	type rule struct {
		SecurityGroupRuleID text `json:"SecurityGroupRuleId"`
		Direction           text
		Policy              text
		SourceCidrIP        text `json:"SourceCidrIp"`
		Ipv6SourceCidrIP    text `json:"Ipv6SourceCidrIp"`
		SourceGroupID       text `json:"SourceGroupId"`
		SourcePrefixListID  text `json:"SourcePrefixListId"`
		IPProtocol          text `json:"IpProtocol"`
		PortRange           text
		Priority            number
		Description         text
	}
	type answer struct {
		NextToken         text
		SecurityGroupID   text `json:"SecurityGroupId"`
		SecurityGroupName text
		Description       text
		Permissions       *struct{ Permission []rule }
	}
	g := SecurityGroup{ID: id, Rules: []SecurityRule{}}
	list, err := chained("ecs", "DescribeSecurityGroupAttribute", pages(ctx, e.c, listing[string, answer, rule]{
		needs: needs{{"security group ID", id}},
		request: func(token string) requests.AcsRequest {
			r := ecs.CreateDescribeSecurityGroupAttributeRequest()
			r.SecurityGroupId, r.Direction = id, "ingress"
			r.NextToken, r.MaxResults = token, whole(1000)
			return r
		},
		page: func(a answer) (p pageOf[rule], err error) {
			switch {
			case string(a.SecurityGroupID) != id:
				return p, lack("security group %s: it is about %q", id, a.SecurityGroupID)
			case a.Permissions == nil:
				return p, lack("Permissions of security group %s", id)
			}
			g.Name, g.Description = string(a.SecurityGroupName), string(a.Description)
			return pageOf[rule]{items: a.Permissions.Permission, next: string(a.NextToken)}, nil
		},
		check: func(r rule) error {
			policy := strings.ToLower(string(r.Policy))
			if !slices.Contains([]string{"accept", "drop"}, policy) || r.IPProtocol == "" || r.PortRange == "" || !r.Priority.ok {
				return lack("policy, protocol, ports and priority of a rule of security group %s", id)
			}
			return nil
		},
		gone: []string{"InvalidSecurityGroupId.NotFound"},
	}))
	if err != nil {
		return SecurityGroup{}, err
	}
	for _, r := range list {
		if r.Direction == "egress" {
			continue
		}
		others := r.SourceGroupID
		if others == "" {
			others = r.SourcePrefixListID
		}
		g.Rules = append(g.Rules, SecurityRule{
			ID: string(r.SecurityGroupRuleID), Drop: strings.EqualFold(string(r.Policy), "drop"), Source: string(r.SourceCidrIP),
			Source6: string(r.Ipv6SourceCidrIP), Others: string(others), Protocol: strings.ToUpper(string(r.IPProtocol)), Ports: string(r.PortRange),
			Priority: int(r.Priority.n), Description: string(r.Description),
		})
	}
	return g, nil
}
