// Lbremedy is the operator's program: it repairs load-balancer Services on ACK that fail to sync, and shows what was found and done.
//
// Package root assembles its commands. Each group of commands is a package beside it; cli holds what they share. Other groups also
// use journal, to find and report a case, and answer, to answer a failure by hand.
//
// Data goes to standard output, as a table, JSON or YAML; progress and errors go to standard error. An error is one sentence that
// names the culprit and the way out.
//
// Two decisions shape the commands. Writing is explicit: plan never writes, and run, replay and undo write only with --apply.
// Commands that look at a case find the stream automatically: "up" leaves its address and token in the state directory, so the
// machine that runs it needs no settings.
package main

import "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"

// version is set by the build.
var version = "dev"

func main() { root.Main(version) }
