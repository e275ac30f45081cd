package up

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/hand/route"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/observe/trace"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

// hands lets functions handle the classes in the routes file, and this process the others.
func (u *upRun) hands(env *host.Connection) error {
	switch {
	case u.routes == "" && len(u.Declared) > 0 && u.parts.worker:
		return command.Wrong("--declarations names classes whose code is in functions: give --routes and --engine-key as well")
	case u.routes == "" && u.key == "":
		return nil
	case u.routes == "":
		return command.Wrong("--engine-key signs calls of functions: give --routes as well")
	case u.key == "":
		return command.Wrong("--routes names functions, and calls to them are signed: give --engine-key as well (lbremedy keys makes one)")
	}
	text, err := os.ReadFile(u.key)
	if err != nil {
		return command.Wrong("--engine-key: %w", err)
	}
	key, err := hand.ParseKey(text)
	if err != nil {
		return command.Wrong("--engine-key: %s: %w", u.key, err)
	}
	endpoints, err := route.Load(u.routes, u.Cluster, u.Classes(), u.Keys)
	if err != nil {
		return command.Wrong("--routes: %w", err)
	}
	for _, r := range u.Declared {
		if endpoints[r.Class] == nil && u.parts.worker {
			return command.Wrong("--declarations: no route of %s leads to the function of the class %s", u.routes, r.Class)
		}
	}
	known := functions.Chinese(chinese.Language)()
	count := u.metrics.Functions(slices.Sorted(maps.Keys(endpoints)))
	u.functions = map[string]*hand.Remote{}
	invoked := map[string]trace.Function{}
	for _, r := range u.All() {
		if to, ok := endpoints[r.Class]; ok {
			f := trace.Function{Alibaba: to.Alibaba()}
			f.Name, f.Region = to.Function()
			invoked[r.Class] = f
			u.functions[r.Class] = &hand.Remote{
				Class: r, Key: key, Decode: env.Decode, Known: known.Has, Send: to.Send, Read: env.Kube.Service, Now: env.Now, Called: count.Called,
				Did: count.Did,
			}
		}
	}
	u.traces.Functions(invoked)
	local := env.Env.Hand
	env.Env.Hand = func(r *remedy.Remedy) hand.Hand {
		if h, ok := u.functions[r.Class]; ok {
			return h
		}
		return local(r)
	}
	u.Note("Functions handle %d of %d classes: %s.", len(endpoints), len(u.All()), strings.Join(slices.Sorted(maps.Keys(endpoints)), ", "))
	return nil
}

// reach calls each function once and logs those that don't accept calls. Failures of such a class are retried until its function does.
func (u *upRun) reach(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(8)
	for class, h := range u.functions {
		g.Go(func() error {
			if err := h.Reaches(ctx, u.Cluster); err != nil && ctx.Err() == nil {
				u.Log().Warn("a function does not accept calls; failures of its class wait", "class", class, "error", event.Redact(err.Error()))
			}
			return nil
		})
	}
	return g.Wait()
}

// makeKey makes the engine's key pair, unless the file has one, and prints the public key.
func makeKey(p *cli.Program, file string) error {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		key, err := hand.NewKey()
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		text = key.PEM()
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if _, err = f.Write(text); err == nil {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		p.Note("The private key is in %s. Only the engine may read it.", file)
	case err != nil:
		return command.Mistake{Err: err}
	}
	key, err := hand.ParseKey(text)
	if err != nil {
		return command.Wrong("%s: %w", file, err)
	}
	public := struct {
		Public string `json:"public"`
	}{key.Public()}
	return p.Print(public, func() { fmt.Fprintln(p.Out, public.Public) })
}

func keysCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "keys FILE",
		Short: "Make the key pair by which functions know the engine",
		Long: `Make an Ed25519 key pair and store the private half in FILE, in PEM. "lbremedy up
--engine-key FILE" signs each call of a function with it. Standard output has the public
half, which functions accept in LBREMEDY_ENGINE_KEYS; it is not a secret.

If FILE exists it is not changed, and its public half is printed. To replace a key, add
the public half of the new one to LBREMEDY_ENGINE_KEYS of all functions (separated by
commas), restart lbremedy up with the new file, and remove the old one.`,
		Example: "  lbremedy keys engine.pem",
		Args:    command.Exactly(1, 1, "name the file of the private key"),
		RunE:    func(_ *cobra.Command, args []string) error { return makeKey(p, args[0]) },
	}
}
