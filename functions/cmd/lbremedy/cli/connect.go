package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Log returns the logger set by the flags.
func (p *Program) Log() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.level)); err != nil {
		level = slog.LevelWarn // Settle has checked it
	}
	o := &slog.HandlerOptions{Level: level}
	if p.format == "json" {
		return slog.New(slog.NewJSONHandler(p.Err, o))
	}
	return slog.New(slog.NewTextHandler(p.Err, o))
}

// Host returns the configuration of a host set by the flags.
func (p *Program) Host() host.Config {
	c := p.Config
	c.Log, c.Who = p.Log(), "cli"
	return c
}

// ConnectReads connects to the cluster and the cloud. It checks that there is a key and that the cluster is the one named in the flags.
func (p *Program) ConnectReads(ctx context.Context, c host.Config) (*host.Connection, error) {
	c.Credentials = p.Keys
	env, err := host.ConnectReads(c)
	if err != nil {
		return nil, command.Mistake{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if _, err := c.Credentials(ctx); err != nil {
		return nil, command.Wrong("no access to Alibaba Cloud: %w", err)
	}
	ack, err := env.Clients.Cloud.CS.Cluster(ctx)
	var refused *cloud.Error
	switch {
	case errors.As(err, &refused) && BadKey(refused.Code):
		return nil, command.Wrong("Alibaba Cloud refuses the access key: "+
			"give another one in ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or log in again: %w", err)
	case errors.Is(err, cloud.ErrNotFound):
		return nil, command.Wrong("the account has no ACK cluster %q in %s: correct --cluster or --region", c.Cluster, c.Region)
	case errors.Is(err, cloud.ErrDenied):
		// A class that needs more reports that.
	case err != nil:
		return nil, say.Errorf("look up the cluster at Alibaba Cloud, which must be reachable from here: %w", err)
	case ack.Region != "" && ack.Region != c.Region:
		return nil, command.Wrong("the cluster %s is in the region %s and not in %s: correct --region", c.Cluster, ack.Region, c.Region)
	}
	return env, nil
}

var badKey = regex.New(`^(InvalidAccessKey|SignatureDoesNotMatch|IncompleteSignature|InvalidSecurityToken|MissingSecurityToken|SecurityTokenExpired)`)

// BadKey reports whether this is Alibaba Cloud's error code for an invalid key.
func BadKey(code string) bool { return badKey().MatchString(code) }

// SecretFlag adds the flag --secrets: the directories of files that the policy's sinks may name, by default those in LBREMEDY_SECRETS.
func (p *Program) SecretFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringSliceVar(to, "secrets", strings.Split(cmp.Or(p.Getenv("LBREMEDY_SECRETS"), "/etc/lbremedy/secrets"), ","),
		"`directories` with the files that sinks of the policy may name, of secrets and templates, separated by commas")
}

// Prepare connects to everything that a fix needs. With apply, that includes the stream and the policy in force at each write. Otherwise
// the stream is optional; with one, a plan is judged by the policy in force, pauses, budgets and the journal. The policy in file, if any,
// replaces the one in force. The caller closes the environment.
func (p *Program) Prepare(ctx context.Context, file string, apply bool) (*host.Connection, error) {
	var given *policyfile.Source
	if file != "" {
		var err error
		if given, _, err = p.readPolicy(ctx, file); err != nil {
			return nil, err
		}
	}
	var s *stream.Stream
	if apply {
		var err error
		if s, err = p.Stream(ctx); err != nil {
			return nil, err
		}
	}
	env, err := p.ConnectReads(ctx, p.Host())
	switch {
	case err != nil:
		if s != nil {
			s.Close()
		}
		return nil, err
	case s != nil:
		env.Stream = s
		p.NotePause(ctx, s)
		env.Policy = func(ctx context.Context) (remedy.Policy, error) {
			v, _, err := p.InForce(ctx, s, env.Cluster)
			return v.Policy, err
		}
	default:
		p.beside(ctx, env, file)
	}
	if given != nil {
		env.Policy = func(ctx context.Context) (remedy.Policy, error) {
			v, err := given.Read(ctx)
			return v.Policy, err
		}
	}
	return env, nil
}

// beside adds the stream, if known, and the policy in force. It prints a note instead of returning an error.
func (p *Program) beside(ctx context.Context, env *host.Connection, file string) {
	if !p.Known() {
		return
	}
	s, err := p.Stream(ctx)
	var now policy.Version
	if err == nil {
		p.NotePause(ctx, s)
		if now, _, err = p.InForce(ctx, s, env.Cluster); err != nil {
			s.Close()
		}
	}
	switch {
	case err != nil && file != "":
		p.Note("Pauses, budgets and the journal are unknown: %s.", command.Clean(event.Redact(err.Error())))
	case err != nil:
		p.Note("The policy in force is unknown, so observe mode is assumed: %s.", command.Clean(event.Redact(err.Error())))
		env.Assumed = err
	default:
		env.Stream = s
		env.Policy = func(context.Context) (remedy.Policy, error) { return now.Policy, nil }
	}
}

// Close closes the stream of an environment, if it has one.
func Close(env *host.Connection) {
	if env != nil && env.Stream != nil {
		env.Stream.Close()
	}
}
