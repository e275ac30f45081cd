package main

import "github.com/lbremedy/lbremedy/infra/nats"

func accounts() []byte { return append([]byte(generated), nats.Accounts(nats.ThisCluster)...) }
