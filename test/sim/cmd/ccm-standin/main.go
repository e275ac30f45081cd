// Ccm-standin is a stand-in for a real controller in CCM_BIN, with the interface of a real one. See test/sim/controller/standin.
//
//	go build -o bin/ccm-standin ./test/sim/cmd/ccm-standin
//	CCM_BIN=$PWD/bin/ccm-standin make demo
package main

import (
	"os"

	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

func main() { os.Exit(standin.Process()) }
