package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/hand/route"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// apart is the class that a separate process handles as a function. This program is that function if functionVariable names the class.
const (
	apart            = "tag-missing"
	functionVariable = "LBREMEDY_DEMO_FUNCTION"
)

func serveFunction() bool {
	i := slices.IndexFunc(functions.All, func(r *remedy.Remedy) bool { return r.Class == os.Getenv(functionVariable) })
	if i < 0 {
		return false
	}
	serve.Main(functions.All[i])
	return true
}

func function(ctx context.Context, s *screen, tb *testbed.Testbed, env *engine.Env, dir string) (end func(), err error) {
	key, err := hand.NewKey()
	if err != nil {
		return nil, err
	}
	port, err := free()
	if err != nil {
		return nil, err
	}
	environ, err := tb.Function(ctx, apart, dir, key.Public(), port)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, apart+".log"))
	if err != nil {
		return nil, err
	}
	c := exec.Command(program)
	c.Env, c.Stdout, c.Stderr = append(environ, functionVariable+"="+apart, "HOME="+dir, "PATH="+os.Getenv("PATH")), log, log
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start the function of %s: %w", apart, err)
	}
	end = func() { _ = c.Process.Kill(); _ = c.Wait(); _ = log.Close() }
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := ready(ctx, url+"/readyz"); err != nil {
		end()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the function of %s is not ready: %w\n%s", apart, err, said)
	}
	file := filepath.Join(dir, "routes.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "routes: {%s: {url: %q}}\n", apart, url), 0o600); err != nil {
		end()
		return nil, err
	}
	endpoints, err := route.Load(file, tb.ID, []string{apart}, nil)
	if err != nil {
		end()
		return nil, err
	}
	local, known := env.Hand, functions.Chinese(chinese.Language)()
	env.Hand = func(r *remedy.Remedy) hand.Hand {
		if to := endpoints[r.Class]; to != nil {
			return &hand.Remote{Class: r, Key: key, Decode: env.Decode, Known: known.Has, Send: to.Send, Read: env.Kube.Service}
		}
		return local(r)
	}
	s.fact("Function", "%s in a process of its own at %s, called with signed calls; the other classes in the engine's process", apart, url)
	return end, nil
}

func free() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if a, err := http.DefaultClient.Do(r); err == nil {
			_ = a.Body.Close()
			if a.StatusCode == http.StatusOK {
				tick.Stop()
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		}
	}
}
