package rampermission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A statement is one statement of a RAM policy document.
type statement struct {
	Effect    string
	Action    list
	NotAction list
	Resource  list
	Condition json.RawMessage
}

// A list is a string or several of them.
type list []string

// UnmarshalJSON reads one string or an array of strings.
func (l *list) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = list{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return err
	}
	*l = many
	return nil
}

// parse returns the statements of a policy document.
func parse(document string) ([]statement, error) {
	var doc struct{ Statement []statement }
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return nil, err
	}
	if len(doc.Statement) == 0 {
		return nil, errors.New("it has no statements")
	}
	return doc.Statement, nil
}

// A permission is what policies say of an action.
type permission int

const (
	no      permission = iota // nothing allows it
	yes                       // allowed for all resources
	limited                   // allowed under a condition, or for some resources only
	denied                    // a Deny statement names it, on whatever condition
)

// allowed evaluates statements for one action, as RAM does: a Deny wins.
func allowed(rules []statement, action string) permission {
	found := no
	for _, s := range rules {
		if !s.names(action) {
			continue
		}
		switch {
		case s.Effect == "Deny":
			return denied
		case s.Effect != "Allow":
		case len(s.Condition) > 0 && string(s.Condition) != "{}" && string(s.Condition) != "null", !slices.Contains(s.Resource, "*"):
			if found == no {
				found = limited
			}
		default:
			found = yes
		}
	}
	return found
}

func (s statement) names(action string) bool {
	match := func(pattern string) bool { return wildcard(strings.ToLower(pattern), strings.ToLower(action)) }
	if len(s.NotAction) > 0 {
		return !slices.ContainsFunc(s.NotAction, match)
	}
	return slices.ContainsFunc(s.Action, match)
}

// wildcard reports whether the text fits the pattern, in which * stands for any
// characters and ? for one.
func wildcard(pattern, text string) bool {
	star, mark, p, t := -1, 0, 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*':
			p++
			t++
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// allow returns the document with one more statement that allows the actions.
// What it held stays as it was.
func allow(document string, actions []string) (string, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return "", fmt.Errorf("it is no JSON object: %w", err)
	}
	var statements []json.RawMessage
	if err := json.Unmarshal(doc["Statement"], &statements); err != nil {
		return "", fmt.Errorf("its Statement is no list: %w", err)
	}
	added, err := json.Marshal(struct {
		Effect   string
		Action   []string
		Resource []string
	}{"Allow", actions, []string{"*"}})
	if err != nil {
		return "", err
	}
	if doc["Statement"], err = json.Marshal(append(statements, added)); err != nil {
		return "", err
	}
	out, err := json.Marshal(doc)
	return string(out), err
}
