// Lbremedy is the operator's program: it heals load-balancer Services on ACK whose
// sync fails, and shows what was found out and done.
//
// Package root puts its commands together. Each group of commands is a package beside
// it, and what they share is in cli. Of the groups, journal and answer are used by
// others, too: how a case is found and reported, and how a failure is answered by hand.
//
// What it prints as data goes to standard output, as a table, JSON or YAML; what
// it says beside that, progress and errors, goes to standard error. An error is one
// sentence that names the culprit and the way out.
//
// Two decisions shape the commands. What may write says so: plan never does, and
// run, replay and undo do only with --apply. And the commands that look at a case
// find the stream by themselves: "up" leaves its address and token in the state
// directory, so that nothing has to be set on the machine where it runs.
package main

import "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"

// version is set by the build.
var version = "dev"

func main() { root.Main(version) }
