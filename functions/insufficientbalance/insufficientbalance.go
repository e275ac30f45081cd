// Package insufficientbalance asks to top up the account: below a limit Alibaba Cloud creates no load balancer.
package insufficientbalance

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks for the missing amount, or waits for the controller to notice the payment.
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
	// partner is what the API says when the money of a reseller has run out.
	partner = "does not have sufficient funds"
	// order is all that NLB says of an order that is refused for another reason
	// than unpaid bills. Whether it is for the money, the balance tells:
	// https://www.alibabacloud.com/help/en/slb/api-createloadbalancer
	order = "Operation failed because CreateOrderError"
	// console is how to learn why an order is refused.
	console = "Try to buy an NLB in the console of the account, which says why it is refused: the real-name verification, a payment method, an order that waits to be paid, the risk control."
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	p, err := c.AccountBalance(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	message := strings.ToLower(c.Event.Message)
	plan := decide(p, told{
		resold:  strings.Contains(message, partner),
		ordered: strings.Contains(message, "createordererror"),
		lasts:   c.Lasts(),
	})
	plan.Cause = p.Account
	return plan, nil
}

// What the failure tells beside the balance.
type told struct {
	resold  bool // the money of the account's channel partner is what lacks
	ordered bool // no more than that an order was refused
	lasts   bool // it outlasts the controller's retries
}

// decide returns the plan for a balance.
func decide(p remedy.AccountBalance, t told) remedy.Plan {
	then := fmt.Sprintf("Then the controller tries again by itself within %.0f minutes. %s", ccm.Retry.Minutes(), remedy.Together(p.Peers))
	lacks, known := p.Shortfall()
	switch {
	case t.resold:
		return remedy.Plan{
			Finding: fmt.Sprintf("The channel partner that account %s buys through has no funds left. The account itself has %s available, which does not count here.", p.Account, p.Balance),
			Ask:     fmt.Sprintf("Have the channel partner top up its account, or raise what account %s may spend. %s", p.Account, then),
		}
	case !known && t.ordered:
		return remedy.Plan{
			Finding: fmt.Sprintf("NLB could not place the order for the load balancer, and does not say why. Account %s has %s available; for this currency Alibaba Cloud names no limit.", p.Account, p.Balance),
			Ask:     fmt.Sprintf("Top account %s up if that is little. %s %s", p.Account, console, then),
		}
	case !known:
		return remedy.Plan{
			Finding: fmt.Sprintf("Account %s has %s available, and Alibaba Cloud says that this is not enough to create or change a load balancer. For this currency it names no limit.", p.Account, p.Balance),
			Ask:     fmt.Sprintf("Top account %s up in the Expenses and Costs console, or give it a payment method that is valid. %s", p.Account, then),
		}
	case lacks > 0:
		return remedy.Plan{
			Finding: fmt.Sprintf("Account %s has %s available, and creating a pay-as-you-go load balancer needs %s %s.", p.Account, p.Balance, p.Currency, cloud.Needed),
			Ask:     fmt.Sprintf("Top account %s up by %s %s or more in the Expenses and Costs console. %s", p.Account, p.Currency, lacks, then),
			Seen:    true,
		}
	case t.ordered && t.lasts:
		return remedy.Plan{
			Finding: fmt.Sprintf("NLB has not been able to place the order for the load balancer for more than 15 minutes, and does not say why. Account %s has %s available, so that money is not what lacks.", p.Account, p.Balance),
			Ask:     console + " " + then,
		}
	case t.lasts:
		return remedy.Plan{
			Finding: fmt.Sprintf("Account %s has %s available, and still the API has said for more than 15 minutes that this is not enough.", p.Account, p.Balance),
			Ask: fmt.Sprintf("Look in the Expenses and Costs console of account %s for what holds its money back: an amount that is frozen, a spending limit, a credit that has run out. "+
				"A load balancer that is paid by the month or year needs its whole price. %s", p.Account, then),
		}
	}
	if t.ordered {
		return remedy.Plan{
			Finding: fmt.Sprintf("NLB could not place the order for the load balancer, and does not say why. Account %s has %s available, which is enough: it was topped up, or money is not what lacked. The controller tries again by itself within %.0f minutes.",
				p.Account, p.Balance, ccm.Retry.Minutes()),
			Wait: ccm.Retry,
		}
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("Account %s has %s available, and creating a pay-as-you-go load balancer needs %s %s: it was topped up, it seems, and the controller tries again by itself within %.0f minutes.",
			p.Account, p.Balance, p.Currency, cloud.Needed, ccm.Retry.Minutes()),
		Wait: ccm.Retry,
	}
}
