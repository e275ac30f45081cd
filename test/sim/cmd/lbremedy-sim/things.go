package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim"
)

// columns are the fields, besides the ID, that ls shows of a kind; of other kinds, all fields that are not lists.
var columns = map[string][]string{
	"vpcs":          {"name", "cidr"},
	"vswitches":     {"vpc", "zone", "cidr", "free"},
	"loadBalancers": {"name", "address", "addressType", "vswitch", "chargeType", "status", "listeners", "vgroups", "tags"},
	"nlbs":          {"name", "addressType", "status", "listeners", "tags"},
	"serverGroups":  {"name", "protocol", "servers", "tags"},
	"enis":          {"ips", "vpc", "instance", "status"},
	"instances":     {"name", "ip", "vswitch", "status"},
	"roles":         {"policies"},
	"policies":      {"type", "versions", "roles"},
	"callers":       {"name", "role", "allow", "deny"},
	"quotas":        {"product", "total", "max", "applied"},
}

func (p *program) ls() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [KIND]",
		Short: "List what there is: the kinds, or the things of one",
		Long: `List the kinds of things with how many there are, or the things of one kind. A KIND
is a list of the world, such as loadBalancers, vswitches or policies; lb, vsw and the
singular mean the same. With -o json or yaml the things are printed whole.`,
		Example: `  lbremedy-sim ls
  lbremedy-sim ls lb
  lbremedy-sim ls vswitches -o json | jq '.[] | select(.free == 0) | .id'`,
		Args:              command.Exactly(0, 1, "one kind"),
		ValidArgsFunction: p.completeThings(1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := ""
			if len(args) == 1 {
				var err error
				if kind, err = kindOf(args[0]); err != nil {
					return err
				}
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			if kind == "" {
				return p.summary(cmd.Context(), c)
			}
			list := []map[string]any{}
			if err := c.do(cmd.Context(), http.MethodGet, kind, nil, &list); err != nil {
				return err
			}
			return p.print(list, func() error { return p.list(kind, list) })
		},
	}
}

func (p *program) summary(ctx context.Context, c *client) error {
	world := map[string]any{}
	var faults []any
	if err := c.do(ctx, http.MethodGet, worldKind, nil, &world); err != nil {
		return err
	}
	if err := c.do(ctx, http.MethodGet, "faults", nil, &faults); err != nil {
		return err
	}
	counts := map[string]int{"faults": len(faults)}
	rows := [][]any{}
	for _, kind := range kinds() {
		list, _ := world[kind].([]any)
		counts[kind] = len(list)
		var ids []string
		for _, e := range list[:min(3, len(list))] {
			m, _ := e.(map[string]any)
			ids = append(ids, short(m[sim.Kinds()[kind]]))
		}
		if len(list) > 3 {
			ids = append(ids, "…")
		}
		rows = append(rows, []any{kind, len(list), strings.Join(ids, ", ")})
	}
	return p.print(counts, func() error {
		if len(faults) > 0 {
			rows = append(rows, []any{"faults", len(faults), "see lbremedy-sim fault ls"})
		}
		return p.table([]any{"kind", "count", "such as"}, rows)
	})
}

func (p *program) list(kind string, things []map[string]any) error {
	if len(things) == 0 {
		p.note("There are no %s.", kind)
		return nil
	}
	id := sim.Kinds()[kind]
	names := columns[kind]
	if names == nil {
		for _, name := range fieldNames(typeOf(kind)) {
			scalar := slices.ContainsFunc(things, func(m map[string]any) bool {
				switch m[name].(type) {
				case nil, []any, map[string]any:
					return false
				}
				return true
			})
			if scalar && name != id {
				names = append(names, name)
			}
		}
	}
	head := []any{id}
	for _, name := range names {
		head = append(head, name)
	}
	rows := [][]any{}
	for _, m := range things {
		row := []any{short(m[id])}
		for _, name := range names {
			row = append(row, short(m[name]))
		}
		rows = append(rows, row)
	}
	return p.table(head, rows)
}

func short(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		if slices.ContainsFunc(v, func(e any) bool { _, ok := e.(map[string]any); return ok }) {
			return fmt.Sprint(len(v))
		}
		var all []string
		for _, e := range v {
			all = append(all, short(e))
		}
		return strings.Join(all, ", ")
	case map[string]any:
		var all []string
		for k, e := range v {
			all = append(all, k+"="+short(e))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	case float64:
		return fmt.Sprint(v)
	}
	return fmt.Sprint(v)
}

func (p *program) get() *cobra.Command {
	return &cobra.Command{
		Use:   "get KIND ID",
		Short: "Show one thing whole",
		Example: `  lbremedy-sim get lb lb-sim0001
  lbremedy-sim get policies k8sMasterRolePolicy -o json | jq -r '.versions[0].document'`,
		Args:              command.Exactly(2, 2, "a kind and an ID"),
		ValidArgsFunction: p.completeThings(2, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			var one map[string]any
			if err := c.do(cmd.Context(), http.MethodGet, thing(kind, args[1]), nil, &one); err != nil {
				return err
			}
			return p.print(one, func() error { return command.YAML(p.out, one) })
		},
	}
}

func (p *program) add() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "add KIND ID [FIELD=VALUE...]",
		Short: "Add a thing",
		Long: `Add a new thing, bypassing the API. Omitted fields have their defaults; a load balancer
without an address gets one.`,
		Example: `  lbremedy-sim add vswitches vsw-b zone=cn-hangzhou-i free=3
  lbremedy-sim add lb lb-by-hand name=web vswitch=vsw-1 'tags[owner]=somebody'
  lbremedy-sim add policies p -f policy.yaml`,
		Args:              command.Exactly(2, -1, "a kind and an ID"),
		ValidArgsFunction: p.completeThings(1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			body, err := p.body(kind, file, args[2:], true)
			if err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			var was map[string]any
			err = c.do(cmd.Context(), http.MethodGet, thing(kind, args[1]), nil, &was)
			if err == nil {
				return fmt.Errorf("%s/%s is there already: \"lbremedy-sim set\" changes it", kind, args[1])
			}
			if !errors.Is(err, errAbsent) {
				return err
			}
			return c.send(cmd.Context(), http.MethodPut, thing(kind, args[1]), body, nil)
		},
	}
	fileFlag(cmd, &file, "YAML or JSON `file` with its fields, - for standard input")
	return cmd
}

func (p *program) set() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "set KIND ID FIELD=VALUE... | set world FIELD=VALUE...",
		Short: "Change fields of a thing, or of the world",
		Long: `Change fields of a thing, bypassing the API: to break it, or to repair it. A VALUE of
null removes the field. A FIELD in a field has a dot before it, or stands in brackets
where its name has dots; a list is given whole, as YAML or with commas.

With --file the change is a JSON merge patch (RFC 7386), in YAML or JSON. Nothing is
changed if any part of it can't be.`,
		Example: `  lbremedy-sim set vswitches vsw-1 free=0                      # no address is left
  lbremedy-sim set world account.arrearage=true                # nobody has paid
  lbremedy-sim set lb lb-sim0001 'tags[kubernetes.do.not.delete]=null'
  lbremedy-sim set callers controller deny=slb:TagResources,nlb:*
  echo '{tags: {team: shop}}' | lbremedy-sim set lb lb-sim0001 -f -`,
		Args:              command.Exactly(1, -1, "a kind, an ID and fields"),
		ValidArgsFunction: p.completeThings(2, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, path, rest, err := target(args, "set")
			if err != nil {
				return err
			}
			body, err := p.body(kind, file, rest, false)
			if err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPatch, path, body, nil)
		},
	}
	fileFlag(cmd, &file, "YAML or JSON `file` with a merge patch, - for standard input")
	return cmd
}

func target(args []string, name string) (kind, path string, rest []string, err error) {
	if args[0] == worldKind {
		return worldKind, worldKind, args[1:], nil
	}
	if kind, err = kindOf(args[0]); err != nil {
		return "", "", nil, err
	}
	if len(args) < 2 {
		return "", "", nil, command.Wrong("%s needs the ID of one of the %s: see lbremedy-sim %s --help", name, kind, name)
	}
	return kind, thing(kind, args[1]), args[2:], nil
}

func (p *program) body(kind, file string, texts []string, none bool) ([]byte, error) {
	switch {
	case file != "" && len(texts) > 0:
		return nil, command.Wrong("give fields or --file, and not both")
	case file == "" && len(texts) == 0 && !none:
		return nil, command.Wrong("nothing is to be changed: give FIELD=VALUE or --file")
	case file != "":
		b, err := p.read(file)
		if err != nil {
			return nil, err
		}
		var m map[string]any
		if err := yaml.UnmarshalStrict(b, &m); err != nil {
			return nil, command.Wrong("%s: %w", file, oneLine(err))
		}
		return b, nil
	}
	patch, err := patchOf(typeOf(kind), texts)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(patch)
}

func (p *program) read(file string) ([]byte, error) {
	var b []byte
	var err error
	if file == "-" {
		b, err = io.ReadAll(p.in)
	} else {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, command.Wrong("read %s: %w", file, err)
	}
	return b, nil
}

func fileFlag(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVarP(file, "file", "f", "", usage)
}

func (p *program) edit() *cobra.Command {
	return &cobra.Command{
		Use:   "edit KIND ID | edit world",
		Short: "Change a thing, or the world, in an editor",
		Long: `Open a thing, or the whole world, as YAML in the editor that VISUAL or EDITOR names,
and put what is saved in its place. What can't be is refused, and kept in its file.`,
		Example: `  lbremedy-sim edit lb lb-sim0001
  EDITOR='code --wait' lbremedy-sim edit world`,
		Args:              command.Exactly(1, 2, "a kind and an ID, or world"),
		ValidArgsFunction: p.completeThings(2, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, path, rest, err := target(args, "edit")
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return command.Wrong("edit world takes nothing more, and %q is", rest[0])
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			was, err := c.text(cmd.Context(), path)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "lbremedy-sim-")
			if err != nil {
				return fmt.Errorf("make a place for the file: %w", err)
			}
			file := filepath.Join(dir, "edit.yaml")
			is, err := p.edited(cmd.Context(), file, was)
			if err == nil && bytes.Equal(is, []byte(was)) {
				p.note("Nothing was changed.")
				return os.RemoveAll(dir)
			}
			if err == nil {
				err = c.send(cmd.Context(), http.MethodPut, path, is, nil)
			}
			if err != nil {
				return fmt.Errorf("%w (what was edited is in %s)", err, file)
			}
			return os.RemoveAll(dir)
		},
	}
}

func (p *program) edited(ctx context.Context, file, text string) ([]byte, error) {
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the file: %w", err)
	}
	editor := cmp.Or(p.getenv("VISUAL"), p.getenv("EDITOR"), "vi")
	// The variable may contain arguments, so a shell splits it.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.in, p.err, p.err
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the editor %s: %w", editor, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return b, nil
}

func (p *program) rm() *cobra.Command {
	return &cobra.Command{
		Use:     "rm KIND ID...",
		Aliases: []string{"delete"},
		Short:   "Drop things, whatever protects them",
		Example: `  lbremedy-sim rm lb lb-sim0001
  lbremedy-sim rm nlbs nlb-sim0001 nlb-sim0002`,
		Args:              command.Exactly(2, -1, "a kind and an ID"),
		ValidArgsFunction: p.completeThings(-1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range args[1:] {
				errs = append(errs, c.do(cmd.Context(), http.MethodDelete, thing(kind, id), nil, nil))
			}
			return errors.Join(errs...)
		},
	}
}

func (p *program) dump() *cobra.Command {
	return &cobra.Command{
		Use:   "dump",
		Short: "Print the whole world as YAML",
		Long: `Print all that there is, as YAML, or as JSON with -o json: "lbremedy-sim up --world" and
"lbremedy-sim load" read it again. Faults and calls are not part of it.`,
		Example: `  lbremedy-sim dump > world.yaml
  lbremedy-sim up --world world.yaml`,
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connect()
			if err != nil {
				return err
			}
			w, err := c.world(cmd.Context())
			if err != nil {
				return err
			}
			return p.print(w, func() error { return command.YAML(p.out, w) })
		},
	}
}

func (p *program) load() *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE",
		Short: "Put another world in the place of the present one",
		Long: `Put the world of a YAML or JSON file, or of standard input with -, in the place of the
present one. Jobs, IDs and client tokens go on, and so do faults.`,
		Example: `  lbremedy-sim load world.yaml
  lbremedy-sim dump | sed s/vsw-1/vsw-2/ | lbremedy-sim load -`,
		Args: command.Exactly(1, 1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := p.read(args[0])
			if err != nil {
				return err
			}
			if _, err := sim.ParseWorld(b); err != nil {
				return command.Wrong("%s: %w", args[0], oneLine(err))
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPut, worldKind, b, nil)
		},
	}
}

func (p *program) reset() *cobra.Command {
	return &cobra.Command{
		Use:               "reset",
		Short:             "Go back to the world of the start, without faults and calls",
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connect()
			if err != nil {
				return err
			}
			return c.do(cmd.Context(), http.MethodPost, "reset", nil, nil)
		},
	}
}
