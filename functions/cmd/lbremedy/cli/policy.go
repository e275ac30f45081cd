package cli

import (
	"context"
	"strings"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const inConfigMap = "configmap:"

// InConfigMap reports whether --policy names a ConfigMap rather than a file.
func InConfigMap(named string) bool { return strings.HasPrefix(named, inConfigMap) }

// ParsePolicy reads the text of a policy.
func (p *Program) ParsePolicy(text []byte) (policy.Version, error) {
	return policyfile.Parse(text, p.PolicyClasses())
}

// PolicySource returns the source that --policy names: a file, or a ConfigMap. It doesn't read it yet.
func (p *Program) PolicySource(named string) (*policyfile.Source, error) {
	of, ok := strings.CutPrefix(named, inConfigMap)
	if !ok {
		return policyfile.FromFile(named, p.ParsePolicy), nil
	}
	namespace, name, ok := strings.Cut(of, "/")
	if !ok || !kube.ValidName(namespace) || !kube.ValidName(name) {
		return nil, command.Wrong("--policy: %q names no ConfigMap: write %sNAMESPACE/NAME", named, inConfigMap)
	}
	c, err := p.Kube()
	if err != nil {
		return nil, command.Mistake{Err: err}
	}
	return policyfile.FromConfigMap(c, namespace, name, p.ParsePolicy), nil
}

// ReadPolicy reads the policy named by --policy.
func (p *Program) ReadPolicy(ctx context.Context, named string) (policy.Version, error) {
	_, v, err := p.readPolicy(ctx, named)
	return v, err
}

func (p *Program) readPolicy(ctx context.Context, named string) (*policyfile.Source, policy.Version, error) {
	source, err := p.PolicySource(named)
	if err != nil {
		return nil, policy.Version{}, err
	}
	v, err := source.Read(ctx)
	if err != nil && ctx.Err() == nil {
		err = command.Mistake{Err: err}
	}
	return source, v, err
}

// InForce returns the policy that a cluster's engine reports; until then, observe mode. It fails if the engine has no usable policy and
// so writes nothing.
func (p *Program) InForce(ctx context.Context, s *stream.Stream, cluster string) (policy.Version, policy.InForce, error) {
	observing := policy.Version{Policy: remedy.Policy{Mode: remedy.Observe}, Text: "mode: observe\n"}
	told, err := policy.Get(ctx, s, cluster)
	switch {
	case err != nil:
		return policy.Version{}, told, err
	case told.Wrong != "":
		return policy.Version{}, told, say.Errorf("nothing is written, because the policy cannot be used: %s", told.Wrong)
	case told.Version == "":
		return observing, told, nil
	}
	v, err := policyfile.Parse([]byte(told.Text), append(p.PolicyClasses(), told.Declared...))
	if err != nil {
		return policy.Version{}, told, say.Errorf("this release cannot read the policy in force, from %s: %w", told.Source, err)
	}
	return v, told, nil
}
