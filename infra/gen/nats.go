package main

import "github.com/lbremedy/lbremedy/infra/nats"

// accounts returns the accounts of a NATS server for one cluster, with nats.ThisCluster as its ID. infra/keys writes the deployed file.
func accounts() []byte { return append([]byte(generated), nats.Accounts(nats.ThisCluster)...) }
