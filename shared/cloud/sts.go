package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
)

// STS reads the caller's identity.
type STS struct{ c *client }

// An Identity is the owner of the key that signs the calls.
type Identity struct {
	Account string // ID of the Alibaba Cloud account
	ARN     string // of the user or of the role's session
}

// Identity returns the owner of the key. It needs grant.GetCallerIdentity.
func (s STS) Identity(ctx context.Context) (Identity, error) {
	type answer struct {
		AccountID text `json:"AccountId"`
		Arn       text
	}
	a, err := read(ctx, s.c, call[answer]{
		request: func() requests.AcsRequest { return sts.CreateGetCallerIdentityRequest() },
		check: func(a answer) error {
			if a.AccountID == "" || a.Arn == "" {
				return lack("AccountId and Arn")
			}
			return nil
		},
	})
	return Identity{Account: string(a.AccountID), ARN: string(a.Arn)}, err
}
