package cloud

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
)

// A ServerGroup is a group of backends that listeners of several network load balancers may share.
type ServerGroup struct {
	ID       string
	Name     string
	VPC      string // ID
	Protocol string // "TCP", "UDP" or "TCP_UDP"
	Status   string // "Available" and the steps before and after
	// Config are the other settings in the answer, and those of HealthCheck, by their names in the API. A list is one value with commas.
	Config map[string]string
}

type wireServerGroup struct {
	ServerGroupID     text `json:"ServerGroupId"`
	ServerGroupName   text
	ServerGroupStatus text
	VpcID             text `json:"VpcId"`
	Protocol          text

	config map[string]string
}

func (g *wireServerGroup) UnmarshalJSON(b []byte) error {
	type plain wireServerGroup
	if err := json.Unmarshal(b, (*plain)(g)); err != nil {
		return err
	}
	var err error
	g.config, err = settings(b, "HealthCheck", "ServerGroupId", "ServerGroupName", "ServerGroupStatus", "VpcId", "Protocol", "RegionId", "AliUid",
		"ServerCount", "RelatedLoadBalancerIds")
	return err
}

// ServerGroups returns the region's server groups with this tag, by ID. An empty list proves nothing; see Find. It needs grant.ListServerGroups.
func (n NLB) ServerGroups(ctx context.Context, tagKey, tagValue string) ([]ServerGroup, error) {
	return n.serverGroups(ctx, needs{{"key of the tag", tagKey}}, func(r *nlb.ListServerGroupsRequest) {
		r.Tag = &[]nlb.ListServerGroupsTag{{Key: tagKey, Value: tagValue}}
	})
}

// ServerGroupsOf returns the visible server groups of these IDs, by ID. Servers says whether a missing one exists. It needs grant.ListServerGroups.
func (n NLB) ServerGroupsOf(ctx context.Context, ids []string) ([]ServerGroup, error) {
	if len(ids) == 0 || slices.Contains(ids, "") {
		return nil, absent("nlb", listServerGroups, "server group ID")
	}
	var all []ServerGroup
	for part := range slices.Chunk(ids, groupsAtOnce) {
		groups, err := n.serverGroups(ctx, nil, func(r *nlb.ListServerGroupsRequest) { r.ServerGroupIds = &part })
		if err != nil {
			return nil, err
		}
		all = append(all, groups...)
	}
	return sorted(all, func(g ServerGroup) string { return g.ID }), nil
}

// groupsAtOnce is how many IDs ListServerGroups accepts:
// https://www.alibabacloud.com/help/en/slb/network-load-balancer/developer-reference/api-nlb-2022-04-30-listservergroups
const groupsAtOnce = 20

const listServerGroups = "ListServerGroups"

func (n NLB) serverGroups(ctx context.Context, needs needs, which func(*nlb.ListServerGroupsRequest)) ([]ServerGroup, error) {
	type answer struct {
		TotalCount   number
		NextToken    text
		ServerGroups []wireServerGroup
	}
	list, err := chained("nlb", listServerGroups, pages(ctx, n.c, listing[string, answer, wireServerGroup]{
		needs: needs,
		request: func(token string) requests.AcsRequest {
			r := nlb.CreateListServerGroupsRequest()
			which(r)
			r.MaxResults, r.NextToken = whole(100), token
			return r
		},
		page: func(a answer) (pageOf[wireServerGroup], error) {
			return linked(a.TotalCount, a.NextToken, a.ServerGroups)
		},
		check: func(g wireServerGroup) error {
			if g.ServerGroupID == "" || g.ServerGroupName == "" {
				return lack("ID and name of server group %q", g.ServerGroupID)
			}
			return nil
		},
	}))
	out := values(list, func(g wireServerGroup) ServerGroup {
		return ServerGroup{
			ID: string(g.ServerGroupID), Name: string(g.ServerGroupName), VPC: string(g.VpcID), Protocol: string(g.Protocol), Status: string(g.ServerGroupStatus),
			Config: g.config,
		}
	})
	return sorted(out, func(g ServerGroup) string { return g.ID }), err
}

// Servers returns the backends of a server group, sorted by ID, IP address and port, or ErrNotFound. It needs grant.ListServerGroupServers.
func (n NLB) Servers(ctx context.Context, groupID string) ([]Backend, error) {
	type wireServer struct {
		ServerGroupID text `json:"ServerGroupId"`
		ServerID      text `json:"ServerId"`
		ServerIP      text `json:"ServerIp"`
		ServerType    text
		Port          number
		Weight        number
		Description   text
	}
	type answer struct {
		TotalCount number
		NextToken  text
		Servers    []wireServer
	}
	list, err := chained("nlb", "ListServerGroupServers", pages(ctx, n.c, listing[string, answer, wireServer]{
		needs: needs{{"server group ID", groupID}},
		request: func(token string) requests.AcsRequest {
			r := nlb.CreateListServerGroupServersRequest()
			r.ServerGroupId = groupID
			r.MaxResults, r.NextToken = whole(100), token
			return r
		},
		page: func(a answer) (pageOf[wireServer], error) {
			return linked(a.TotalCount, a.NextToken, a.Servers)
		},
		check: func(s wireServer) error {
			if s.ServerID == "" || s.ServerType == "" || !s.Port.ok {
				return lack("ID, type and port of a server of server group %s", groupID)
			}
			if s.ServerGroupID != "" && string(s.ServerGroupID) != groupID {
				return lack("servers of %s alone: one is of %s", groupID, s.ServerGroupID)
			}
			return nil
		},
		gone: []string{"ResourceNotFound.serverGroup", "ResourceNotFound.ServerGroup"},
	}))
	out := values(list, func(s wireServer) Backend {
		return Backend{
			ID: string(s.ServerID), IP: string(s.ServerIP), Type: strings.ToLower(string(s.ServerType)), Port: int(s.Port.n), Weight: int(s.Weight.n),
			Description: string(s.Description),
		}
	})
	order(out, byBackend)
	return out, err
}
