package ccm

import (
	"strings"

	"github.com/lbremedy/lbremedy/shared/say"
)

// CreateLinkedRole says how a person creates the service-linked role that is missing according to a message
// of the controller about a Service with an NLB, or a CLB
// (https://www.alibabacloud.com/help/en/ram/developer-reference/aliyunnlbfullaccess).
func CreateLinkedRole(message string, network bool) say.Text {
	const create = "aliyun resourcemanager CreateServiceLinkedRole --ServiceName "
	const eipRole, nlbRole = "AliyunServiceRoleForSlbEipAccess", "AliyunServiceRoleForNlb"
	allow := say.F("Or give the controller's RAM role the permission %s.", "ram:CreateServiceLinkedRole")
	switch {
	case strings.Contains(strings.ToLower(message), "eipaccess"):
		return say.F("Have someone with permission to create roles create %s: %s.", eipRole, create+"eipaccess.slb.aliyuncs.com").Then(allow)
	case network:
		return say.F("Have someone with permission to create roles create %s.", nlbRole).
			And("Open the NLB console once and agree to its creation, or run: %s.", create+"nlb.aliyuncs.com")
	}
	return say.F("Have someone with permission to create roles open the console of the load balancer once and agree to the creation of the role.").Then(allow)
}
