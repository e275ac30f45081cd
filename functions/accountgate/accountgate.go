// Package accountgate asks to resolve what keeps the account from buying or changing load balancers.
package accountgate

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
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
	g := gateOf(c.Event.Message, ccm.NLB(c.Service))
	return remedy.Plan{
		Finding: g.finding.And("The account is %s. The message is %s.", who.Account, c.Said()),
		Cause:   g.name,
		Ask:     g.ask.And("The controller then retries within %.0f minutes.", ccm.Retry.Minutes()).Then(remedy.Together(peers)),
	}, nil
}
