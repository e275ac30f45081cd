package cloud

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
)

// A ServerGroup is a group of backends that listeners of network load balancers
// share. It belongs to no load balancer by itself.
type ServerGroup struct {
	ID       string
	Name     string
	VPC      string // ID
	Protocol string // "TCP", "UDP" or "TCP_UDP"
	Status   string // "Available" and the steps before and after
}

// ServerGroups returns the server groups of the region that carry the tag, sorted
// by ID. An empty list proves nothing: see Find.
//
// It needs grant.ListServerGroups.
func (n NLB) ServerGroups(ctx context.Context, tagKey, tagValue string) ([]ServerGroup, error) {
	const action = "ListServerGroups"
	if tagKey == "" {
		return nil, absent("nlb", action, "tag key")
	}
	type wireGroup struct {
		ServerGroupID     text `json:"ServerGroupId"`
		ServerGroupName   text
		ServerGroupStatus text
		VpcID             text `json:"VpcId"`
		Protocol          text
	}
	type answer struct {
		TotalCount   number
		NextToken    text
		ServerGroups []wireGroup
	}
	list, err := chained("nlb", action, func(token string) (pageOf[ServerGroup], error) {
		a, err := read(ctx, n.c, call[answer]{
			request: func() requests.AcsRequest {
				r := nlb.CreateListServerGroupsRequest()
				r.Tag = &[]nlb.ListServerGroupsTag{{Key: tagKey, Value: tagValue}}
				r.MaxResults, r.NextToken = whole(100), token
				return r
			},
			check: func(a answer) error {
				switch {
				case !a.TotalCount.ok:
					return lack("TotalCount")
				case a.TotalCount.n > 0 && a.ServerGroups == nil:
					return lack("ServerGroups")
				}
				for _, g := range a.ServerGroups {
					if g.ServerGroupID == "" || g.ServerGroupName == "" {
						return lack("ID and name of server group %q", g.ServerGroupID)
					}
				}
				return nil
			},
		})
		p := pageOf[ServerGroup]{next: string(a.NextToken)}
		for _, g := range a.ServerGroups {
			p.items = append(p.items, ServerGroup{
				ID: string(g.ServerGroupID), Name: string(g.ServerGroupName), VPC: string(g.VpcID), Protocol: string(g.Protocol), Status: string(g.ServerGroupStatus),
			})
		}
		return p, err
	})
	if err != nil {
		return nil, err
	}
	return sorted(list, func(g ServerGroup) string { return g.ID }), nil
}

// Servers returns the backends of the server group with this ID, sorted by ID, IP
// address and port. The error is ErrNotFound if there is no such group.
//
// It needs grant.ListServerGroupServers.
func (n NLB) Servers(ctx context.Context, groupID string) ([]Backend, error) {
	const action = "ListServerGroupServers"
	if groupID == "" {
		return nil, absent("nlb", action, "server group ID")
	}
	type wireServer struct {
		ServerGroupID text `json:"ServerGroupId"`
		ServerID      text `json:"ServerId"`
		ServerIP      text `json:"ServerIp"`
		ServerType    text
		Port          number
		Weight        number
	}
	type answer struct {
		TotalCount number
		NextToken  text
		Servers    []wireServer
	}
	list, err := chained("nlb", action, func(token string) (pageOf[Backend], error) {
		a, err := read(ctx, n.c, call[answer]{
			request: func() requests.AcsRequest {
				r := nlb.CreateListServerGroupServersRequest()
				r.ServerGroupId = groupID
				r.MaxResults, r.NextToken = whole(100), token
				return r
			},
			check: func(a answer) error {
				switch {
				case !a.TotalCount.ok:
					return lack("TotalCount")
				case a.TotalCount.n > 0 && a.Servers == nil:
					return lack("Servers")
				}
				for _, s := range a.Servers {
					if s.ServerID == "" || s.ServerType == "" || !s.Port.ok {
						return lack("ID, type and port of a server of server group %s", groupID)
					}
					if s.ServerGroupID != "" && string(s.ServerGroupID) != groupID {
						return lack("servers of %s alone: one is of %s", groupID, s.ServerGroupID)
					}
				}
				return nil
			},
			gone: []string{"ResourceNotFound.serverGroup", "ResourceNotFound.ServerGroup"},
		})
		p := pageOf[Backend]{next: string(a.NextToken)}
		for _, s := range a.Servers {
			p.items = append(p.items, Backend{
				ID: string(s.ServerID), IP: string(s.ServerIP), Type: strings.ToLower(string(s.ServerType)), Port: int(s.Port.n), Weight: int(s.Weight.n),
			})
		}
		return p, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Backend) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Port, b.Port))
	})
	return list, nil
}
