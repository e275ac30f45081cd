package main

import (
	"github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// accounts returns the accounts of a NATS server for one cluster, for whose ID
// stream.ThisCluster stands. What is deployed is written by infra/keys.
func accounts(all []*remedy.Remedy) ([]byte, error) {
	classes := make([]string, len(all))
	for i, r := range all {
		classes[i] = r.Class
	}
	users, err := nats.Users([]string{stream.ThisCluster}, classes)
	if err != nil {
		return nil, err
	}
	text, err := nats.Accounts(users)
	return append([]byte(generated), text...), err
}
