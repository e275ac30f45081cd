package main

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

type runtime struct {
	Name        string
	File        string // generated file, relative to the root
	Root        string // root of the repository, relative to the file
	Concurrency int    // invocations per instance
	HTTP        bool   // the program listens; otherwise the platform's SDK feeds it
}

// A call mostly waits for the cloud: an instance takes several. go1 feeds an instance one at a time.
var runtimes = []runtime{
	{Name: "custom.debian12", File: "s.yaml", Root: ".", Concurrency: 10, HTTP: true},
	{Name: "go1", File: "infra/fc/go1.yaml", Root: "../..", Concurrency: 1},
}

// onlyPublic products have no endpoint inside a VPC (see shared/cloud): functions that call them need internet access.
var onlyPublic = []string{"bss", "quotas", "workorder"}

type function struct {
	Class       string
	Title       string
	Internet    bool
	CPU         string
	Memory      int // MB
	Timeout     int // seconds
	Concurrency int
}

func functionsOf(all []*remedy.Remedy, rt runtime) []function {
	var out []function
	for _, r := range all {
		out = append(out, function{
			Class: r.Class, Title: r.Title(),
			Internet: slices.ContainsFunc(r.Grants(), func(g grant.Grant) bool { return slices.Contains(onlyPublic, g.Product()) }),
			CPU:      "0.1", Memory: 128, Timeout: 90, Concurrency: rt.Concurrency,
		})
	}
	return out
}

// identity returns a function's identity in the cluster. It authenticates by its RAM role, as a user whose name ACK generates, and may
// only impersonate its class's ServiceAccount: RBAC and the admission policy apply as for a Pod, and no secret is stored.
func identity(r *remedy.Remedy) ([]byte, error) { return rendered("identity.yaml", r.Class) }

func identities(all []*remedy.Remedy) ([]byte, error) {
	text := []byte(generated)
	for _, r := range all {
		one, err := identity(r)
		if err != nil {
			return nil, err
		}
		text = append(text, one...)
	}
	return text, nil
}

func deployment(all []*remedy.Remedy, rt runtime) ([]byte, error) {
	return rendered("s.yaml", map[string]any{"Runtime": rt, "Functions": functionsOf(all, rt)})
}

// yamlText returns a YAML string that its content can't end.
func yamlText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
