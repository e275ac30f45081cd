package main

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
)

// A build is what the program was built from.
type build struct {
	Version  string            `json:"version"`
	Revision string            `json:"revision,omitempty"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	Modules  map[string]string `json:"modules"`
}

func (p *program) version() *cobra.Command {
	var modules bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and with -o json those of all modules",
		Args:  exactly(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: map[string]string{}}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						b.Revision = s.Value
					}
				}
				for _, m := range info.Deps {
					if m.Replace != nil {
						m = m.Replace
					}
					b.Modules[m.Path] = m.Version
				}
			}
			return p.print(b, func() {
				fmt.Fprintf(p.out, "lbremedy %s (%s, %s)\n", b.Version, b.Go, b.Platform)
				if !modules {
					return
				}
				t := p.table("module", "version")
				for _, path := range slices.Sorted(maps.Keys(b.Modules)) {
					t.AppendRow([]any{path, b.Modules[path]})
				}
				t.Render()
			})
		},
	}
	cmd.Flags().BoolVar(&modules, "modules", false, "list the modules that the program was built from, too")
	return cmd
}
