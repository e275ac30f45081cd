// Package insufficientbalance asks to top up the account: below a limit, Alibaba Cloud creates no load balancers.
package insufficientbalance

import (
	"context"
	_ "embed"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks for the missing amount, or waits for the controller's retry once it is available.
var Remedy = &remedy.Remedy{
	Class: "insufficient-balance",
	Doc:   doc,
	Codes: []string{
		"PAY.INSUFFICIENT_BALANCE", "PAYFOR.CREDIT_PAY_INSUFFICIENT_BALANCE", "InsufficientBalance", "PayInsufficientBalance", "InsufficientAvailableQuota",
		"INSUFFICIENT_BALANCE", "OperationFailed.CashBookInsufficient", "OperationFailed.CreateOrderError",
	},
	Texts: []string{
		"account does not have enough balance",
		"account balance is insufficient",
		"acount balance is insufficient", // as the API spells it
		"available balance is less than 0",
		"No payment method is specified for your account",
		partner, order,
	},
	Reads:    remedy.AccountBalanceReads,
	Scope:    remedy.Account,
	Diagnose: diagnose,
}

const (
	// partner is the API's message when a reseller's funds have run out.
	partner = "does not have sufficient funds"
	// order is NLB's message about an order rejected for any reason but unpaid bills. Only the balance shows whether money is the reason:
	// https://www.alibabacloud.com/help/en/slb/api-createloadbalancer
	order = "Operation failed because CreateOrderError"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	p, err := c.AccountBalance(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	message := strings.ToLower(c.Event.Message)
	return p.Complete(decide(p, details{
		resold:  strings.Contains(message, partner),
		ordered: strings.Contains(message, "createordererror"),
		synced:  len(c.Service.Status.LoadBalancer.Ingress) > 0,
		lasts:   c.Lasts(),
	})), nil
}

type details struct {
	resold  bool // the account's channel partner lacks the money
	ordered bool // an order was rejected, for an unknown reason
	synced  bool // the Service has a load balancer, and a low balance does not prove that it fails
	lasts   bool // the failure outlasts the controller's retries
}

func decide(p remedy.AccountBalance, t details) remedy.Plan {
	has := say.F("Account %s has %s available.", p.Account, p.Balance)
	refused := say.F("NLB could not place the order for the load balancer, and gives no reason.")
	requires := say.F("Creating a pay-as-you-go load balancer requires %s %s.", p.Currency, cloud.Needed)
	undocumented := say.F("Alibaba Cloud documents no minimum balance for this currency.")
	console := say.F("Try to buy an NLB in the account's console, which shows why the order is refused.").
		And("The reason can be real-name verification, the payment method, an unpaid order or risk control.")
	lacks, known := p.Shortfall()
	switch {
	case t.resold:
		return remedy.Plan{
			Finding: say.F("Account %s buys through a channel partner that has run out of funds.", p.Account).
				And("The account itself has %s available, which does not help here.", p.Balance),
			Ask: say.F("Ask the channel partner to top up its account, or to raise the spending limit of account %s.", p.Account),
		}
	case !known && t.ordered:
		return remedy.Plan{
			Finding: refused.Then(has).Then(undocumented),
			Ask:     say.F("If the balance is low, top up account %s.", p.Account).Then(console),
		}
	case !known:
		return remedy.Plan{
			Finding: has.And("Alibaba Cloud says that this is not enough to create or change a load balancer.").Then(undocumented),
			Ask:     say.F("Top up account %s in the Expenses and Costs console, or add a valid payment method.", p.Account),
		}
	case lacks > 0:
		if t.synced {
			requires = say.F("The Event says that this is not enough to change the Service's load balancer. A new one requires %s %s.", p.Currency, cloud.Needed)
		}
		return remedy.Plan{
			Finding: has.Then(requires),
			Ask:     say.F("Top up account %s by at least %s %s in the Expenses and Costs console.", p.Account, p.Currency, lacks),
			Proven:  !t.synced,
		}
	case t.ordered && t.lasts:
		return remedy.Plan{
			Finding: refused.And("This has lasted for more than 15 minutes.").Then(has).And("Money is not the problem."),
			Ask:     console,
		}
	case t.lasts:
		return remedy.Plan{
			Finding: has.And("For more than 15 minutes, the API has said that this is not enough."),
			Ask: say.F("Check the Expenses and Costs console of account %s for a frozen amount, a spending limit or a used-up credit.", p.Account).
				And("A subscription load balancer, paid by the month or year, needs its whole price."),
		}
	}
	finding := has.Then(requires).And("The account seems to have been topped up.")
	if t.ordered {
		finding = refused.Then(has).And("That is enough: either it was topped up, or money was not the problem.")
	}
	return remedy.Plan{Finding: finding} // the controller retries
}
