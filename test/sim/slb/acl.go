package slb

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// An ACL is an access control list, which allows or denies addresses at a listener.
type ACL struct {
	ID        string            `json:"id,omitempty"`
	Name      string            `json:"name,omitempty"`
	IPVersion string            `json:"ipVersion,omitempty"` // ipv4 if empty
	Entries   []ACLEntry        `json:"entries,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Created   time.Time         `json:"created,omitzero"`
}

// An ACLEntry is an address block.
type ACLEntry struct {
	Block   string `json:"block,omitempty"` // such as 10.0.0.0/24
	Comment string `json:"comment,omitempty"`
}

// mostEntries is the maximum in one call:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-addaccesscontrollistentry
const mostEntries = 50

func aclActions() map[string]*core.Action {
	one := []string{"AclId"}
	return map[string]*core.Action{
		"CreateAccessControlList":            {Do: on(createACL), Need: []string{"AclName"}},
		"DeleteAccessControlList":            {Do: on(deleteACL), Need: one},
		"SetAccessControlListAttribute":      {Do: on(setACL), Need: append(one, "AclName")},
		"AddAccessControlListEntry":          {Do: on(addACLEntries), Need: append(one, "AclEntrys")},
		"RemoveAccessControlListEntry":       {Do: on(removeACLEntries), Need: append(one, "AclEntrys")},
		"DescribeAccessControlLists":         {Do: on(describeACLs)},
		"DescribeAccessControlListAttribute": {Do: on(describeACL), Need: one},
	}
}

func (a *ACL) fill(s *State) {
	a.Name, a.IPVersion = cmp.Or(a.Name, a.ID), cmp.Or(a.IPVersion, "ipv4")
	if a.Created.IsZero() {
		a.Created = s.Started
	}
	if a.Tags == nil {
		a.Tags = map[string]string{}
	}
}

func noACL() *core.Failure {
	return core.Fail(http.StatusBadRequest, "AclNotExist", "The specified Acl does not exist.")
}

func (q *request) acl() (*ACL, *core.Failure) {
	if a := q.state.ACLs[q.Params["AclId"]]; a != nil {
		return a, nil
	}
	return nil, noACL()
}

func (l *Listener) uses(acl string) bool {
	return l.Config["AclStatus"] == "on" && core.OneOf(cmp.Or(l.Config["AclId"], "none"), acl)
}

func createACL(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	a := &ACL{Name: p["AclName"], IPVersion: p["AddressIPVersion"], Created: q.Now.UTC().Truncate(time.Second)}
	var bad *core.Failure
	switch {
	case !core.OneOf("ipv4,ipv6", cmp.Or(a.IPVersion, "ipv4")):
		return nil, core.Invalid("AddressIPVersion")
	case len(a.Name) > 80:
		return nil, core.Invalid("AclName")
	case len(s.ACLs) >= s.quotas.Limit(quotaACLs, 200):
		return nil, core.Fail(http.StatusBadRequest, "AclNumberOverLimit", "The Acl number has reached to the max quota limit.")
	}
	if a.Tags, bad = p.Tags(); bad != nil {
		return nil, bad
	}
	a.ID = s.ID("acl-", func(id string) bool { return s.ACLs[id] != nil })
	a.fill(s)
	s.ACLs[a.ID] = a
	return core.Reply{"AclId": a.ID}, nil
}

func deleteACL(q *request) (any, *core.Failure) {
	a, bad := q.acl()
	if bad != nil {
		return nil, bad
	}
	if len(q.state.bound(a.ID)) > 0 {
		return nil, core.Fail(http.StatusBadRequest, "OperationFailed.AclBindedWithVip", "The ACL has binded with vip.")
	}
	delete(q.state.ACLs, a.ID)
	return core.Reply{}, nil
}

func (s *State) bound(acl string) []core.Reply {
	list := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(s.LoadBalancers)) {
		for _, l := range s.LoadBalancers[id].Listeners {
			if l.uses(acl) {
				list = append(list, core.Reply{"LoadBalancerId": id, "ListenerPort": l.Port, "Protocol": l.Protocol, "AclType": l.Config["AclType"]})
			}
		}
	}
	return list
}

func setACL(q *request) (any, *core.Failure) {
	a, bad := q.acl()
	if bad == nil {
		a.Name = q.Params["AclName"]
	}
	return core.Reply{}, bad
}

func (q *request) entries(a *ACL) ([]ACLEntry, *core.Failure) {
	var list []struct{ Entry, Comment string }
	if err := json.Unmarshal([]byte(q.Params["AclEntrys"]), &list); err != nil || len(list) == 0 || len(list) > mostEntries {
		return nil, core.Invalid("AclEntrys")
	}
	out := make([]ACLEntry, 0, len(list))
	for _, e := range list {
		p, err := netip.ParsePrefix(e.Entry)
		switch {
		case err != nil:
			return nil, core.Fail(http.StatusBadRequest, "InvalidEntry", "The entry %s is invalid.", e.Entry)
		case p.Addr().Is4() != (a.IPVersion == "ipv4"):
			return nil, core.Fail(http.StatusBadRequest, "IllegalEntry", "Entry version is conflict to the acl version.")
		}
		out = append(out, ACLEntry{Block: e.Entry, Comment: e.Comment})
	}
	return out, nil
}

func (a *ACL) find(block string) int {
	return slices.IndexFunc(a.Entries, func(e ACLEntry) bool { return e.Block == block })
}

func addACLEntries(q *request) (any, *core.Failure) {
	a, bad := q.acl()
	if bad != nil {
		return nil, bad
	}
	more, bad := q.entries(a)
	if bad != nil {
		return nil, bad
	}
	all := slices.Clone(a.Entries)
	for _, e := range more {
		if a.find(e.Block) >= 0 {
			return nil, core.Fail(http.StatusBadRequest, "InvalidParam.AclEntryExists", "The specified aclEntry already exists in the acl.")
		}
		if !slices.ContainsFunc(all, func(o ACLEntry) bool { return o.Block == e.Block }) {
			all = append(all, e)
		}
	}
	if len(all) > q.state.quotas.Limit(quotaACLEntries, 300) {
		return nil, core.Fail(http.StatusBadRequest, "AclEntryExceedLimit", "The maximum number of ACL entries is exceeded.")
	}
	a.Entries = all
	return core.Reply{}, nil
}

// removeACLEntries ignores missing entries.
func removeACLEntries(q *request) (any, *core.Failure) {
	a, bad := q.acl()
	if bad != nil {
		return nil, bad
	}
	gone, bad := q.entries(a)
	if bad != nil {
		return nil, bad
	}
	a.Entries = slices.DeleteFunc(a.Entries, func(e ACLEntry) bool {
		return slices.ContainsFunc(gone, func(o ACLEntry) bool { return o.Block == e.Block })
	})
	return core.Reply{}, nil
}

func (a *ACL) show() core.Reply {
	return core.Reply{
		"AclId": a.ID, "AclName": a.Name, "AddressIPVersion": a.IPVersion, "ResourceGroupId": "", "ServiceManagedMode": "Unmanaged",
		"CreateTime": a.Created.Format("2006-01-02T15:04:05Z"), "Tags": core.Reply{"Tag": core.ShowTags(a.Tags)},
	}
}

func describeACLs(q *request) (any, *core.Failure) {
	want, bad := q.Params.Tags()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.ACLs)) {
		a := q.state.ACLs[id]
		if strings.Contains(a.Name, q.Params["AclName"]) && core.Is(q.Params["AddressIPVersion"], a.IPVersion) && core.Carries(a.Tags, want) {
			list = append(list, a.show())
		}
	}
	part, n, size, bad := core.Page(q.Params, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "Count": len(part), "Acls": core.Reply{"Acl": part}}, nil
}

func describeACL(q *request) (any, *core.Failure) {
	a, bad := q.acl()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, e := range a.Entries {
		if strings.Contains(e.Comment, q.Params["AclEntryComment"]) {
			list = append(list, core.Reply{"AclEntryIP": e.Block, "AclEntryComment": e.Comment})
		}
	}
	out := a.show()
	out["TotalAclEntry"] = len(list)
	if q.Params["Page"] != "" || q.Params["PageSize"] != "" { // otherwise all of them
		part, _, _, bad := core.Page(core.Params{"PageNumber": q.Params["Page"], "PageSize": q.Params["PageSize"]}, list, 10, 50)
		if bad != nil {
			return nil, bad
		}
		list = part
	}
	out["AclEntrys"] = core.Reply{"AclEntry": list}
	out["RelatedListeners"] = core.Reply{"RelatedListener": q.state.bound(a.ID)}
	return out, nil
}
