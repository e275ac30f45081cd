package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/test/sim"
)

// quick is the time-out of completion, because somebody is typing.
const quick = time.Second

func (p *program) asking(cmd *cobra.Command) *client {
	if p.settle(cmd.Root().PersistentFlags()) != nil {
		return nil
	}
	c, err := p.connect()
	if err != nil {
		return nil
	}
	return c
}

// completeThings completes a kind, and then up to this many IDs (any number if negative), optionally followed by fields.
func (p *program) completeThings(arguments int, fields bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		world := cmd.Name() == "set" || cmd.Name() == "edit"
		if len(args) == 0 {
			all := kinds()
			if world {
				all = append(all, worldKind)
			}
			return all, none
		}
		if world && args[0] == worldKind {
			if fields {
				return assignable(typeOf(worldKind)), none | cobra.ShellCompDirectiveNoSpace
			}
			return nil, none
		}
		kind, err := kindOf(args[0])
		if err != nil {
			return nil, none
		}
		if fields && len(args) >= 2 {
			return assignable(typeOf(kind)), none | cobra.ShellCompDirectiveNoSpace
		}
		c := p.asking(cmd)
		if c == nil || arguments >= 0 && len(args) >= arguments {
			return nil, none
		}
		ids := c.ids(cmd, kind)
		return slices.DeleteFunc(ids, func(id string) bool {
			name, _, _ := strings.Cut(id, "\t")
			return slices.Contains(args[1:], name)
		}), none
	}
}

func assignable(t reflect.Type) []cobra.Completion {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var all []cobra.Completion
	for _, name := range fieldNames(t) {
		f, _ := fieldOf(t, name)
		switch f.Type.Kind() {
		case reflect.Struct:
			for _, inner := range fieldNames(f.Type) {
				all = append(all, name+"."+inner+"=")
			}
			if len(fieldNames(f.Type)) == 0 { // a time
				all = append(all, name+"=")
			}
		case reflect.Map:
			all = append(all, name+"[")
		default:
			all = append(all, name+"=")
		}
	}
	return all
}

func (c *client) ids(cmd *cobra.Command, kind string) []cobra.Completion {
	ctx, cancel := context.WithTimeout(contextOf(cmd), quick)
	defer cancel()
	var list []map[string]any
	if err := c.do(ctx, http.MethodGet, kind, nil, &list); err != nil {
		return nil
	}
	var all []cobra.Completion
	for _, m := range list {
		id, _ := m[sim.Kinds()[kind]].(string)
		name, _ := m["name"].(string)
		if kind == "callers" {
			id, name = name, id
		}
		if name != "" && name != id {
			id = cobra.CompletionWithDesc(id, name)
		}
		all = append(all, id)
	}
	return all
}

// contextOf returns the context of a command; completion may lack one.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

func (p *program) completeCallers(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c := p.asking(cmd); c != nil {
		return c.ids(cmd, "callers"), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (p *program) completeFaults(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c := p.asking(cmd)
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(contextOf(cmd), quick)
	defer cancel()
	var list []fault
	var all []cobra.Completion
	if err := c.do(ctx, http.MethodGet, "faults", nil, &list); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, f := range list {
		if id := fmt.Sprint(f.ID); !slices.Contains(args, id) {
			all = append(all, cobra.CompletionWithDesc(id, orAll(f.Product)+":"+orAll(f.Action)+" "+f.does()))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

func completeActions(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return sim.Actions(), cobra.ShellCompDirectiveNoFileComp
}

func completeBareActions(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, a := range sim.Actions() {
		_, name, _ := strings.Cut(a, ":")
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}

func products() []string {
	var all []string
	for _, a := range sim.Actions() {
		product, _, _ := strings.Cut(a, ":")
		all = append(all, product)
	}
	return slices.Compact(all)
}

func escape(s string) string { return url.QueryEscape(s) }
