package sim

import "strings"

// Narrow returns the text of a policy or trust policy for one account, region and
// cluster: the same that roles.sh makes of it with sed.
func Narrow(text, account, region, cluster string) string {
	for _, product := range []string{"slb", "nlb", "vpc", "ecs", "cs", "fc"} {
		text = strings.ReplaceAll(text, "acs:"+product+":*:*:", "acs:"+product+":"+region+":"+account+":")
	}
	return strings.ReplaceAll(text, ":cluster/*", ":cluster/"+cluster)
}
