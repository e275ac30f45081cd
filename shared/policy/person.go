package policy

import (
	"slices"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Person names the user as whom somebody in a chat answers: an entry of the section people. It gives no permission: the user's
// permissions in the cluster count. The program that answers for people reads it from the policy itself, and never from NATS, where
// others may write.
type Person struct {
	DingTalk string   `json:"dingtalk,omitempty"` // user ID in the organization of DingTalk
	Feishu   string   `json:"feishu,omitempty"`   // open_id in the app of Feishu
	User     string   `json:"user"`               // user name in Kubernetes
	Groups   []string `json:"groups,omitempty"`   // groups in Kubernetes: their permissions count, and so do approvals that need one of them
}

// PersonOf returns the person of a chat's user, by the kind of its sink.
func PersonOf(people []Person, kind, id string) (Person, bool) {
	i := slices.IndexFunc(people, func(p Person) bool { return id != "" && p.id(kind) == id })
	if i < 0 {
		return Person{}, false
	}
	return people[i], true
}

func (p Person) id(kind string) string {
	switch kind {
	case DingTalkApp:
		return p.DingTalk
	case FeishuApp:
		return p.Feishu
	}
	return ""
}

// ours matches lbremedy's own users, who don't answer.
var ours = regex.New(`^system:serviceaccount:[^:]+:lbremedy-`)

// CheckPeople reports mistakes to bad, each with its index and field.
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
