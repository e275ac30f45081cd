package sim

import "strings"

// Narrow limits a policy or trust policy to one account, region and cluster, as roles.sh does with sed.
func Narrow(text, account, region, cluster string) string {
	for _, product := range []string{"slb", "nlb", "vpc", "ecs", "cs", "fc"} {
		text = strings.ReplaceAll(text, "acs:"+product+":*:*:", "acs:"+product+":"+region+":"+account+":")
	}
	return strings.ReplaceAll(text, ":cluster/*", ":cluster/"+cluster)
}
