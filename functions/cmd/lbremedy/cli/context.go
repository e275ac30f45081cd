package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// Fields of the configuration file beside those of the global flags.
const (
	contextsField = "contexts"
	currentField  = "current-context"
)

// A ConfigFile is the configuration file of a user: values of global flags, at its top and
// by context.
type ConfigFile struct {
	Path     string // empty: there is no home directory for one
	Current  string // the chosen context; empty: none
	Contexts map[string]map[string]any
	values   map[string]any
}

// Names returns the names of the contexts, sorted.
func (f ConfigFile) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Check returns a mistake, with the nearest name, unless there is a context of this name.
func (f ConfigFile) Check(name string) error {
	if _, ok := f.Contexts[name]; ok {
		return nil
	}
	if near := command.Nearest(name, f.Names()); near != "" {
		return command.Wrong("there is no context %q in %s: did you mean %s?", name, f.Path, near)
	}
	if len(f.Contexts) == 0 {
		return command.Wrong("there is no context %q: add one with \"lbremedy context add\"", name)
	}
	return command.Wrong("there is no context %q in %s; there are %s", name, f.Path, strings.Join(f.Names(), ", "))
}

// chosen returns the values of the context that is meant: the one that is named here, or
// else the current one.
func (f ConfigFile) chosen(name string) (map[string]any, error) {
	if name == "" {
		name = f.Current
	}
	if name == "" {
		return nil, nil
	}
	return f.Contexts[name], f.Check(name)
}

// Set writes a context into the file, and keeps all else that stands there.
func (f ConfigFile) Set(name string, values map[string]any) error {
	return f.write(values, contextsField, name)
}

// Remove takes a context out of the file, and lets go of it if it is the current one.
func (f ConfigFile) Remove(name string) error {
	if f.Current == name {
		if err := f.Use(""); err != nil {
			return err
		}
	}
	return f.write(nil, contextsField, name)
}

// Use makes a context the current one; empty: none is.
func (f ConfigFile) Use(name string) error {
	if name == "" {
		return f.write(nil, currentField)
	}
	return f.write(name, currentField)
}

// write changes a field of the file, which only its owner can read then: an address of NATS
// is nobody else's business. A link stays one.
func (f ConfigFile) write(value any, path ...string) error {
	const doing = "write the configuration file"
	if f.Path == "" {
		return command.Wrong("there is no home directory for the configuration file: name one with --config")
	}
	to := f.Path
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	text, err := os.ReadFile(to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if text, err = config.Set(text, value, path...); err != nil {
		return fmt.Errorf("%s %s: %w", doing, f.Path, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), "config-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// ConfigFile reads the configuration file. One that is not there is empty.
func (p *Program) ConfigFile(cmd *cobra.Command) (ConfigFile, error) {
	return p.anyConfigFile(cmd.Root().PersistentFlags())
}

// anyConfigFile reads the configuration file, also one that is named and not there yet.
func (p *Program) anyConfigFile(flags *pflag.FlagSet) (ConfigFile, error) {
	f, err := p.configFile(flags)
	if none, ok := errors.AsType[*noFile](err); ok {
		return ConfigFile{Path: none.path}, nil
	}
	return f, err
}

// A noFile is the mistake of who names a configuration file that there is not.
type noFile struct{ path string }

// Error says which one.
func (n *noFile) Error() string { return "there is no configuration file " + n.path }

// configFile reads the configuration file. It is empty if there is none and none is named.
func (p *Program) configFile(flags *pflag.FlagSet) (ConfigFile, error) {
	f := ConfigFile{Path: p.file}
	if f.Path == "" {
		base := p.home("XDG_CONFIG_HOME", ".config")
		if base == "" {
			return f, nil
		}
		f.Path = filepath.Join(base, "lbremedy", "config.yaml")
	}
	data, err := os.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.file == "":
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
		return f, command.Mistake{Err: &noFile{f.Path}}
	case err != nil:
		return f, command.Wrong("read the configuration file: %w", err)
	}
	fields := []config.Field{{Name: contextsField, Into: &f.Contexts}, {Name: currentField, Into: &f.Current}}
	var known []string
	values := map[string]*any{}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "config" && flag.Name != "use" {
			values[flag.Name] = new(any)
			known = append(known, flag.Name)
			fields = append(fields, config.Field{Name: flag.Name, Into: values[flag.Name]})
		}
	})
	slices.SortFunc(fields, func(a, b config.Field) int { return strings.Compare(a.Name, b.Name) })
	doc, err := config.Decode(data, &struct{}{}, fields...)
	if err != nil {
		return f, command.Wrong("configuration file %s: %w", f.Path, err)
	}
	check := func(at, name string, value any) {
		_, yes := value.(bool)
		switch isBool := flags.Lookup(name).Value.Type() == "bool"; {
		case yes && !isBool:
			doc.Fail(at, "it must be a text: put it in quotes")
		case !yes && isBool:
			doc.Fail(at, "it must be true or false")
		}
	}
	f.values = map[string]any{}
	for name, value := range values {
		if *value != nil {
			f.values[name] = *value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		check(name, name, f.values[name])
	}
	for _, context := range f.Names() {
		for _, name := range slices.Sorted(maps.Keys(f.Contexts[context])) {
			at := contextsField + "." + context + "." + name
			if !slices.Contains(known, name) {
				doc.Fail(at, "there is no such field; there are %s", strings.Join(known, ", "))
				continue
			}
			check(at, name, f.Contexts[context][name])
		}
	}
	if err := doc.Err(); err != nil {
		return f, command.Wrong("configuration file %s: %w", f.Path, err)
	}
	return f, nil
}

// note keeps what flags say, the first time that it is called.
func (p *Program) note(flags *pflag.FlagSet) {
	if p.given != nil {
		return
	}
	p.given = map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case !f.Changed || slices.Contains([]string{"config", "use", "output"}, f.Name):
		case f.Value.Type() == "bool":
			p.given[f.Name] = f.Value.String() == "true"
		default:
			p.given[f.Name] = f.Value.String()
		}
	})
}

var contextName = regex.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// GivenFlags returns the values of the global flags that the call names, as a context of
// this name keeps them: files by their whole path, and nothing secret.
func (p *Program) GivenFlags(name string) (map[string]any, error) {
	if !contextName().MatchString(name) {
		return nil, command.Wrong("%q is no name for a context: use up to 63 letters, digits, dots, underscores and hyphens", name)
	}
	if len(p.given) == 0 {
		return nil, command.Wrong("a context holds values of global flags: give at least one, such as --cluster or --nats")
	}
	if _, ok := p.given["nats-token"]; ok {
		return nil, command.Wrong("--nats-token: a context holds no secrets: use --nats-creds or --nats-nkey, or set %s", variable("nats-token"))
	}
	if strings.Contains(p.NATS, "@") {
		return nil, command.Wrong("--nats: a context holds no secrets: leave the user out of the URL, and use --nats-creds or --nats-nkey")
	}
	values := maps.Clone(p.given)
	for _, name := range []string{"kubeconfig", "nats-creds", "nats-nkey", "nats-ca", "state-dir"} {
		path, ok := values[name].(string)
		if !ok || path == "" {
			continue
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		values[name] = whole
	}
	return values, nil
}

// CompleteContexts completes the names of contexts.
func (p *Program) CompleteContexts(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.SettleAlone(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := p.ConfigFile(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.Names(), cobra.ShellCompDirectiveNoFileComp
}
