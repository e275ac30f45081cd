package sim

import (
	"cmp"
	"fmt"
)

// billing is the account's money. RAM has two names for the one action, of
// which the first has three c:
// https://www.alibabacloud.com/help/en/user-center/developer-reference/api-bssopenapi-2017-12-14-queryaccountbalance
func billing() *product {
	return &product{
		name: "bss", version: "2017-12-14", host: "business.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"QueryAccountBalance": {
				do: queryAccountBalance, ram: []string{"bss:DescribeAcccount", "bssapi:QueryAccountBalance", "bss:QueryAccountBalance"},
			},
		},
	}
}

func queryAccountBalance(q *request) (any, *failure) {
	balance := q.state.Account.Balance
	if n, err := amount(balance); q.state.Account.Arrearage && err == nil && n > 0 {
		balance = fmt.Sprintf("-%s", balance)
	}
	return reply{"Code": "200", "Message": "success", "Success": true, "Data": reply{
		"AvailableAmount": balance, "AvailableCashAmount": balance, "CreditAmount": "0.00", "MybankCreditAmount": "0.00", "Currency": cmp.Or(q.state.Account.Currency, "CNY"),
		"QuotaLimit": "0.00",
	}}, nil
}
