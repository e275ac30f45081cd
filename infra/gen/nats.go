package main

import "github.com/lbremedy/lbremedy/infra/nats"

// accounts uses nats.ThisCluster as the cluster's ID. infra/keys writes the deployed file.
func accounts() []byte { return append([]byte(generated), nats.Accounts(nats.ThisCluster)...) }
