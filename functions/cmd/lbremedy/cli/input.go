package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// ServiceArg returns the Service named in an argument.
func ServiceArg(arg string) (event.Service, error) {
	ns, name, ok := strings.Cut(arg, "/")
	if !ok || !kube.ValidName(ns) || !kube.ValidName(name) {
		return event.Service{}, command.Wrong("%q is not a Service: name one as NAMESPACE/NAME", arg)
	}
	return event.Service{Namespace: ns, Name: name}, nil
}

const nodePrefix = event.KindNode + "/"

// isOther reports whether an argument names a node or the cluster. For a Service in a namespace called node, use -n.
func isOther(arg string) bool {
	return arg == event.KindCluster || strings.HasPrefix(arg, nodePrefix)
}

// Object returns the object named in an argument: a Service, a node, or the cluster.
func (p *Program) Object(arg string) (event.Service, error) {
	if !isOther(arg) {
		return ServiceArg(arg)
	}
	if arg == event.KindCluster {
		return event.Thing(p.Cluster, event.KindCluster, p.Cluster), nil
	}
	name := strings.TrimPrefix(arg, nodePrefix)
	if !kube.ValidName(name) {
		return event.Service{}, command.Wrong("%q is not a node: name one as node/NAME", arg)
	}
	return event.Service{Kind: event.KindNode, Name: name}, nil
}

// A Scope is the namespace or Service that flags select. The zero scope selects all.
type Scope struct {
	Namespace string
	Service   string // NAME or NAMESPACE/NAME; after Check only the name
	all       bool   // the flag for all namespaces
}

// Check splits the name of a Service. It fails if a part is missing or contradicts the namespace.
func (s *Scope) Check() error {
	if s.all && s.Namespace != "" {
		return command.Wrong("--all-namespaces contradicts --namespace %s: leave out one of them", s.Namespace)
	}
	s.all = false // selects nothing
	if ns, name, ok := strings.Cut(s.Service, "/"); ok {
		if !kube.ValidName(ns) || !kube.ValidName(name) {
			return command.Wrong("%q is not a Service: name one as NAMESPACE/NAME", s.Service)
		}
		if s.Namespace != "" && s.Namespace != ns {
			return command.Wrong("--service %s is not in the namespace %s that --namespace names", s.Service, s.Namespace)
		}
		s.Namespace, s.Service = ns, name
	}
	return nil
}

// Has reports whether a Service is in the scope.
func (s Scope) Has(svc event.Service) bool {
	return (s.Namespace == "" || s.Namespace == svc.Namespace) && (s.Service == "" || s.Service == svc.Name)
}

// Service reads the Service of a reference.
func Service(ctx context.Context, env *host.Connection, ref event.Service) (*corev1.Service, error) {
	svc, err := env.Kube.Service(ctx, ref.Namespace, ref.Name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, command.Wrong("there is no Service %s in the cluster: correct the name, or --context and --kubeconfig", ref)
	}
	return svc, err
}

// Namespace returns a mistake if the cluster lacks a namespace. Any other error leaves that open.
func Namespace(ctx context.Context, env *host.Connection, name string) error {
	_, err := env.Kube.Namespace(ctx, name)
	if errors.Is(err, kube.ErrNotFound) {
		return command.Wrong("the cluster does not have the namespace %s: correct the name, or --context and --kubeconfig", name)
	}
	return err
}

// most limits the bytes read from a file: no list of Events or Services is larger.
const most = 512 << 20

// ReadText returns the content of a file, or of standard input for "-", and its name for sentences.
func (p *Program) ReadText(path string) (name string, data []byte, err error) {
	if name = path; path == "-" {
		name = "standard input"
		data, err = command.ReadAtMost(most, p.In)
	} else {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			data, err = command.ReadAtMost(most, f)
		}
	}
	if err != nil {
		return name, nil, command.Wrong("read %s: %w", name, err)
	}
	return name, data, nil
}
