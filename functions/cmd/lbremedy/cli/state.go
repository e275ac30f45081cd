package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

// A place is the address of the stream of "lbremedy up", in its state directory. It outlives up, and the next up reuses the token.
type place struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// StateDir returns the state directory.
func (p *Program) StateDir() (string, error) {
	if p.State != "" {
		return p.State, nil
	}
	base, home := p.Getenv("XDG_STATE_HOME"), p.Getenv("HOME")
	switch {
	case filepath.IsAbs(base):
	case home != "":
		base = filepath.Join(home, ".local", "state")
	default:
		return "", command.Wrong("the home directory is unknown, so the state has no place: name a directory with --state-dir")
	}
	return filepath.Join(base, "lbremedy"), nil
}

func placeFile(dir string) string { return filepath.Join(dir, "nats.json") }

func readPlace(dir string) (place, error) {
	data, err := os.ReadFile(placeFile(dir))
	if err != nil {
		return place{}, err
	}
	var at place
	if err := json.Unmarshal(data, &at); err != nil {
		return place{}, fmt.Errorf("read %s: %w", placeFile(dir), err)
	}
	return at, nil
}

// write makes the place readable by its owner only.
func (at place) write(dir string) error {
	data, err := json.Marshal(at)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "nats-*") // created with mode 0600
	if err != nil {
		return say.Errorf("write the state directory: %w", err)
	}
	_, err = tmp.Write(append(data, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), placeFile(dir))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return say.Errorf("write the state directory: %w", err)
	}
	return nil
}

// Embed starts NATS in this process, on the state directory and with the previous token, where Locate finds it.
func (p *Program) Embed() (*embedded.Server, error) {
	dir, err := p.StateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, say.Errorf("make the state directory: %w", err)
	}
	at, err := readPlace(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if at.Token == "" {
		at.Token = rand.Text()
	}
	server, err := embedded.Start(embedded.Options{
		Dir: filepath.Join(dir, "jetstream"), Port: -1, Token: at.Token, Sync: true, Log: p.Log(),
	})
	if errors.Is(err, embedded.ErrInUse) {
		return nil, say.Errorf("lbremedy up already runs on the state directory %s: "+
			"look at it with \"lbremedy ls\", or give this one another --state-dir: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	at.URL = server.URL()
	if err := at.write(dir); err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// Locate names the NATS of the state directory in a configuration that names none.
func (p *Program) Locate(c *host.Config) error {
	if c.NATS != "" {
		return nil
	}
	dir, err := p.StateDir()
	if err != nil {
		return err
	}
	at, err := readPlace(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return command.Wrong("NATS is not configured: start \"lbremedy up\", or name one with --nats or LBREMEDY_NATS (%s holds no address of one)", dir)
	}
	c.NATS, c.NATSToken, c.NATSCreds, c.NATSNKey, c.NATSCA = at.URL, at.Token, "", "", ""
	return err
}

// Stream connects to the NATS of the flags, otherwise of the state directory.
func (p *Program) Stream(ctx context.Context) (*stream.Stream, error) {
	c := p.Host()
	if err := p.Locate(&c); err != nil {
		return nil, err
	}
	s, err := Dial(ctx, c)
	if p.NATS == "" && errors.Is(err, stream.ErrUnavailable) {
		dir, _ := p.StateDir() // Locate has found it
		return nil, say.Errorf("\"lbremedy up\" does not run on the state directory %s: start it, or name a NATS with --nats: %w", dir, err)
	}
	return s, err
}

// Known reports whether the flags or the state directory name a NATS.
func (p *Program) Known() bool {
	return !errors.As(p.Locate(new(p.Config)), new(command.Mistake))
}

// Address returns the address of NATS from the flags or the state directory, without secrets; empty if unknown.
func (p *Program) Address() string {
	c := p.Config
	if p.Locate(&c) != nil {
		return ""
	}
	return event.Addresses(c.NATS)
}

// Dial connects to the NATS of a configuration. An invalid configuration is a mistake of the caller.
func Dial(ctx context.Context, c host.Config) (*stream.Stream, error) {
	s, err := c.Stream(ctx)
	if err != nil && !errors.Is(err, stream.ErrUnavailable) && ctx.Err() == nil {
		return nil, command.Mistake{Err: err}
	}
	return s, err
}
