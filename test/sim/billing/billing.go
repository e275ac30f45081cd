// Package billing simulates an account's balance and the rules of what it can buy.
package billing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// An Account determines what can be bought.
type Account struct {
	Balance           string `json:"balance,omitempty"`           // available amount, as "1,234.56"; below 100 nothing can be created
	Currency          string `json:"currency,omitempty"`          // CNY if empty
	Arrearage         bool   `json:"arrearage,omitempty"`         // unpaid bills
	ShareInstanceHalt bool   `json:"shareInstanceHalt,omitempty"` // no shared-resource CLBs are sold
	Gate              string `json:"gate,omitempty"`              // documented error code of CLB's refusal to sell, such as RISK.RISK_CONTROL_REJECTION
}

// A State is an account's billing state.
type State struct {
	*core.State
	Account Account
}

// New returns the state, with defaults set.
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

// Payable refuses chargeable resources if the account cannot or may not pay: pay-as-you-go requires 100 CNY.
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

// amount parses an amount of the billing API, with separators: "1,234.56".
func amount(s string) (float64, error) {
	return json.Number(strings.ReplaceAll(s, ",", "")).Float64()
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// Product is the billing product. RAM has two names for its one action, the first with three c
// (https://www.alibabacloud.com/help/en/user-center/developer-reference/api-bssopenapi-2017-12-14-queryaccountbalance).
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
