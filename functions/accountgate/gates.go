package accountgate

import "strings"

// A gate is what keeps an account from buying or changing load balancers.
type gate struct {
	name         string
	texts        []string // in the message, in lower case: of its text or its code
	finding, ask string
}

// gates lists them in the order of the search. The texts are from the API reference
// and from the common error codes:
// https://www.alibabacloud.com/help/en/sdk/developer-reference/common-error-codes
var gates = []gate{
	{
		"service-linked role", []string{"service linked role", "servicelinkedrole", "aliyunservicerole"},
		"A service-linked role that the load balancer needs does not exist.",
		"", // depends on the role
	},
	{
		"real-name", []string{"real-name", "real name", "realname", "no_real_name", "name authenticated", "nonameauthentication"},
		"The account has not passed the real-name verification, without which nothing can be bought.",
		"Have the owner of the account pass the real-name verification in the Account Center.",
	},
	{
		"risk control", []string{"risk", "order is suspended"},
		"The risk control of Alibaba Cloud holds back what the account orders.",
		"Have the owner of the account look for notices in the console's message center, verify the payment method, and ask the customer service of Alibaba Cloud to lift the hold; nothing else lifts it.",
	},
	{
		"unfinished order", []string{"unfinished order", "unpaid order", "inactive change", "inst_has_unpaid_order", "instance_has_inactive_change"},
		"An order for the load balancer is not finished, and no other change is taken before it is.",
		"Pay the order or cancel it, under Orders in the Expenses and Costs console; a change that is ordered for later can be cancelled there, too.",
	},
	{
		"payment method", []string{"card", "withholding agreement", "withholding_agreement", "mayi_withholding", "failed to pay", "pay_order_failed", "declined", "profile", "account information is incomplete", "invalidaccount"},
		"The account has no payment method that is valid, or its profile is not complete.",
		"Have the owner of the account complete the profile and add a payment method in the Account Center.",
	},
	{
		"distributor", []string{"distributor"},
		"The account buys through a distributor, who has to approve the order first.",
		"Have the distributor approve the order.",
	},
}

// The service-linked roles that are known to be missing:
// https://www.alibabacloud.com/help/en/ram/developer-reference/aliyunnlbfullaccess
const (
	nlbRole = "Have somebody with the right to create roles make AliyunServiceRoleForNlb: open the NLB console once and agree to its creation, or run: " +
		"aliyun resourcemanager CreateServiceLinkedRole --ServiceName nlb.aliyuncs.com."
	eipRole = "Have somebody with the right to create roles make AliyunServiceRoleForSlbEipAccess: " +
		"aliyun resourcemanager CreateServiceLinkedRole --ServiceName eipaccess.slb.aliyuncs.com. Or allow ram:CreateServiceLinkedRole to the controller's RAM role."
	anyRole = "Have somebody with the right to create roles make the role: open the console of the load balancer once and agree to its creation. Or allow ram:CreateServiceLinkedRole to the controller's RAM role."
)

// gateOf returns the gate that the message names.
func gateOf(message string, nlb bool) gate {
	message = strings.ToLower(message)
	for _, g := range gates {
		for _, text := range g.texts {
			if !strings.Contains(message, text) {
				continue
			}
			switch {
			case g.ask != "":
			case strings.Contains(message, "eipaccess"):
				g.ask = eipRole
			case nlb:
				g.ask = nlbRole
			default:
				g.ask = anyRole
			}
			return g
		}
	}
	return gate{
		name:    "order",
		finding: "Alibaba Cloud refuses what the account orders, and the message does not say why.",
		ask:     "Try to buy the same load balancer in the console of the account, which says why it is refused; set that right, or ask Alibaba Cloud.",
	}
}
