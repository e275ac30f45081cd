package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// An ACL is an access control list, which lets some addresses reach a listener
// or keeps them away.
type ACL struct {
	ID        string            `json:"id,omitempty"`
	Name      string            `json:"name,omitempty"`
	IPVersion string            `json:"ipVersion,omitempty"` // ipv4 if empty
	Entries   []ACLEntry        `json:"entries,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Created   time.Time         `json:"created,omitzero"`
}

// An ACLEntry is a block of addresses.
type ACLEntry struct {
	Block   string `json:"block,omitempty"` // such as 10.0.0.0/24
	Comment string `json:"comment,omitempty"`
}

// mostEntries is how many entries a call may add to a list:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-addaccesscontrollistentry
const mostEntries = 50

func aclActions() map[string]*action {
	one := []string{"AclId"}
	return map[string]*action{
		"CreateAccessControlList":            {do: createACL, need: []string{"AclName"}},
		"DeleteAccessControlList":            {do: deleteACL, need: one},
		"SetAccessControlListAttribute":      {do: setACL, need: append(one, "AclName")},
		"AddAccessControlListEntry":          {do: addACLEntries, need: append(one, "AclEntrys")},
		"RemoveAccessControlListEntry":       {do: removeACLEntries, need: append(one, "AclEntrys")},
		"DescribeAccessControlLists":         {do: describeACLs},
		"DescribeAccessControlListAttribute": {do: describeACL, need: one},
	}
}

func fillACLs(s *State, w *World) error {
	var errs []error
	s.ACLs, errs = index(errs, "ACL", w.ACLs, func(a *ACL) string { return a.ID }, func(i int, a *ACL) {
		a.ID = cmp.Or(a.ID, fmt.Sprintf("acl-%d", i+1))
		a.fill(s)
	})
	for _, a := range s.ACLs {
		for _, e := range a.Entries {
			if _, err := netip.ParsePrefix(e.Block); err != nil {
				errs = append(errs, fmt.Errorf("ACL %s: %w", a.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (a *ACL) fill(s *State) {
	a.Name, a.IPVersion = cmp.Or(a.Name, a.ID), cmp.Or(a.IPVersion, "ipv4")
	if a.Created.IsZero() {
		a.Created = s.started
	}
	if a.Tags == nil {
		a.Tags = map[string]string{}
	}
}

func noACL() *failure {
	return fail(http.StatusBadRequest, "AclNotExist", "The specified Acl does not exist.")
}

func (q *request) acl() (*ACL, *failure) {
	if a := q.state.ACLs[q.params["AclId"]]; a != nil {
		return a, nil
	}
	return nil, noACL()
}

// uses reports whether a listener is bound to an access control list.
func (l *Listener) uses(acl string) bool {
	return l.Config["AclStatus"] == "on" && oneOf(cmp.Or(l.Config["AclId"], "none"), acl)
}

func createACL(q *request) (any, *failure) {
	p, s := q.params, q.state
	a := &ACL{Name: p["AclName"], IPVersion: p["AddressIPVersion"], Created: q.now.UTC().Truncate(time.Second)}
	var bad *failure
	switch {
	case !oneOf("ipv4,ipv6", cmp.Or(a.IPVersion, "ipv4")):
		return nil, invalid("AddressIPVersion")
	case len(a.Name) > 80:
		return nil, invalid("AclName")
	case len(s.ACLs) >= s.quota(quotaACLs, 200):
		return nil, fail(http.StatusBadRequest, "AclNumberOverLimit", "The Acl number has reached to the max quota limit.")
	}
	if a.Tags, bad = p.tags(); bad != nil {
		return nil, bad
	}
	a.ID = s.id("acl-", func(id string) bool { return s.ACLs[id] != nil })
	a.fill(s)
	s.ACLs[a.ID] = a
	return reply{"AclId": a.ID}, nil
}

func deleteACL(q *request) (any, *failure) {
	a, bad := q.acl()
	if bad != nil {
		return nil, bad
	}
	if len(q.state.bound(a.ID)) > 0 {
		return nil, fail(http.StatusBadRequest, "OperationFailed.AclBindedWithVip", "The ACL has binded with vip.")
	}
	delete(q.state.ACLs, a.ID)
	return reply{}, nil
}

// bound shows the listeners that use an access control list.
func (s *State) bound(acl string) []reply {
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(s.LoadBalancers)) {
		for _, l := range s.LoadBalancers[id].Listeners {
			if l.uses(acl) {
				list = append(list, reply{"LoadBalancerId": id, "ListenerPort": l.Port, "Protocol": l.Protocol, "AclType": l.Config["AclType"]})
			}
		}
	}
	return list
}

func setACL(q *request) (any, *failure) {
	a, bad := q.acl()
	if bad == nil {
		a.Name = q.params["AclName"]
	}
	return reply{}, bad
}

// entries reads the entries that a request names.
func (q *request) entries(a *ACL) ([]ACLEntry, *failure) {
	var list []struct{ Entry, Comment string }
	if err := json.Unmarshal([]byte(q.params["AclEntrys"]), &list); err != nil || len(list) == 0 || len(list) > mostEntries {
		return nil, invalid("AclEntrys")
	}
	out := make([]ACLEntry, 0, len(list))
	for _, e := range list {
		p, err := netip.ParsePrefix(e.Entry)
		switch {
		case err != nil:
			return nil, fail(http.StatusBadRequest, "InvalidEntry", "The entry %s is invalid.", e.Entry)
		case p.Addr().Is4() != (a.IPVersion == "ipv4"):
			return nil, fail(http.StatusBadRequest, "IllegalEntry", "Entry version is conflict to the acl version.")
		}
		out = append(out, ACLEntry{Block: e.Entry, Comment: e.Comment})
	}
	return out, nil
}

func (a *ACL) find(block string) int {
	return slices.IndexFunc(a.Entries, func(e ACLEntry) bool { return e.Block == block })
}

func addACLEntries(q *request) (any, *failure) {
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
			return nil, fail(http.StatusBadRequest, "InvalidParam.AclEntryExists", "The specified aclEntry already exists in the acl.")
		}
		if !slices.ContainsFunc(all, func(o ACLEntry) bool { return o.Block == e.Block }) {
			all = append(all, e)
		}
	}
	if len(all) > q.state.quota(quotaACLEntries, 300) {
		return nil, fail(http.StatusBadRequest, "AclEntryExceedLimit", "The maximum number of ACL entries is exceeded.")
	}
	a.Entries = all
	return reply{}, nil
}

// removeACLEntries ignores what is not there.
func removeACLEntries(q *request) (any, *failure) {
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
	return reply{}, nil
}

func (a *ACL) show() reply {
	return reply{
		"AclId": a.ID, "AclName": a.Name, "AddressIPVersion": a.IPVersion, "ResourceGroupId": "", "ServiceManagedMode": "Unmanaged",
		"CreateTime": a.Created.Format("2006-01-02T15:04:05Z"), "Tags": reply{"Tag": pairs(a.Tags)},
	}
}

// pairs returns tags as CLB shows them, in order.
func pairs(tags map[string]string) []reply {
	list := make([]reply, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, reply{"TagKey": k, "TagValue": tags[k]})
	}
	return list
}

func describeACLs(q *request) (any, *failure) {
	want, bad := q.params.tags()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.ACLs)) {
		a := q.state.ACLs[id]
		if strings.Contains(a.Name, q.params["AclName"]) && is(q.params["AddressIPVersion"], a.IPVersion) && carries(a.Tags, want) {
			list = append(list, a.show())
		}
	}
	part, n, size, bad := page(q.params, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	return reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "Count": len(part), "Acls": reply{"Acl": part}}, nil
}

func describeACL(q *request) (any, *failure) {
	a, bad := q.acl()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, e := range a.Entries {
		if strings.Contains(e.Comment, q.params["AclEntryComment"]) {
			list = append(list, reply{"AclEntryIP": e.Block, "AclEntryComment": e.Comment})
		}
	}
	out := a.show()
	out["TotalAclEntry"] = len(list)
	if q.params["Page"] != "" || q.params["PageSize"] != "" { // else all of them
		part, _, _, bad := page(params{"PageNumber": q.params["Page"], "PageSize": q.params["PageSize"]}, list, 10, 50)
		if bad != nil {
			return nil, bad
		}
		list = part
	}
	out["AclEntrys"] = reply{"AclEntry": list}
	out["RelatedListeners"] = reply{"RelatedListener": q.state.bound(a.ID)}
	return out, nil
}
