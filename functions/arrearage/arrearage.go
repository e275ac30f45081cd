// Package arrearage asks to pay overdue bills: until then Alibaba Cloud creates and changes no load balancer.
package arrearage

import (
	"context"
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks for the payment. Once the bills are paid, it waits for the controller's retry.
var Remedy = &remedy.Remedy{
	Class: "arrearage",
	Doc:   doc,
	Codes: []string{
		"ORDER.ARREARAGE", "ARREARAGE", "AccountHasArrearage", "OperationFailed.UnpaidBillsExist", "OperationFailed.UnpaidBill",
		"ORDER.INST_HAS_UNSETTLED_BILLS",
	},
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
	return p.Complete(decide(p, creates, c.Lasts())), nil
}

// decide plans for a balance. creates: the Service still needs its load balancer; lasts: the failure outlasts the controller's retries.
func decide(p remedy.AccountBalance, creates, lasts bool) remedy.Plan {
	lacks, known := p.Shortfall()
	short := known && lacks > 0 && creates
	switch {
	case p.Available < 0:
		ask := say.F("Pay the overdue bills of account %s in the Expenses and Costs console: %s %s clears its debt.", p.Account, p.Currency, -p.Available)
		if short {
			ask = ask.And("The Service also needs a new load balancer, for which %s %s must be available: pay %s %s in total.",
				p.Currency, cloud.Needed, p.Currency, lacks)
		}
		return remedy.Plan{
			Finding: say.F("Account %s is in debt: its available amount is %s.", p.Account, p.Balance).
				And("Alibaba Cloud creates and changes no load balancers for it until the debt is paid."),
			Ask: ask,
		}
	case short:
		return remedy.Plan{
			Finding: say.F("Account %s is no longer in debt, but has only %s available, and the Service needs a new load balancer.", p.Account, p.Balance),
			Ask: say.F("Top up the account: %s %s brings it to the %s %s that must be available to create a load balancer.",
				p.Currency, lacks, p.Currency, cloud.Needed),
		}
	case lasts:
		return remedy.Plan{
			Finding: say.F("Account %s has %s available and is not in debt, but the API has reported unpaid bills for more than 15 minutes.", p.Account, p.Balance),
			Ask: say.F("Check the Expenses and Costs console of account %s for an unpaid monthly bill or order, and pay it.", p.Account).
				And("If there is none, ask Alibaba Cloud."),
		}
	}
	return remedy.Plan{Finding: say.F("Account %s has %s available and is not in debt, so the bills seem to be paid.", p.Account, p.Balance)}
}
