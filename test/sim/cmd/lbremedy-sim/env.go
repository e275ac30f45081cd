package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Callers that always exist. Both may do everything, unless the world has callers of these names.
const (
	operator   = "operator"
	controlled = "controller"
)

// An environment makes programs use a simulation: variables to set, or to unset if empty.
type environment map[string]string

func environmentOf(r record, w *sim.World) (environment, error) {
	i := slices.IndexFunc(w.Callers, func(k sim.Caller) bool { return k.Name == operator })
	if i < 0 {
		return nil, fmt.Errorf("%w: the world has no caller named %s, whose key the environment would hold: \"lbremedy-sim reset\" brings it back",
			errAbsent, operator)
	}
	k := w.Callers[i]
	e := environment{
		// For lbremedy and the commands of this program.
		"LBREMEDY_SIM": r.Address, "LBREMEDY_CLOUD_ENDPOINT": r.Address, "LBREMEDY_CLOUD_SCHEME": "HTTP", "LBREMEDY_CLOUD_VPC": "",
		"LBREMEDY_REGION": w.Region, "LBREMEDY_CLUSTER": w.Cluster.ID,
		// For the aliyun CLI: https://www.alibabacloud.com/help/en/cli/environment-variables
		"ALIBABA_CLOUD_ENDPOINT": r.Address, "ALIBABA_CLOUD_IGNORE_PROFILE": "TRUE",
		"ALICLOUD_CLIENT_SCHEME": "HTTP", "METADATA_ENDPOINT": "http://" + r.Address,
		"ACCESS_KEY_ID": k.AccessKeyID, "ACCESS_KEY_SECRET": k.Secret,
	}
	for _, family := range []string{"ALIBABA_CLOUD_", "ALIBABACLOUD_"} {
		e[family+"ACCESS_KEY_ID"], e[family+"ACCESS_KEY_SECRET"], e[family+"SECURITY_TOKEN"] = k.AccessKeyID, k.Secret, k.Token
		e[family+"REGION_ID"] = w.Region
	}
	for _, product := range []string{"SLB", "NLB", "ECS", "VPC", "RAM", "STS", "CS", "QUOTAS", "WORKORDER", "BSSOPENAPI", "EFLO_CONTROLLER"} {
		e[product+"_ENDPOINT"] = r.Address
	}
	if r.Kubeconfig != "" {
		e["LBREMEDY_KUBECONFIG"], e["LBREMEDY_CONTEXT"] = r.Kubeconfig, r.Context
	}
	return e, nil
}

type shell struct{ set, unset, quote, escaped string }

var shells = map[string]shell{
	"sh":   {"export %s=%s", "unset %s", "'", `'\''`},
	"fish": {"set -gx %s %s", "set -e %s", "'", `\'`},
}

func (e environment) write(kind string, leave bool) string {
	s := shells[kind]
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if e[name] == "" || leave {
			fmt.Fprintf(&b, s.unset+"\n", name)
			continue
		}
		value := e[name]
		if kind == "fish" {
			value = strings.ReplaceAll(value, `\`, `\\`)
		}
		fmt.Fprintf(&b, s.set+"\n", name, s.quote+strings.ReplaceAll(value, s.quote, s.escaped)+s.quote)
	}
	return b.String()
}

func (p *program) shellOf(flag string) (string, error) {
	switch flag {
	case "sh", "fish":
		return flag, nil
	case "bash", "zsh":
		return "sh", nil
	case "":
		if filepath.Base(p.getenv("SHELL")) == "fish" {
			return "fish", nil
		}
		return "sh", nil
	}
	return "", command.Wrong("--shell: %q is not one of sh, bash, zsh, fish", flag)
}

func (p *program) env() *cobra.Command {
	var kind string
	var wait time.Duration
	var leave bool
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the environment that makes programs talk to the simulation",
		Long: `Print variables, as a shell reads them: the address and the key of the caller
"operator" for lbremedy (LBREMEDY_…), for the SDKs and the aliyun command line
(ALIBABA_CLOUD_…, ALIBABACLOUD_…), and the endpoints of the products that a real
controller reads (SLB_ENDPOINT, …). A variable that would get in the way, such as a
security token of somebody's, is unset.`,
		Example: `  eval "$(lbremedy-sim env)" && lbremedy doctor
  eval "$(lbremedy-sim env --unset)"
  lbremedy-sim env --shell fish | source
  lbremedy-sim env -o json | jq -r .SLB_ENDPOINT`,
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kind, err := p.shellOf(kind)
			if err != nil {
				return err
			}
			if wait < 0 {
				return command.Wrong("--wait: %v is below 0", wait)
			}
			c, err := p.connect()
			if wait > 0 {
				c, err = p.await(cmd.Context(), wait)
			}
			if err != nil {
				return err
			}
			w, err := c.world(cmd.Context())
			if err != nil {
				return err
			}
			e, err := environmentOf(c.record, w)
			if err != nil {
				return err
			}
			return p.print(e, func() error { _, err := fmt.Fprint(p.out, e.write(kind, leave)); return err })
		},
	}
	cmd.Flags().StringVar(&kind, "shell", "", "`shell` that reads it: sh, bash, zsh or fish (default by $SHELL)")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait until a simulation runs, such as 5s")
	cmd.Flags().BoolVar(&leave, "unset", false, "print what takes the environment back")
	command.Complete(cmd, "shell", cobra.FixedCompletions([]string{"sh", "bash", "zsh", "fish"}, cobra.ShellCompDirectiveNoFileComp))
	command.Complete(cmd, "wait", cobra.NoFileCompletions)
	return cmd
}
