package policy

import "slices"

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
