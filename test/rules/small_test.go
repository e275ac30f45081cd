package rules

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSmallPrograms checks that function programs and the exporter stay small: they pass on the context of a trace without
// OpenTelemetry, whose OTLP exporter imports gRPC. Function programs also do without Prometheus.
func TestSmallPrograms(t *testing.T) {
	for pattern, banned := range map[string][]string{
		"../../functions/...":           {"go.opentelemetry.io/", "google.golang.org/grpc", "github.com/prometheus/"},
		"../../events/cmd/exporter/...": {"go.opentelemetry.io/", "google.golang.org/grpc"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, pattern)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("list the programs of %s: %v", pattern, err)
		}
		programs := 0
		for line := range strings.Lines(string(out)) {
			deps := strings.Fields(line)
			if len(deps) == 0 || strings.HasSuffix(deps[0], "/functions/cmd/lbremedy") {
				continue
			}
			programs++
			for _, dep := range deps[1:] {
				for _, b := range banned {
					if strings.HasPrefix(dep, b) {
						t.Errorf("%s imports %s: leave it to who reads its records", deps[0], dep)
					}
				}
			}
		}
		if programs == 0 {
			t.Errorf("%s holds no program", pattern)
		}
	}
}
