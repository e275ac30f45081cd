package cli

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Settings are the global flags.
type Settings struct {
	host.Config
	State                  string
	level, format, Output  string
	language, declarations string
}

// choices holds the allowed values of flags that have only a few.
var choices = map[string][]string{
	"language": languages, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"},
}

// AddFlags adds the flags to the root of the commands.
func (s *Settings) AddFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&s.Cluster, "cluster", "", "`ID` of the ACK cluster")
	f.StringVar(&s.Region, "region", "", "`region` of the cluster, such as cn-hangzhou")
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig `file` (default this pod's cluster, $KUBECONFIG or the one in the home directory)")
	f.StringVar(&s.Context, "context", "", "`name` of the context in the kubeconfig")
	f.StringVar(&s.NATS, "nats", "", "`URL` of NATS, several separated by commas (default the one that \"lbremedy up\" runs)")
	f.StringVar(&s.NATSToken, "nats-token", "", "`token` for NATS; other users can read flags, so prefer LBREMEDY_NATS_TOKEN")
	f.StringVar(&s.NATSCreds, "nats-creds", "", "credentials `file` for NATS")
	f.StringVar(&s.NATSNKey, "nats-nkey", "", "`file` with the seed of a NATS user")
	f.StringVar(&s.NATSCA, "nats-ca", "", "`file` with the root certificates of NATS")
	f.StringVar(&s.Endpoint, "cloud-endpoint", "", "`host:port` to use instead of all endpoints of Alibaba Cloud")
	f.StringVar(&s.Scheme, "cloud-scheme", "", "HTTPS (default), or HTTP for a loopback `scheme`")
	f.BoolVar(&s.VPC, "cloud-vpc", false, "use Alibaba Cloud's endpoints inside the VPC")
	f.StringVar(&s.declarations, "declarations", "", "`folder` with the declarations of classes whose code is in functions only")
	f.StringVar(&s.State, "state-dir", "", "`directory` of \"lbremedy up\" (default $XDG_STATE_HOME/lbremedy)")
	f.StringVar(&s.level, "log-level", "warn", "lowest `level` that is logged: debug, info, warn or error")
	f.StringVar(&s.format, "log-format", "text", "`format` of the log: text or json")
	f.StringVarP(&s.Output, "output", "o", tableForm, "`format` of the data: "+forms)
	f.StringVar(&s.language, "language", "", "`language` of what is for people: en or zh (default that of LC_ALL, LC_MESSAGES or LANG)")
	complete := func(name string, values ...cobra.Completion) {
		command.Complete(root, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	for name, values := range choices {
		complete(name, values...)
	}
	complete("cloud-scheme", "HTTPS", "HTTP")
	complete("output", tableForm, wideForm, "json", "yaml", "jsonpath=", "go-template=")
}

// narrows refuses an empty flag that would narrow down the command, as from a script's unset variable: the command would apply to everything.
func narrows(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); strings.HasPrefix(f.Usage, "only ") && (value == "" || value == "[]") {
			err = command.Wrong("--%s is empty: leave it out to mean all", f.Name)
		}
	})
	return err
}

// Chosen adds the narrowing flags to a name.
func Chosen(cmd *cobra.Command, what say.Text) say.Text {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch value := f.Value.String(); {
		case !strings.Contains(f.Usage, "only "):
		case f.Value.Type() != "bool":
			what = what.Then(say.F("with --%s %s", f.Name, strings.Trim(value, "[]")))
		case value == "true":
			what = what.Then(say.F("with --%s", f.Name))
		}
	})
	return what
}

// Settle sets each global flag that was not given from its variable, and checks those with a fixed set of values.
func (p *Program) Settle(cmd *cobra.Command) error {
	if err := narrows(cmd); err != nil {
		return err
	}
	flags := cmd.Root().PersistentFlags()
	errs := []error{command.Variables(flags, p.Getenv), p.declare()}
	if _, err := p.writer(); err != nil {
		errs = append(errs, err)
	}
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		f := flags.Lookup(name)
		if value := f.Value.String(); value != f.DefValue && !slices.Contains(choices[name], value) {
			errs = append(errs, command.Wrong("--%s: %q is not one of %s", name, value, strings.Join(choices[name], ", ")))
		}
	}
	if p.Cluster != "" {
		if err := event.ValidCluster(p.Cluster); err != nil {
			errs = append(errs, command.Wrong("--cluster: %w", err))
		}
	}
	return errors.Join(errs...)
}
