// Package billing is the money of the simulated account.
package billing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// An Account says what an account may buy.
type Account struct {
	Balance           string `json:"balance,omitempty"`           // available amount, as "1,234.56"; below 100 nothing can be created
	Currency          string `json:"currency,omitempty"`          // CNY if empty
	Arrearage         bool   `json:"arrearage,omitempty"`         // there are unpaid bills
	ShareInstanceHalt bool   `json:"shareInstanceHalt,omitempty"` // shared-resource CLBs are no longer sold
	Gate              string `json:"gate,omitempty"`              // documented code that CLB refuses to sell with, such as RISK.RISK_CONTROL_REJECTION
}

// A State is the money of an account.
type State struct {
	*core.State
	Account Account
}

// New fills in what the account does not say.
func New(base *core.State, a Account) (*State, error) {
	s := &State{State: base, Account: a}
	base.Add(s)
	s.Account.Balance = cmp.Or(s.Account.Balance, "10,000.00")
	if _, err := amount(s.Account.Balance); err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	if _, ok := core.Usual(s.Account.Gate); !ok && s.Account.Gate != "" {
		return nil, fmt.Errorf("gate: %s is no error that the API reference names", s.Account.Gate)
	}
	return s, nil
}

// Payable refuses what costs money if the account cannot pay or is not let:
// pay-as-you-go needs 100 CNY.
func (s *State) Payable() *core.Failure {
	if s.Account.Gate != "" {
		return core.Documented(s.Account.Gate)
	}
	if s.Account.Arrearage {
		return core.Documented("ORDER.ARREARAGE")
	}
	if n, err := amount(s.Account.Balance); err != nil || n < 100 {
		return core.Documented("PAY.INSUFFICIENT_BALANCE")
	}
	return nil
}

// amount reads an amount of money, which the billing API writes with
// separators: "1,234.56".
func amount(s string) (float64, error) {
	return json.Number(strings.ReplaceAll(s, ",", "")).Float64()
}

// A request is a call with the state that it is about.
type request struct {
	*core.Request
	state *State
}

// on makes an action of a handler.
func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// Product is the account's money. RAM has two names for the one action, of
// which the first has three c.
//
// https://www.alibabacloud.com/help/en/user-center/developer-reference/api-bssopenapi-2017-12-14-queryaccountbalance
func Product() *core.Product {
	return &core.Product{
		Name: "bss", Version: "2017-12-14", Host: "business.aliyuncs.com", Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"QueryAccountBalance": {
				Do: on(queryAccountBalance), RAM: []string{"bss:DescribeAcccount", "bssapi:QueryAccountBalance", "bss:QueryAccountBalance"},
			},
		},
	}
}

func queryAccountBalance(q *request) (any, *core.Failure) {
	balance := q.state.Account.Balance
	if n, err := amount(balance); q.state.Account.Arrearage && err == nil && n > 0 {
		balance = fmt.Sprintf("-%s", balance)
	}
	return core.Reply{"Code": "200", "Message": "success", "Success": true, "Data": core.Reply{
		"AvailableAmount": balance, "AvailableCashAmount": balance, "CreditAmount": "0.00",
		"MybankCreditAmount": "0.00", "Currency": cmp.Or(q.state.Account.Currency, "CNY"),
		"QuotaLimit": "0.00",
	}}, nil
}
