// Package accountgate asks to resolve what keeps the account from buying or changing load balancers.
package accountgate

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks a person: only the owner of the account can remove these obstacles.
var Remedy = &remedy.Remedy{
	Class: "account-gate",
	Doc:   doc,
	Codes: []string{
		"RealNameAuthenticationError", "ORDER.NO_REAL_NAME_AUTHENTICATION", "Order.NoRealNameAuthentication",
		"NO_REAL_NAME_AUTHENTICATION", "NoNameAuthentication",
		"RISK.RISK_CONTROL_REJECTION", "OperationForbidden.AccountRiskReject", "HighRiskOperationDenied", "Forbidden.RiskControl",
		"ServiceLinkedRoleNotExist", "OperationDenied.ServiceLinkedRoleNotExist", "NoPermission.AliyunServiceRole*",
		"ORDER.INST_HAS_UNPAID_ORDER", "ORDER.INSTANCE_HAS_INACTIVE_CHANGE",
		"PAY.NO_CREDIT_CARD", "PAY.INVALID_CREDIT_CARD", "PAY.WITHHOLDING_AGREEMENT_ILLEGAL", "PAY.PAY_ORDER_FAILED", "PAY.USER_DECLINED",
		"NOCARD", "PAY.MAYI_WITHHOLDING_AGREEMENT_ILLEGAL", "UserProfileNotComplete", "OperationFailed.InvalidAccount",
		"OrderFailed", "CreateOrderFailed", "ORDER.ACCOUNT_STATUS_ILLEGAL", "ORDER.OPEND", "UserNotAllowed", "TradeWaitDistributorAudit",
	},
	Texts: []string{
		"real-name authentication", "account is not real name authentication", "should be Real Name Authenticated", "should be Name Authenticated",
		"rejected by risk control", "because of account risk reject", "operation is denied because of high risk",
		"forbidden by Aliyun RiskControl", "your order is suspended",
		"service linked role does not exist", "because of ServiceLinkedRoleNotExist", "not authorized to create the service linked role",
		"unfinished order", "instance has unpaid order", "instance has inactive change",
		"doesn't have Credit Card", "doesn't have card", "did not sign a withholding agreement", "Acount withholding agreement is illegal",
		"Acount Credit card is invalid", "Acount failed to pay order", "Acount declined to pay", "User profile is not completed",
		"account information is incomplete",
		"Account failed to create order", "order account status is illegal", "account order is open to buy", "please submit the application",
		"needs distributor to audit",
	},
	Reads:    append([]grant.Grant{grant.GetCallerIdentity}, remedy.PeerReads...),
	Scope:    remedy.Account,
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	who, err := c.Cloud.STS.Identity(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("ask which account this is: %w", err)
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	why := remedy.CauseOf(causes, c.Event.Message)
	if why.Name == linkedRole {
		why.Ask = ccm.CreateLinkedRole(c.Event.Message, ccm.NLB(c.Service))
	}
	return remedy.Plan{
		Finding: why.Finding.And("The account is %s. The message is %s.", who.Account, c.Said()),
		Cause:   why.Name,
		Ask:     why.Ask.Then(remedy.Afterwards(peers)),
	}, nil
}

// linkedRole is the cause for which the question depends on the message and the kind of load balancer.
const linkedRole = "service-linked role"

// causes are in the order in which they are tried. Their texts are from the API reference and
// https://www.alibabacloud.com/help/en/sdk/developer-reference/common-error-codes
var causes = []remedy.Cause{
	{
		Name: linkedRole, Texts: []string{"service linked role", "servicelinkedrole", "aliyunservicerole"},
		Finding: say.F("A service-linked role that the load balancer needs does not exist."),
	},
	{
		Name: "real-name", Texts: []string{"real-name", "real name", "realname", "no_real_name", "name authenticated", "nonameauthentication"},
		Finding: say.F("The account has not passed real-name verification, which every purchase requires."),
		Ask:     say.F("Have the owner of the account complete real-name verification in the Account Center."),
	},
	{
		Name: "risk control", Texts: []string{"risk", "order is suspended"},
		Finding: say.F("The risk control of Alibaba Cloud blocks the orders of the account."),
		Ask: say.F("Have the owner of the account check the console's message center for notices and verify the payment method.").
			And("Then ask Alibaba Cloud support to lift the block; nothing else lifts it."),
	},
	{
		Name:    "unfinished order",
		Texts:   []string{"unfinished order", "unpaid order", "inactive change", "inst_has_unpaid_order", "instance_has_inactive_change"},
		Finding: say.F("An order for the load balancer is unfinished, and no other change is accepted until it is finished."),
		Ask:     say.F("Pay or cancel the order under Orders in the Expenses and Costs console. You can cancel a scheduled change there, too."),
	},
	{
		Name: "payment method",
		Texts: []string{
			"card", "withholding agreement", "withholding_agreement", "mayi_withholding", "failed to pay", "pay_order_failed", "declined",
			"profile", "account information is incomplete", "invalidaccount",
		},
		Finding: say.F("The account has no valid payment method, or its profile is incomplete."),
		Ask:     say.F("Have the owner of the account complete the profile and add a payment method in the Account Center."),
	},
	{
		Name: "distributor", Texts: []string{"distributor"},
		Finding: say.F("The account buys through a distributor, who must approve the order first."),
		Ask:     say.F("Have the distributor approve the order."),
	},
	{
		Name:    "order", // the message gives no reason
		Finding: say.F("Alibaba Cloud rejects the order of the account, and the message does not say why."),
		Ask: say.F("Try to buy the same load balancer in the console of the account, which shows why the order is rejected.").
			And("Fix that, or ask Alibaba Cloud."),
	},
}
