// Lbremedy is the operator's program: it repairs load-balancer Services on ACK that fail to sync, and shows what was found and done.
//
// Package root assembles its commands; each group is a package beside it, and cli holds what they share. Data goes to standard output, as
// a table, JSON or YAML; progress and errors go to standard error. An error is one sentence that names the culprit and the way out.
//
// Writing is explicit: plan never writes, and run, replay and undo write only with --apply. "up" leaves the stream's address and token in
// the state directory, so commands on its machine need no settings.
package main

import "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"

var version = "dev"

func main() { root.Main(version) }
