package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
)

// RouteTables returns the IDs of a VPC's route tables. It needs grant.DescribeRouteTableList.
func (v VPC) RouteTables(ctx context.Context, vpcID string) ([]string, error) {
	type wireTable struct {
		RouteTableID text `json:"RouteTableId"`
		VpcID        text `json:"VpcId"`
	}
	type answer struct {
		TotalCount      number
		RouterTableList struct{ RouterTableListType []wireTable }
	}
	id := func(w wireTable) string { return string(w.RouteTableID) }
	list, err := numbered("vpc", "DescribeRouteTableList", id, pages(ctx, v.c, listing[int, answer, wireTable]{
		needs: needs{{"VPC ID", vpcID}},
		request: func(page int) requests.AcsRequest {
			r := vpc.CreateDescribeRouteTableListRequest()
			r.VpcId = vpcID
			r.PageNumber, r.PageSize = whole(page), whole(50)
			return r
		},
		page: func(a answer) (pageOf[wireTable], error) {
			return counted(a.TotalCount, a.RouterTableList.RouterTableListType)
		},
		check: func(w wireTable) error {
			if w.RouteTableID == "" || string(w.VpcID) != vpcID {
				return lack("ID and VPC of route table %q", w.RouteTableID)
			}
			return nil
		},
	}))
	return values(list, id), err
}

// A Route is an entry of a route table.
type Route struct {
	ID    string
	Block string // of addresses, such as "172.20.1.0/24"
	Next  string // ID of the next hop; empty for the VPC's own routes, and with several hops
	To    string // type of the next hop, such as "Instance"
	Type  string // "Custom", or "System" for the VPC's own
}

// Routes returns the entries of a route table. It needs grant.DescribeRouteEntryList.
func (v VPC) Routes(ctx context.Context, tableID string) ([]Route, error) {
	type wireHop struct {
		NextHopID   text `json:"NextHopId"`
		NextHopType text
	}
	type wireRoute struct {
		RouteEntryID         text `json:"RouteEntryId"`
		DestinationCidrBlock text
		Type                 text
		NextHops             struct{ NextHop []wireHop }
	}
	type answer struct {
		NextToken   text
		RouteEntrys *struct{ RouteEntry []wireRoute }
	}
	list, err := chained("vpc", "DescribeRouteEntryList", pages(ctx, v.c, listing[string, answer, wireRoute]{
		needs: needs{{"route table ID", tableID}},
		request: func(token string) requests.AcsRequest {
			r := vpc.CreateDescribeRouteEntryListRequest()
			r.RouteTableId = tableID
			r.NextToken, r.MaxResult = token, whole(100)
			return r
		},
		page: func(a answer) (p pageOf[wireRoute], err error) {
			if a.RouteEntrys == nil {
				return p, lack("RouteEntrys")
			}
			return pageOf[wireRoute]{items: a.RouteEntrys.RouteEntry, next: string(a.NextToken)}, nil
		},
		check: func(w wireRoute) error {
			if w.DestinationCidrBlock == "" || w.Type == "" {
				return lack("block and type of a route of %s", tableID)
			}
			return nil
		},
		gone: []string{"InvalidRouteTableId.NotFound"},
	}))
	out := values(list, func(w wireRoute) Route {
		r := Route{ID: string(w.RouteEntryID), Block: string(w.DestinationCidrBlock), Type: string(w.Type)}
		if hops := w.NextHops.NextHop; len(hops) == 1 {
			r.Next, r.To = string(hops[0].NextHopID), string(hops[0].NextHopType)
		}
		return r
	})
	return sorted(out, func(r Route) string { return r.Block + " " + r.ID }), err
}
