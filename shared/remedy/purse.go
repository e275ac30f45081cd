package remedy

import (
	"context"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// PurseReads is what Purse reads. A class that calls it declares it.
var PurseReads = slices.Concat(FellowReads, []grant.Grant{grant.GetCallerIdentity, grant.QueryAccountBalance})

// A Purse is the money of the account, and who waits for it.
type Purse struct {
	cloud.Balance
	Account string // ID
	Fellows []Fellow
}

// Purse reads the account's balance and which Services fail for it.
func (c *Case) Purse(ctx context.Context) (Purse, error) {
	who, err := c.Cloud.STS.Identity(ctx)
	if err != nil {
		return Purse{}, fmt.Errorf("ask which account this is: %w", err)
	}
	balance, err := c.Cloud.Billing.Balance(ctx)
	if err != nil {
		return Purse{}, fmt.Errorf("read the balance of account %s: %w", who.Account, err)
	}
	fellows, err := c.Fellows(ctx)
	if err != nil {
		return Purse{}, err
	}
	return Purse{Balance: balance, Account: who.Account, Fellows: fellows}, nil
}
