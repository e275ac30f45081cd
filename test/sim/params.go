package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// params are the parameters of a request. Lists are written as Name.1, Name.2
// and so on, their fields as Name.1.Key.
type params map[string]string

func missing(name string) *failure {
	return fail(http.StatusBadRequest, "MissingParameter."+name,
		"The input parameter %q that is mandatory for processing this request is not supplied.", name)
}

func invalid(name string) *failure {
	return fail(http.StatusBadRequest, "InvalidParameter."+name, "The specified parameter %q is not valid.", name)
}

// has reports whether a parameter is there: as a value, a list or a list of
// structures.
func (p params) has(name string) bool {
	if p[name] != "" || p[name+".1"] != "" {
		return true
	}
	for k := range p {
		if strings.HasPrefix(k, name+".1.") {
			return true
		}
	}
	return false
}

// under returns the fields of a structure, which are written as Name.Field.
func (p params) under(name string) params {
	m := params{}
	for k, v := range p {
		if field, ok := strings.CutPrefix(k, name+"."); ok {
			m[field] = v
		}
	}
	return m
}

// structs returns a list of structures, which are written as Name.1.Field.
func (p params) structs(name string) []params {
	var list []params
	for i := 1; ; i++ {
		m := p.under(name + "." + strconv.Itoa(i))
		if len(m) == 0 {
			return list
		}
		list = append(list, m)
	}
}

// list returns the elements of Name.N, or the one of Name.
func (p params) list(name string) []string {
	var list []string
	for i := 1; ; i++ {
		v, ok := p[fmt.Sprintf("%s.%d", name, i)]
		if !ok {
			break
		}
		list = append(list, v)
	}
	if list == nil && p[name] != "" {
		return []string{p[name]}
	}
	return list
}

// number returns a parameter as a number between least and most, or fallback if it
// is not there.
func (p params) number(name string, least, most, fallback int) (int, *failure) {
	v := p[name]
	if v == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, invalid(name)
	}
	return n, nil
}

// tags returns the tags of a request in any of its three ways of writing them:
// Tag.N.Key, Tag.N.key and Tags as JSON.
func (p params) tags() (map[string]string, *failure) {
	m := map[string]string{}
	for i := 1; ; i++ {
		prefix := fmt.Sprintf("Tag.%d.", i)
		k, ok := p[prefix+"Key"]
		v := p[prefix+"Value"]
		if !ok {
			if k, ok = p[prefix+"key"]; !ok {
				break
			}
			v = p[prefix+"value"]
		}
		if k == "" || len(k) > 64 {
			return nil, fail(http.StatusBadRequest, "InvalidParameter.TagKey", "The specified tag key is invalid.")
		}
		if _, twice := m[k]; twice {
			return nil, fail(http.StatusBadRequest, "Duplicate.TagKey", "The Tag.N.Key contain duplicate key.")
		}
		m[k] = v
	}
	if p["Tags"] == "" {
		return m, nil
	}
	var list []struct{ TagKey, TagValue string }
	if err := json.Unmarshal([]byte(p["Tags"]), &list); err != nil {
		return nil, fail(http.StatusBadRequest, "InvalidParameter.TagKey", "The specified tag key is invalid.")
	}
	for _, t := range list {
		m[t.TagKey] = t.TagValue
	}
	return m, nil
}

// page returns one page of list, and the page's number and size.
func page[T any](p params, list []T, standard, most int) ([]T, int, int, *failure) {
	n, bad := p.number("PageNumber", 1, 1<<30, 1)
	if bad != nil {
		return nil, 0, 0, bad
	}
	size, bad := p.number("PageSize", 1, most, standard)
	if bad != nil {
		return nil, 0, 0, bad
	}
	from := min((n-1)*size, len(list))
	return list[from:min(from+size, len(list))], n, size, nil
}

// chunk returns the part of list that NextToken and MaxResults ask for, and the
// token of the next one.
func chunk[T any](p params, list []T, standard, most int) ([]T, string, *failure) {
	size, bad := p.number("MaxResults", 1, most, standard)
	if bad != nil {
		return nil, "", bad
	}
	from, bad := p.number("NextToken", 0, len(list), 0)
	if bad != nil {
		return nil, "", bad
	}
	to := min(from+size, len(list))
	next := ""
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	return list[from:to], next, nil
}

// oneOf reports whether v is in a list that is separated by commas; an empty
// list has everything.
func oneOf(list, v string) bool {
	if list == "" {
		return true
	}
	for e := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(e) == v {
			return true
		}
	}
	return false
}

// is reports whether a filter that may be empty lets v pass.
func is(filter, v string) bool { return filter == "" || filter == v }

// onOff returns a switch as the API writes it.
func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
