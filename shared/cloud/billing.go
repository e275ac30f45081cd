package cloud

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/bssopenapi"
)

// Billing reads the account's balance.
type Billing struct{ c *client }

// An Amount is an amount of money in hundredths of the currency's unit.
type Amount int64

// String returns the amount with two decimals, such as "-1234.56".
func (a Amount) String() string {
	sign, n := "", uint64(a)
	if a < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%02d", sign, n/100, n%100)
}

// UnmarshalJSON reads a number as the billing API writes it, such as "1,234.56", rounded down: an amount must not look higher than it is.
func (a *Amount) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil {
		return errors.New("is not an amount of money")
	}
	bad := fmt.Errorf("is not an amount of money: %.30q", string(t))
	s := strings.TrimSpace(string(t))
	digits, negative := strings.CutPrefix(s, "-")
	units, cents, _ := strings.Cut(digits, ".")
	for i, group := range strings.Split(units, ",") {
		if group == "" || i > 0 && len(group) != 3 || i == 0 && len(group) > 3 && strings.Contains(units, ",") {
			return bad
		}
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(units, ",", ""), 10, 63)
	if err != nil || n > math.MaxInt64/100-1 || strings.Trim(cents, "0123456789") != "" {
		return bad
	}
	hundredths := int64(n) * 100
	padded := cents + "00"
	part, err := strconv.ParseInt(padded[:2], 10, 64)
	if err != nil {
		return bad
	}
	hundredths += part
	if negative {
		hundredths = -hundredths
		if strings.Trim(padded[2:], "0") != "" {
			hundredths--
		}
	}
	*a = Amount(hundredths)
	return nil
}

// A Balance is what an account can spend.
type Balance struct {
	Available Amount // cash and credit, without frozen amounts; negative if bills are overdue
	Currency  string // such as "CNY"
}

// String returns the available amount with its currency, such as "CNY 1234.56".
func (b Balance) String() string { return b.Currency + " " + b.Available.String() }

// Needed is what an account must have available, in CNY, before it can create a pay-as-you-go resource
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/service-faq).
const Needed Amount = 100_00

// Shortfall returns what the account lacks of Needed, or zero. It is false for a currency other than CNY, in which no limit is known.
func (b Balance) Shortfall() (Amount, bool) {
	return max(0, Needed-b.Available), b.Currency == "CNY"
}

// Balance returns the balance of the account. It needs grant.QueryAccountBalance, which RAM spells with three c.
func (b Billing) Balance(ctx context.Context) (Balance, error) {
	type answer struct {
		refusal
		Data struct {
			AvailableAmount *Amount
			Currency        text
		}
	}
	a, err := read(ctx, b.c, call[answer]{
		request: func() requests.AcsRequest { return bssopenapi.CreateQueryAccountBalanceRequest() },
		check: func(a answer) error {
			if err := a.check(); err != nil {
				return err
			}
			if a.Data.AvailableAmount == nil || a.Data.Currency == "" {
				return lack("AvailableAmount and Currency of the account")
			}
			return nil
		},
	})
	if err != nil {
		return Balance{}, err
	}
	return Balance{Available: *a.Data.AvailableAmount, Currency: string(a.Data.Currency)}, nil
}
