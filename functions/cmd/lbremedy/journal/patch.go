package journal

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
)

// printPatch prints the change to the source of the record's Service as a manifest with the patch alone. Comments say where the source may
// be: labels and annotations say so, and what strangers write is in quotes, so that it ends no comment.
func printPatch(p *cli.Program, r event.Record) error {
	if r.Source == nil {
		return command.Wrong("case %s asks for no change to a source: no GitOps tool owns what a plan of it would write, or it is over", r.Case)
	}
	doc := map[string]any{}
	if err := json.Unmarshal(r.Source.Patch, &doc); err != nil {
		return fmt.Errorf("case %s: read its patch: %w", r.Case, err)
	}
	meta, _ := doc["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["namespace"], meta["name"] = r.Service.Namespace, r.Service.Name
	doc["apiVersion"], doc["kind"], doc["metadata"] = "v1", "Service", meta
	data, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("case %s: encode its patch: %w", r.Case, err)
	}
	lines := []string{
		p.Phrase("The change for the Service %q, case %q. Commit it to the source of the Service.", r.Service.String(), r.Case),
		p.Phrase("%q owns what the change writes, and reverts it in the cluster.", r.Source.Manager),
	}
	if r.Source.Kind != "" {
		lines = append(lines, p.Phrase("By its labels and annotations, the Service comes from the %s %q.", r.Source.Kind, r.Source.Name))
	}
	if r.Source.Object != "" {
		lines = append(lines, p.Phrase("Argo CD tracks it as %q.", r.Source.Object))
	}
	for _, line := range lines {
		fmt.Fprintln(p.Out, "# "+line)
	}
	_, err = p.Out.Write(data)
	return err
}
