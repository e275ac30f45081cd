package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/functions/survey"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// accounts returns the part of a NATS server's configuration that says who may do
// what: one user for each class, program and kind of person, known by a key of which
// the server has the public half alone. The keys are each installation's own, in
// keys.conf, which infra/keys writes. It writes the ID of the cluster as well, for which
// stream.ThisCluster stands here.
func accounts(all []*remedy.Remedy) ([]byte, error) {
	classes := make([]string, len(all))
	for i, r := range all {
		classes[i] = r.Class
	}
	var findings []string
	for _, r := range survey.Remedies() {
		findings = append(findings, r.Class)
	}
	users, err := stream.Users(stream.ThisCluster, classes, findings)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBufferString(generated)
	out.WriteString("include \"keys.conf\"\n\naccounts {\n  LBREMEDY {\n    jetstream: enabled\n    users: [\n")
	for _, name := range slices.Sorted(maps.Keys(users)) {
		publish, err := json.Marshal(users[name].Publish)
		if err != nil {
			return nil, fmt.Errorf("write the subjects of %s: %w", name, err)
		}
		subscribe, err := json.Marshal(users[name].Subscribe)
		if err != nil {
			return nil, fmt.Errorf("write the subjects of %s: %w", name, err)
		}
		// JSON writes > in another way, which is the same to a server and not to a reader.
		text := func(list []byte) string { return strings.ReplaceAll(string(list), `\u003e`, ">") }
		fmt.Fprintf(out, "      # %s\n      {nkey: $%s, permissions: {\n        publish: {allow: %s}\n        subscribe: {allow: %s}\n      }}\n",
			name, stream.KeyName(name), strings.ReplaceAll(text(publish), ",", ", "), text(subscribe))
	}
	out.WriteString("    ]\n  }\n  # Of those who look after the server itself. It sees no message of lbremedy's.\n")
	fmt.Fprintf(out, "  SYSTEM {\n    users: [{nkey: $%s}]\n  }\n}\nsystem_account: SYSTEM\n", stream.KeyName("system"))
	return out.Bytes(), nil
}
