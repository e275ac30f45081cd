package remedy

import (
	"context"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// AccountBalanceReads is what AccountBalance reads; a class that calls it declares it.
var AccountBalanceReads = slices.Concat(PeerReads, []grant.Grant{grant.GetCallerIdentity, grant.QueryAccountBalance})

// An AccountBalance is the account's balance, and the Services that fail because of it.
type AccountBalance struct {
	cloud.Balance
	Account string // ID
	Peers   Peers
}

// AccountBalance reads the account's balance and the Services that fail because of it.
func (c *Case) AccountBalance(ctx context.Context) (AccountBalance, error) {
	who, err := c.Cloud.STS.Identity(ctx)
	if err != nil {
		return AccountBalance{}, fmt.Errorf("ask which account this is: %w", err)
	}
	balance, err := c.Cloud.Billing.Balance(ctx)
	if err != nil {
		return AccountBalance{}, fmt.Errorf("read the balance of account %s: %w", who.Account, err)
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return AccountBalance{}, err
	}
	return AccountBalance{Balance: balance, Account: who.Account, Peers: peers}, nil
}

// Complete adds what plans about the account's balance have: the account as cause, and what follows after the question, or else the wait for a retry.
func (b AccountBalance) Complete(p Plan) Plan {
	p.Cause = b.Account
	if len(p.Ask) > 0 {
		p.Ask = p.Ask.Then(Afterwards(b.Peers))
		return p
	}
	p.Finding, p.Wait = p.Finding.Then(ccm.Retries()), ccm.Retry
	return p
}
