// Package nats writes the part of a NATS server's configuration that says who may do what. Users are known by a key, of which
// the server has the public half only.
//
// The engine and people who operate it share the account LBREMEDY and may do everything there. The exporter of each
// cluster and the console, which need less, have an account of their own without JetStream, and import the few subjects
// that they need from LBREMEDY. Permissions of users of one account would not do: NATS checks where a request goes, and not
// where its answer goes.
package nats

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/stream"
)

// Names of the users.
const (
	Engine   = "engine"
	Operator = "operator"
	Console  = "console"
	System   = "system" // administers the server, and sees no message of lbremedy's
)

// Exporter returns the name of the user of a cluster's exporter.
func Exporter(cluster string) string { return "exporter-" + cluster }

// ThisCluster stands for the ID of a cluster in the file in the tree.
const ThisCluster = "THIS-CLUSTER"

// Key returns the name under which the configuration knows the public key of a user.
func Key(user string) string { return "NKEY_" + user }

// Users returns the names of all users of a NATS that these clusters share.
func Users(clusters ...string) []string {
	users := []string{Engine, Operator, Console, System}
	for _, cluster := range clusters {
		users = append(users, Exporter(cluster))
	}
	return users
}

// An account is one of those that import.
type account struct {
	name, user string
	imports    []stream.Service
}

// Accounts returns the configuration for clusters that share a NATS. The public keys are each installation's own, in keys.conf,
// which infra/keys writes.
func Accounts(clusters ...string) []byte { return With("", nil, clusters...) }

// With returns what Accounts does, but for the services of one user.
func With(user string, services []stream.Service, clusters ...string) []byte {
	all := apart(clusters)
	for i := range all {
		if all[i].user == user {
			all[i].imports = services
		}
	}
	return accountsOf(all)
}

// apart returns the accounts of those who need less than the engine.
func apart(clusters []string) []account {
	all := []account{{"CONSOLE", Console, stream.ForConsole()}}
	for _, cluster := range clusters {
		all = append(all, account{"EXPORTER_" + cluster, Exporter(cluster), stream.ForExporter(cluster)})
	}
	return all
}

func accountsOf(importing []account) []byte {
	var services []stream.Service
	importers := map[stream.Service][]string{}
	for _, a := range importing {
		for _, s := range a.imports {
			if importers[s] == nil {
				services = append(services, s)
			}
			importers[s] = append(importers[s], a.name)
		}
	}
	out := bytes.NewBufferString("include \"keys.conf\"\n\naccounts {\n  LBREMEDY {\n    jetstream: enabled\n")
	fmt.Fprintf(out, "    users: [{nkey: $%s}, {nkey: $%s}]\n    exports: [\n", Key(Engine), Key(Operator))
	slices.SortStableFunc(services, func(a, b stream.Service) int { return strings.Compare(a.Subject, b.Subject) })
	for _, s := range services {
		response := ""
		if s.Many {
			response = "response_type: stream, "
		}
		fmt.Fprintf(out, "      {service: %q, %saccounts: [%s]}\n", s.Subject, response, strings.Join(importers[s], ", "))
	}
	out.WriteString("    ]\n  }\n")
	for _, a := range importing {
		// The server refuses at once what a user may not publish, and tells it so. What nobody imports it would only leave without an answer.
		var may []string
		for _, s := range a.imports {
			may = append(may, fmt.Sprintf("%q", s.Subject))
		}
		fmt.Fprintf(out, "  %s {\n    users: [{nkey: $%s, permissions: {publish: {allow: [\n      %s\n    ]}}}]\n    imports: [\n", a.name, Key(a.user),
			strings.Join(may, "\n      "))
		for _, s := range may {
			fmt.Fprintf(out, "      {service: {account: LBREMEDY, subject: %s}}\n", s)
		}
		out.WriteString("    ]\n  }\n")
	}
	fmt.Fprintf(out, "  SYSTEM {\n    users: [{nkey: $%s}]\n  }\n}\nsystem_account: SYSTEM\n", Key(System))
	return out.Bytes()
}
