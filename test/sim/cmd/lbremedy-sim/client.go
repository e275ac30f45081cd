package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim"
)

type client struct {
	record
	http *http.Client
}

func newClient(r record) *client {
	// Requests must not leave the machine, so the client uses no proxy.
	return &client{r, &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

var errAbsent = errors.New("not there")

func (c *client) open(ctx context.Context, method, path string, body []byte, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+"/sim/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, command.Wrong("ask the simulation: %w", err)
	}
	r.Header.Set("Accept", accept)
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask the simulation at %s: %w", c.Address, ctx.Err())
		}
		return nil, fmt.Errorf("%w answers at %s: it has ended, or it is at another address: %w", errNone, c.Address, err)
	}
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
	said := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the simulation's answer: %w", err)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"):
		return nil, fmt.Errorf("what answers at %s has no admin API: it is not \"lbremedy-sim up\"", c.Address)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %s", errAbsent, strings.TrimSuffix(said, ": not there"))
	case resp.StatusCode < 500:
		return nil, command.Mistake{Err: errors.New(strings.TrimPrefix(said, "bad request: "))}
	}
	return nil, fmt.Errorf("the simulation answered %s: %s", resp.Status, said)
}

// do sends in and decodes the answer into out, unless they are nil.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return command.Wrong("write the request: %w", err)
		}
	}
	return c.send(ctx, method, path, body, out)
}

func (c *client) send(ctx context.Context, method, path string, body []byte, out any) error {
	answer, err := c.open(ctx, method, path, body, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return fmt.Errorf("read the simulation's answer: %w", err)
	}
	return nil
}

func (c *client) text(ctx context.Context, path string) (string, error) {
	answer, err := c.open(ctx, http.MethodGet, path, nil, "application/yaml")
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Close() }()
	b, err := io.ReadAll(answer)
	if err != nil {
		return "", fmt.Errorf("read the simulation's answer: %w", err)
	}
	return string(b), nil
}

func (c *client) world(ctx context.Context) (*sim.World, error) {
	var w sim.World
	return &w, c.send(ctx, http.MethodGet, "world", nil, &w)
}

func thing(kind, id string) string { return kind + "/" + url.PathEscape(id) }
