package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/functions"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// settings are the global flags.
type settings struct {
	file                                     string
	cluster, region, kubeconfig, kubecontext string
	nats, natsToken, natsCreds, natsCA       string
	natsNKey, natsInbox                      string
	endpoint, scheme                         string
	vpc                                      bool
	state                                    string
	level, format, output                    string
}

func (s *settings) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&s.file, "config", "", "YAML `file` with values for these flags (default $XDG_CONFIG_HOME/lbremedy/config.yaml, if it is there)")
	f.StringVar(&s.cluster, "cluster", "", "`ID` of the ACK cluster")
	f.StringVar(&s.region, "region", "", "`region` of the cluster, such as cn-hangzhou")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default this pod's cluster, $KUBECONFIG or the one in the home directory)")
	f.StringVar(&s.kubecontext, "context", "", "`name` of the context in the kubeconfig")
	f.StringVar(&s.nats, "nats", "", "`URL` of NATS, several separated by commas (default the one that \"lbremedy up\" runs)")
	f.StringVar(&s.natsToken, "nats-token", "", "`token` for NATS; others can read a flag, so rather set LBREMEDY_NATS_TOKEN")
	f.StringVar(&s.natsCreds, "nats-creds", "", "credentials `file` for NATS")
	f.StringVar(&s.natsNKey, "nats-nkey", "", "`file` with the seed of a user of NATS")
	f.StringVar(&s.natsInbox, "nats-inbox", "", "`beginning` of the subjects of answers, where the user of NATS may not use _INBOX")
	f.StringVar(&s.natsCA, "nats-ca", "", "`file` with the root certificates of NATS")
	f.StringVar(&s.endpoint, "cloud-endpoint", "", "`host:port` that answers instead of all endpoints of Alibaba Cloud")
	f.StringVar(&s.scheme, "cloud-scheme", "", "HTTPS (default), or HTTP for a loopback `scheme`")
	f.BoolVar(&s.vpc, "cloud-vpc", false, "use Alibaba Cloud's endpoints inside the VPC")
	f.StringVar(&s.state, "state-dir", "", "`directory` of \"lbremedy up\" (default $XDG_STATE_HOME/lbremedy)")
	f.StringVar(&s.level, "log-level", "warn", "lowest `level` that is logged: debug, info, warn or error")
	f.StringVar(&s.format, "log-format", "text", "`form` of the log: text or json")
	f.StringVarP(&s.output, "output", "o", "table", "`form` of the data: table, json or yaml")
	for name, values := range map[string][]string{
		"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}, "output": {"table", "json", "yaml"}, "cloud-scheme": {"HTTPS", "HTTP"},
	} {
		command.Complete(root, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// settle gives each global flag that wasn't set the value of its variable, or else
// of the configuration file, and checks what has a fixed set of values.
func (p *program) settle(cmd *cobra.Command) error {
	flags := cmd.Root().PersistentFlags()
	set := func(f *pflag.Flag, value, from string) error {
		if f == nil || f.Changed || value == "" {
			return nil
		}
		if err := f.Value.Set(value); err != nil {
			return command.Wrong("%s: %q is no value for %s, which is a %s", from, value, f.Name, f.Value.Type())
		}
		f.Changed = true
		return nil
	}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		variable := "LBREMEDY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		errs = append(errs, set(f, p.getenv(variable), variable))
	})
	values, path, err := p.configFile(flags)
	if err != nil {
		return err
	}
	for name, value := range values {
		errs = append(errs, set(flags.Lookup(name), value, path))
	}
	one := func(flag, value string, of ...string) {
		if !slices.Contains(of, value) {
			errs = append(errs, command.Wrong("--%s: %q is not one of %s", flag, value, strings.Join(of, ", ")))
		}
	}
	one("output", p.output, "table", "json", "yaml")
	one("log-level", p.level, "debug", "info", "warn", "error")
	one("log-format", p.format, "text", "json")
	if p.cluster != "" {
		if err := event.ValidCluster(p.cluster); err != nil {
			errs = append(errs, command.Wrong("--cluster: %w", err))
		}
	}
	return errors.Join(errs...)
}

// configFile reads the configuration file, if there is one.
func (p *program) configFile(flags *pflag.FlagSet) (map[string]string, string, error) {
	path := p.file
	if path == "" {
		base := p.home("XDG_CONFIG_HOME", ".config")
		if base == "" {
			return nil, "", nil
		}
		path = filepath.Join(base, "lbremedy", "config.yaml")
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.file == "":
		return nil, "", nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", command.Wrong("there is no configuration file %s", path)
	case err != nil:
		return nil, "", command.Wrong("read the configuration file: %w", err)
	}
	var raw map[string]any
	doc, err := config.Decode(data, &raw)
	if err != nil {
		return nil, "", command.Wrong("configuration file %s: %w", path, err)
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" {
			known = append(known, f.Name)
		}
	})
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		values[name] = fmt.Sprint(raw[name])
		_, yes := raw[name].(bool)
		switch {
		case !slices.Contains(known, name):
			doc.Fail(name, "there is no such field; there are %s", strings.Join(known, ", "))
		case yes && flags.Lookup(name).Value.Type() != "bool":
			doc.Fail(name, "it must be a text: put it in quotes")
		case !yes && flags.Lookup(name).Value.Type() == "bool":
			doc.Fail(name, "it must be true or false")
		}
	}
	if err := doc.Err(); err != nil {
		return nil, "", command.Wrong("configuration file %s: %w", path, err)
	}
	return values, path, nil
}

// home returns a base directory of the XDG specification; empty if there is no home.
func (p *program) home(variable, below string) string {
	if dir := p.getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	if home := p.getenv("HOME"); home != "" {
		return filepath.Join(home, below)
	}
	return ""
}

// oneLine returns the error with its text on one line.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// log returns the logger that the flags ask for.
func (p *program) log() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.level)); err != nil {
		level = slog.LevelWarn // settle has checked it
	}
	o := &slog.HandlerOptions{Level: level}
	if p.format == "json" {
		return slog.New(slog.NewJSONHandler(p.err, o))
	}
	return slog.New(slog.NewTextHandler(p.err, o))
}

// host returns the configuration of a host as the flags have it.
func (p *program) host() host.Config {
	return host.Config{
		Cluster: p.cluster, Region: p.region, Kubeconfig: p.kubeconfig, Context: p.kubecontext,
		NATS: p.nats, NATSToken: p.natsToken, NATSCreds: p.natsCreds, NATSNKey: p.natsNKey, NATSInbox: p.natsInbox, NATSCA: p.natsCA,
		Endpoint: p.endpoint, Scheme: p.scheme, VPC: p.vpc, Who: "cli", Log: p.log(),
	}
}

// look connects to the cluster and the cloud, and finds out whether there is a key
// and whether the cluster is the one that the flags name, before a class asks.
func (p *program) look(ctx context.Context, c host.Config) (*engine.Env, error) {
	c.Credentials = p.keys
	env, err := host.Look(c)
	if err != nil {
		return nil, command.Mistake{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if _, err := c.Credentials(ctx); err != nil {
		return nil, command.Wrong("no access to Alibaba Cloud: %w", err)
	}
	ack, err := env.Cloud.CS.Cluster(ctx)
	var refused *cloud.Error
	switch {
	case errors.As(err, &refused) && badKey.MatchString(refused.Code):
		return nil, command.Wrong("Alibaba Cloud refuses the access key: give another one in ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or log in again: %w", err)
	case errors.Is(err, cloud.ErrNotFound):
		return nil, command.Wrong("the account has no ACK cluster %q in %s: correct --cluster or --region", c.Cluster, c.Region)
	case errors.Is(err, cloud.ErrDenied):
		// A class that needs more says so itself.
	case err != nil:
		return nil, fmt.Errorf("look the cluster up at Alibaba Cloud, which has to be reachable from here: %w", err)
	case ack.Region != "" && ack.Region != c.Region:
		return nil, command.Wrong("the cluster %s is in the region %s and not in %s: correct --region", c.Cluster, ack.Region, c.Region)
	}
	return env, nil
}

// badKey is what a key or token that can't be right is answered with.
var badKey = regexp.MustCompile(`^(InvalidAccessKey|SignatureDoesNotMatch|IncompleteSignature|InvalidSecurityToken|MissingSecurityToken|SecurityTokenExpired)`)

// policyFile reads a policy file.
func policyFile(path string) (remedy.Policy, error) {
	allowed, err := policyfile.Load(path, ruled())
	if err != nil {
		return allowed, command.Mistake{Err: err}
	}
	return allowed, nil
}

// setPolicy makes the environment answer with the file's policy, or else with the
// one in force in the stream, or else with observing.
func setPolicy(env *engine.Env, path string, s *stream.Stream) error {
	switch {
	case path != "":
		allowed, err := policyFile(path)
		if err != nil {
			return err
		}
		env.Policy = func(context.Context) (remedy.Policy, error) { return allowed, nil }
	case s != nil:
		env.Policy = func(ctx context.Context) (remedy.Policy, error) { return policy.InForce(ctx, s, env.Cluster) }
	}
	return nil
}

// classes returns the IDs of all classes.
func classes() []string {
	ids := make([]string, len(functions.All))
	for i, r := range functions.All {
		ids[i] = r.Class
	}
	slices.Sort(ids)
	return ids
}

// remedies returns all that cases can be of: the classes, and the checks of the survey.
func remedies() []*remedy.Remedy { return slices.Concat(functions.All, checks.Remedies()) }

// ruled returns the IDs that a policy file can name: those of remedies.
func ruled() []string {
	ids := classes()
	for _, r := range checks.Remedies() {
		ids = append(ids, r.Class)
	}
	return ids
}

// classOf returns the remedy of a class or a check, or an error that names the classes
// there are.
func classOf(id string) (*remedy.Remedy, error) {
	all := remedies()
	i := slices.IndexFunc(all, func(r *remedy.Remedy) bool { return r.Class == id })
	if i < 0 {
		return nil, command.Wrong("there is no class %q; there are %s", id, strings.Join(classes(), ", "))
	}
	return all[i], nil
}

// completeClasses completes the IDs of classes with their titles.
func completeClasses(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, r := range functions.All {
		all = append(all, cobra.CompletionWithDesc(r.Class, r.Title()))
	}
	slices.Sort(all)
	return all, cobra.ShellCompDirectiveNoFileComp
}

// describe says what a policy allows.
func describe(allowed remedy.Policy) string {
	text := "observe: plans are shown and never applied"
	fixes := slices.ContainsFunc(slices.Collect(maps.Values(allowed.Classes)), func(c remedy.Class) bool { return c.Mode == remedy.Fix }) ||
		slices.ContainsFunc(allowed.Rules, func(r remedy.Rule) bool { return r.Mode == remedy.Fix })
	switch {
	case allowed.Mode == remedy.Fix:
		text = fmt.Sprintf("fix: plans up to %s risk are applied", allowed.Risk)
	case fixes:
		text = "observe: plans are shown, and applied only where classes or rules say fix"
	}
	if n := len(allowed.Classes); n > 0 {
		text += fmt.Sprintf("; with rules of their own for %d classes", n)
	}
	if len(allowed.Rules) > 0 {
		text += "; rules differ for some places or classes"
	}
	return text
}
