// Ccm-standin is the simulated controller as a program that takes the flags, the
// environment and the cloud configuration of a real one, for CCM_BIN where no
// real one is to be had. See test/sim/controller/standin.
//
//	go build -o bin/ccm-standin ./test/sim/cmd/ccm-standin
//	CCM_BIN=$PWD/bin/ccm-standin make demo
package main

import (
	"os"

	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

func main() { os.Exit(standin.Process()) }
