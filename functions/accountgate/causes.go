package accountgate

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A gate keeps an account from buying or changing load balancers.
type gate struct {
	name         string
	texts        []string // parts of the message, in lower case: of its text or its code
	finding, ask say.Text
}

// gates are tried in this order. Their texts come from the API reference and the common error codes:
// https://www.alibabacloud.com/help/en/sdk/developer-reference/common-error-codes
var gates = []gate{
	{
		"service-linked role", []string{"service linked role", "servicelinkedrole", "aliyunservicerole"},
		say.F("A service-linked role that the load balancer needs does not exist."),
		nil, // see missingRole
	},
	{
		"real-name", []string{"real-name", "real name", "realname", "no_real_name", "name authenticated", "nonameauthentication"},
		say.F("The account has not passed real-name verification, which every purchase requires."),
		say.F("Have the owner of the account complete real-name verification in the Account Center."),
	},
	{
		"risk control", []string{"risk", "order is suspended"},
		say.F("The risk control of Alibaba Cloud blocks the orders of the account."),
		say.F("Have the owner of the account check the console's message center for notices and verify the payment method.").
			And("Then ask Alibaba Cloud support to lift the block; nothing else lifts it."),
	},
	{
		"unfinished order", []string{"unfinished order", "unpaid order", "inactive change", "inst_has_unpaid_order", "instance_has_inactive_change"},
		say.F("An order for the load balancer is unfinished, and no other change is accepted until it is finished."),
		say.F("Pay or cancel the order under Orders in the Expenses and Costs console. You can cancel a scheduled change there, too."),
	},
	{
		"payment method", []string{
			"card", "withholding agreement", "withholding_agreement", "mayi_withholding", "failed to pay", "pay_order_failed", "declined",
			"profile", "account information is incomplete", "invalidaccount",
		},
		say.F("The account has no valid payment method, or its profile is incomplete."),
		say.F("Have the owner of the account complete the profile and add a payment method in the Account Center."),
	},
	{
		"distributor", []string{"distributor"},
		say.F("The account buys through a distributor, who must approve the order first."),
		say.F("Have the distributor approve the order."),
	},
}

// unexplained is the gate of a message that gives no reason.
var unexplained = gate{
	name:    "order",
	finding: say.F("Alibaba Cloud rejects the order of the account, and the message does not say why."),
	ask: say.F("Try to buy the same load balancer in the console of the account, which shows why the order is rejected.").
		And("Fix that, or ask Alibaba Cloud."),
}

// gateOf returns the gate that the message is about.
func gateOf(message string, nlb bool) gate {
	message = strings.ToLower(message)
	in := func(text string) bool { return strings.Contains(message, text) }
	for _, g := range gates {
		if !slices.ContainsFunc(g.texts, in) {
			continue
		}
		if len(g.ask) == 0 {
			g.ask = missingRole(in("eipaccess"), nlb)
		}
		return g
	}
	return unexplained
}

// missingRole asks for a service-linked role:
// https://www.alibabacloud.com/help/en/ram/developer-reference/aliyunnlbfullaccess
func missingRole(eip, nlb bool) say.Text {
	const create = "aliyun resourcemanager CreateServiceLinkedRole --ServiceName "
	const eipRole, nlbRole = "AliyunServiceRoleForSlbEipAccess", "AliyunServiceRoleForNlb"
	allow := say.F("Or give the controller's RAM role the permission %s.", "ram:CreateServiceLinkedRole")
	switch {
	case eip:
		return say.F("Have someone with permission to create roles create %s: %s.", eipRole, create+"eipaccess.slb.aliyuncs.com").Then(allow)
	case nlb:
		return say.F("Have someone with permission to create roles create %s.", nlbRole).
			And("Open the NLB console once and agree to its creation, or run: %s.", create+"nlb.aliyuncs.com")
	}
	return say.F("Have someone with permission to create roles open the console of the load balancer once and agree to the creation of the role.").Then(allow)
}
