package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Params are the parameters of a request. Lists are Name.1, Name.2 and so on, their fields Name.1.Key.
type Params map[string]string

// Missing returns the error for a missing parameter.
func Missing(name string) *Failure {
	return Fail(http.StatusBadRequest, "MissingParameter."+name,
		"The input parameter %q that is mandatory for processing this request is not supplied.", name)
}

// Invalid returns the error for an invalid parameter.
func Invalid(name string) *Failure {
	return Fail(http.StatusBadRequest, "InvalidParameter."+name, "The specified parameter %q is not valid.", name)
}

// Has reports whether a parameter exists, as a value, a list or a list of structures.
func (p Params) Has(name string) bool {
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

// Under returns the fields of a structure, named Name.Field.
func (p Params) Under(name string) Params {
	m := Params{}
	for k, v := range p {
		if field, ok := strings.CutPrefix(k, name+"."); ok {
			m[field] = v
		}
	}
	return m
}

// Structs returns a list of structures, named Name.1.Field.
func (p Params) Structs(name string) []Params {
	var list []Params
	for i := 1; ; i++ {
		m := p.Under(name + "." + strconv.Itoa(i))
		if len(m) == 0 {
			return list
		}
		list = append(list, m)
	}
}

// List returns the elements of Name.N, or the value of Name.
func (p Params) List(name string) []string {
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

// Number returns a parameter as a number between least and most, or fallback if it is absent.
func (p Params) Number(name string, least, most, fallback int) (int, *Failure) {
	v := p[name]
	if v == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, Invalid(name)
	}
	return n, nil
}

// Tags returns a request's tags in any of their three notations: Tag.N.Key, Tag.N.key and Tags as JSON.
func (p Params) Tags() (map[string]string, *Failure) {
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
			return nil, Fail(http.StatusBadRequest, "InvalidParameter.TagKey", "The specified tag key is invalid.")
		}
		if _, twice := m[k]; twice {
			return nil, Fail(http.StatusBadRequest, "Duplicate.TagKey", "The Tag.N.Key contain duplicate key.")
		}
		m[k] = v
	}
	if p["Tags"] == "" {
		return m, nil
	}
	var list []struct{ TagKey, TagValue string }
	if err := json.Unmarshal([]byte(p["Tags"]), &list); err != nil {
		return nil, Fail(http.StatusBadRequest, "InvalidParameter.TagKey", "The specified tag key is invalid.")
	}
	for _, t := range list {
		m[t.TagKey] = t.TagValue
	}
	return m, nil
}

// Page returns one page of list, and its number and size.
func Page[T any](p Params, list []T, standard, most int) ([]T, int, int, *Failure) {
	n, bad := p.Number("PageNumber", 1, 1<<30, 1)
	if bad != nil {
		return nil, 0, 0, bad
	}
	size, bad := p.Number("PageSize", 1, most, standard)
	if bad != nil {
		return nil, 0, 0, bad
	}
	from := min((n-1)*size, len(list))
	return list[from:min(from+size, len(list))], n, size, nil
}

// Chunk returns the part of list selected by NextToken and MaxResults, and the next token.
func Chunk[T any](p Params, list []T, standard, most int) ([]T, string, *Failure) {
	size, bad := p.Number("MaxResults", 1, most, standard)
	if bad != nil {
		return nil, "", bad
	}
	from, bad := p.Number("NextToken", 0, len(list), 0)
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

// OneOf reports whether v is in a comma-separated list; an empty list contains everything.
func OneOf(list, v string) bool {
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

// Is reports whether v passes a filter; an empty filter passes everything.
func Is(filter, v string) bool { return filter == "" || filter == v }

// OnOff returns a boolean in the API's notation.
func OnOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// IDs parses a parameter that is a JSON list of IDs.
func (p Params) IDs(name string) ([]string, *Failure) {
	if p[name] == "" {
		return nil, nil
	}
	var ids []string
	if err := json.Unmarshal([]byte(p[name]), &ids); err != nil || len(ids) > 100 {
		return nil, Invalid(name)
	}
	return ids, nil
}

// Object returns the fields of a structure, given as Name.Field or as JSON.
func (p Params) Object(name string) (Params, *Failure) {
	m := p.Under(name)
	if p[name] == "" {
		return m, nil
	}
	var said map[string]any
	if err := json.Unmarshal([]byte(p[name]), &said); err != nil {
		return nil, Invalid(name)
	}
	for k, v := range said {
		m[k] = fmt.Sprint(v)
	}
	return m, nil
}

// Switches rejects parameters other than true and false.
func (p Params) Switches(names ...string) *Failure {
	for _, n := range names {
		if !OneOf("true,false", cmp.Or(p[n], "true")) {
			return Invalid(n)
		}
	}
	return nil
}

// Glob reports whether s matches pattern, in which * matches any text and ? one character.
func Glob(pattern, s string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == s
	}
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
