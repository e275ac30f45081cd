package policy

import (
	"slices"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Person says as whom somebody in a chat answers: an entry of the section people. It gives no
// right: what counts is what the user may do in the cluster. The program that answers for people
// takes it from the policy itself, and never from NATS, where others may write.
type Person struct {
	DingTalk string   `json:"dingtalk,omitempty"` // user ID in the organization of DingTalk
	Feishu   string   `json:"feishu,omitempty"`   // open_id that the app of Feishu knows
	User     string   `json:"user"`               // user name in Kubernetes
	Groups   []string `json:"groups,omitempty"`   // groups in Kubernetes: rights that they give count, and so do approvals that need one of them
}

// PersonOf returns who a user of a chat is, by the kind of its sink; false: nobody knows.
func PersonOf(people []Person, kind, id string) (Person, bool) {
	i := slices.IndexFunc(people, func(p Person) bool { return id != "" && p.id(kind) == id })
	if i < 0 {
		return Person{}, false
	}
	return people[i], true
}

// id returns how the platform of a kind of sinks knows the person; empty: it does not.
func (p Person) id(kind string) string {
	switch kind {
	case DingTalkApp:
		return p.DingTalk
	case FeishuApp:
		return p.Feishu
	}
	return ""
}

// ours are users that don't answer: lbremedy asks.
var ours = regex.New(`^system:serviceaccount:[^:]+:lbremedy-`)

// CheckPeople tells bad what is wrong with the people, each with its index and field.
func CheckPeople(people []Person, bad func(index int, field, format string, args ...any)) {
	for i, p := range people {
		switch {
		case p.User == "":
			bad(i, "user", "it is empty; name the user as whom this person answers in Kubernetes")
		case ours().MatchString(p.User):
			bad(i, "user", "lbremedy does not answer its own questions")
		}
		if p.DingTalk == "" && p.Feishu == "" {
			bad(i, "dingtalk", "neither dingtalk nor feishu says who clicks")
		}
		if slices.Contains(p.Groups, "") {
			bad(i, "groups", "one of them is empty")
		}
		for _, o := range people[:i] {
			if p.DingTalk != "" && o.DingTalk == p.DingTalk {
				bad(i, "dingtalk", "%q is another person's, too", p.DingTalk)
			}
			if p.Feishu != "" && o.Feishu == p.Feishu {
				bad(i, "feishu", "%q is another person's, too", p.Feishu)
			}
		}
	}
}
