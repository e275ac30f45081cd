// Package arrearage asks to pay overdue bills: until then Alibaba Cloud creates and changes no load balancer.
package arrearage

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks for the payment, or waits for the controller to notice it.
var Remedy = &remedy.Remedy{
	Class: "arrearage",
	Doc:   doc,
	Codes: []string{"ORDER.ARREARAGE", "ARREARAGE", "AccountHasArrearage", "OperationFailed.UnpaidBillsExist", "OperationFailed.UnpaidBill", "ORDER.INST_HAS_UNSETTLED_BILLS"},
	Texts: []string{
		"account is arrearage",
		"account has some arrearage",
		"account has unpaid bills",
		"instance has unsettled bills",
		"because of UnpaidBill",
	},
	Reads:    remedy.AccountBalanceReads,
	Scope:    remedy.Account,
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	p, err := c.AccountBalance(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	creates := !ccm.Synced(c.Service) && c.Service.DeletionTimestamp == nil
	plan := decide(p, creates, c.Lasts())
	plan.Cause = p.Account
	return plan, nil
}

// decide returns the plan for a balance. creates means that the Service still needs
// its load balancer, lasts that the failure outlasts the controller's retries.
func decide(p remedy.AccountBalance, creates, lasts bool) remedy.Plan {
	then := fmt.Sprintf("Then the controller tries again by itself within %.0f minutes. %s", ccm.Retry.Minutes(), remedy.Together(p.Peers))
	lacks, known := p.Shortfall()
	short := known && lacks > 0 && creates
	topUp := fmt.Sprintf("%s %s brings it to the %s %s that must be available before a load balancer can be created.", p.Currency, lacks, p.Currency, cloud.Needed)
	switch {
	case p.Available < 0:
		ask := fmt.Sprintf("Pay the overdue bills of account %s in the Expenses and Costs console: %s %s clears its debt.", p.Account, p.Currency, -p.Available)
		if short {
			ask += " Top it up while there: " + topUp
		}
		return remedy.Plan{
			Finding: fmt.Sprintf("Account %s is in debt: its available amount is %s. Alibaba Cloud creates and changes no load balancer for it until that is paid.", p.Account, p.Balance),
			Ask:     ask + " " + then,
		}
	case short:
		return remedy.Plan{
			Finding: fmt.Sprintf("Account %s is not in debt any more, but has only %s available, and the Service needs a new load balancer.", p.Account, p.Balance),
			Ask:     "Top the account up: " + topUp + " " + then,
		}
	case lasts:
		return remedy.Plan{
			Finding: fmt.Sprintf("Account %s has %s available and is not in debt, and still the API has said for more than 15 minutes that bills are unpaid.", p.Account, p.Balance),
			Ask: fmt.Sprintf("Look in the Expenses and Costs console of account %s for a monthly bill or an order that is unpaid, and pay it. If there is none, ask Alibaba Cloud. %s",
				p.Account, then),
		}
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("Account %s has %s available and is not in debt: the bills are paid, it seems, and the controller tries again by itself within %.0f minutes.", p.Account, p.Balance, ccm.Retry.Minutes()),
		Wait:    ccm.Retry,
	}
}
