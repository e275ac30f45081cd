package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Typed asks the person at the terminal to type a name, unless the flag confirms in advance.
func (p *Program) Typed(name, flag string) error {
	fmt.Fprint(p.Err, p.Phrase("To go on, type %s: ", name))
	line, err := bufio.NewReader(p.In).ReadString('\n')
	line = strings.TrimSpace(line)
	if line == name {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return say.Errorf("read the answer: %w", err)
	}
	if err != nil && line == "" {
		return command.Wrong("not confirmed: type %s, or give %s", name, flag)
	}
	return command.Wrong("%q is not %s: nothing was done", line, name)
}

// Person returns the caller: the given name, the kubeconfig's user if the API server answers within seconds, and the machine.
func (p *Program) Person(ctx context.Context, name string) event.Person {
	who := event.Person{Name: name, Host: Hostname()}
	cluster, err := p.Kube()
	if err != nil {
		return who
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	me, err := cluster.Me(ctx)
	if err != nil {
		p.Log().Info("who asks is not known to the cluster", "error", err)
	}
	who.Identity = me.Name
	return who
}

// Kube returns the cluster of the kubeconfig. It doesn't connect.
func (p *Program) Kube() (*kube.Cluster, error) { return p.KubeAs("") }

// KubeAs returns the cluster of the kubeconfig with the credentials of a token; empty: of the kubeconfig.
func (p *Program) KubeAs(token string) (*kube.Cluster, error) {
	config, err := kube.Load(p.Kubeconfig, p.Context)
	if err != nil {
		return nil, err
	}
	if token != "" {
		config = kube.As(config, token)
	}
	return kube.New(config)
}

// Whoami returns the name of the user; empty if unknown.
func Whoami() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// Hostname returns the name of this machine; empty if unknown.
func Hostname() string {
	name, _ := os.Hostname() // empty if unknown
	return name
}
