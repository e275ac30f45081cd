package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"

	"github.com/lbremedy/lbremedy/shared/accesskey"
)

// A Key is what requests are signed with.
type Key = accesskey.Key

// Static returns Credentials that always give the same key.
func Static(k Key) Credentials {
	return func(context.Context) (Key, error) { return k, nil }
}

// DefaultChain returns the Credentials that a nil Config.Credentials stands for:
// the SDK's chain of places to look for a key, or the role of the service account.
func DefaultChain() Credentials {
	return accesskey.Chain(func() func() (Key, error) {
		var chain credentials.CredentialsProvider = credentials.NewDefaultCredentialsProvider()
		if accesskey.Role() != "" {
			role, err := credentials.NewOIDCCredentialsProviderBuilder().Build()
			if err != nil {
				return func() (Key, error) { return Key{}, err }
			}
			chain = role
		}
		return func() (Key, error) {
			found, err := chain.GetCredentials()
			if err != nil {
				return Key{}, err
			}
			return Key{ID: found.AccessKeyId, Secret: found.AccessKeySecret, Token: found.SecurityToken}, nil
		}
	}, "log in with the aliyun command line, or run where a RAM role is attached")
}
