// Package nats writes the part of a NATS server's configuration that says who may do
// what in lbremedy's account: one user for each class, program and kind of person, known
// by a key of which the server has the public half alone.
package nats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/stream"
)

// A User is one that the server knows.
type User struct {
	Name    string // as its Secret and its inbox are called
	Cluster string // whose subjects and keys it may use; empty: it is not one cluster's
	Key     string // the name under which the configuration knows its public key
	may     stream.Permissions
}

// Users returns the users of these clusters, and those that are not one cluster's, in the
// order of their names. The key of a user has its cluster in its name if there are several
// clusters.
func Users(clusters, classes []string) ([]User, error) {
	var all []User
	for i, cluster := range clusters {
		if slices.Contains(clusters[:i], cluster) {
			return nil, fmt.Errorf("permit the users of clusters: %s is named twice", cluster)
		}
		own, err := stream.Users(cluster, classes)
		if err != nil {
			return nil, err
		}
		for name, may := range own {
			u := User{Name: name, Cluster: cluster, Key: stream.KeyName(name), may: may}
			switch {
			case slices.Contains(stream.Common, name) && i > 0:
				continue
			case slices.Contains(stream.Common, name):
				u.Cluster = ""
			case len(clusters) > 1:
				u.Key += "_" + cluster
			}
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b User) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// System is the name of the user that looks after the server itself.
const System = "system"

// Accounts returns the configuration. The keys are each installation's own, in keys.conf,
// which infra/keys writes.
func Accounts(users []User) ([]byte, error) {
	out := bytes.NewBufferString("include \"keys.conf\"\n\naccounts {\n  LBREMEDY {\n    jetstream: enabled\n    users: [\n")
	for _, u := range users {
		publish, err := json.Marshal(u.may.Publish)
		if err != nil {
			return nil, fmt.Errorf("write the subjects of %s: %w", u.Name, err)
		}
		subscribe, err := json.Marshal(u.may.Subscribe)
		if err != nil {
			return nil, fmt.Errorf("write the subjects of %s: %w", u.Name, err)
		}
		// JSON writes > in another way, which is the same to a server and not to a reader.
		text := func(list []byte) string { return strings.ReplaceAll(string(list), `\u003e`, ">") }
		fmt.Fprintf(out, "      # %s\n      {nkey: $%s, permissions: {\n        publish: {allow: %s}\n        subscribe: {allow: %s}\n      }}\n",
			strings.TrimSpace(u.Name+" "+u.Cluster), u.Key, strings.ReplaceAll(text(publish), ",", ", "), text(subscribe))
	}
	out.WriteString("    ]\n  }\n  # Of those who look after the server itself. It sees no message of lbremedy's.\n")
	fmt.Fprintf(out, "  SYSTEM {\n    users: [{nkey: $%s}]\n  }\n}\nsystem_account: SYSTEM\n", stream.KeyName(System))
	return out.Bytes(), nil
}
