package main

import "github.com/lbremedy/lbremedy/infra/nats"

// accounts returns the accounts of a NATS server for one cluster. nats.ThisCluster stands for the ID of the cluster. What is deployed
// is written by infra/keys.
func accounts() []byte { return append([]byte(generated), nats.Accounts(nats.ThisCluster)...) }
