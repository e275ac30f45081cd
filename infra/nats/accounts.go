// Package nats writes the permissions in a NATS server's configuration. Users are identified by a key; the server has only its public
// half. Begin with Accounts.
//
// The engine and its operators share the account LBREMEDY and may do everything there. The console and each cluster's exporter have
// accounts without JetStream, and import the few subjects that they need. Permissions within one account would not suffice: NATS checks
// the subject of a request, but not that of its answer.
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
	System   = "system" // administers the server, and sees no messages of lbremedy
)

// Exporter returns the name of the user of a cluster's exporter.
func Exporter(cluster string) string { return "exporter-" + cluster }

// ThisCluster takes the place of a cluster's ID in the generated file.
const ThisCluster = "THIS-CLUSTER"

// Key returns the variable of a user's public key in the configuration.
func Key(user string) string { return "NKEY_" + user }

// Users returns the names of all users of a NATS for these clusters.
func Users(clusters ...string) []string {
	users := []string{Engine, Operator, Console, System}
	for _, cluster := range clusters {
		users = append(users, Exporter(cluster))
	}
	return users
}

type account struct {
	name, user string
	imports    []stream.Service
}

// Accounts returns the configuration for clusters that share a NATS. infra/keys writes an installation's public keys to keys.conf.
func Accounts(clusters ...string) []byte { return With("", nil, clusters...) }

// With is Accounts with other services for one user.
func With(user string, services []stream.Service, clusters ...string) []byte {
	all := apart(clusters)
	for i := range all {
		if all[i].user == user {
			all[i].imports = services
		}
	}
	return accountsOf(all)
}

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
		// The server refuses a forbidden publish at once, and tells the user. A request that nobody imports would only remain unanswered.
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
