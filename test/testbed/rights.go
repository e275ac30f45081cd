package testbed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/infra/ram"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/sim"
)

const operator = "operator"

// Env returns the environment of a class, or of "up" for all classes in one program: the cluster as its ServiceAccount and the
// cloud as its caller, with only the generated rights and those to read the policy that Allow put in force.
func (tb *Testbed) Env(ctx context.Context, st *stream.Stream, who string, parse policyfile.Parser) (*engine.Env, error) {
	if err := identity.Admit(ctx, tb.Cluster); err != nil {
		return nil, err
	}
	rights, err := identity.Of(who)
	if err != nil {
		return nil, err
	}
	rights.Rules = append(rights.Rules, ReadsPolicy)
	config, err := rights.Engine(ctx, tb.Cluster, who)
	if err != nil {
		return nil, err
	}
	env, err := tb.env(st, config, rights, identity.Name(who), parse)
	if err != nil {
		return nil, err
	}
	env.Who = "worker"
	return env, nil
}

// Person returns the environment of a person who undoes fixes of these remedies: all of their rights, and those that undo needs.
func (tb *Testbed) Person(ctx context.Context, st *stream.Stream, remedies []*remedy.Remedy, parse policyfile.Parser) (*engine.Env, error) {
	rights, err := identity.Of("up")
	if err != nil {
		return nil, err
	}
	var back []grant.Grant
	for _, r := range remedies {
		for _, step := range r.Steps {
			if undo, ok := step.Undo(); ok {
				back = append(back, undo.Grants()...)
			}
		}
	}
	document, err := ram.Policy(back)
	if err != nil {
		return nil, err
	}
	rights.Policy.Statement = append(rights.Policy.Statement, document.Statement...)
	config, err := tb.Cluster.Impersonate(ctx, operator, append(rights.Rules, ReadsPolicy))
	if err != nil {
		return nil, err
	}
	env, err := tb.env(st, config, rights, operator, parse)
	if err != nil {
		return nil, err
	}
	env.Who = "cli"
	return env, nil
}

func (tb *Testbed) env(st *stream.Stream, config *rest.Config, rights identity.Rights, caller string, parse policyfile.Parser) (*engine.Env, error) {
	reader, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("act as %s: %w", caller, err)
	}
	account, writer, err := rights.Cloud(tb.Cloud, caller, tb.ID)
	if err != nil {
		return nil, err
	}
	clients := &hand.Clients{Kube: reader, KubeWriter: kube.NewWriter(reader), Cloud: account, CloudWriter: writer, Decode: step.Decode}
	return &engine.Env{
		Cluster: tb.ID, Stream: st, Kube: reader, Hand: clients.Hand,
		Policy: Policy(reader, tb.Namespace, parse), Decode: step.Decode,
	}, nil
}

func (tb *Testbed) workers() []sim.Call {
	return slices.DeleteFunc(tb.Cloud.Calls(), func(c sim.Call) bool { return !strings.HasPrefix(c.Caller, identity.Name("")) })
}

// WorkerCalls returns the number of an action's calls by Env's ServiceAccounts.
func (tb *Testbed) WorkerCalls(action string) int {
	n := 0
	for _, c := range tb.workers() {
		if c.Action == action && c.Code == "" {
			n++
		}
	}
	return n
}

// WorkerWrites returns the cloud writes of Env's ServiceAccounts, as product and action.
func (tb *Testbed) WorkerWrites() []string {
	var writes []string
	for _, c := range tb.workers() {
		read := slices.ContainsFunc([]string{"Describe", "List", "Get", "Query"}, func(p string) bool { return strings.HasPrefix(c.Action, p) })
		if !read && c.Code == "" {
			writes = append(writes, c.Product+":"+c.Action)
		}
	}
	return writes
}

// Exporter returns an exporter of the testbed's cluster with only the rights that it declares.
func (tb *Testbed) Exporter(ctx context.Context, st *stream.Stream) (*exporter.Exporter, error) {
	rights, err := identity.Of("exporter")
	if err != nil {
		return nil, err
	}
	config, err := rights.Cluster(ctx, tb.Cluster, "exporter")
	if err != nil {
		return nil, err
	}
	reader, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("act as the exporter: %w", err)
	}
	return exporter.New(exporter.Config{Cluster: tb.ID, Kube: reader, Stream: st, Classifier: event.NewClassifier(table.Table())})
}

// Environ returns the environment of a program with all rights on the testbed, such as the operator's.
func (tb *Testbed) Environ(nats, token string) []string {
	key := tb.Cloud.Client(operator, "*")
	return []string{
		"LBREMEDY_CLUSTER=" + tb.ID,
		"LBREMEDY_REGION=" + tb.Cloud.Region(),
		"LBREMEDY_KUBECONFIG=" + tb.Cluster.Kubeconfig,
		"LBREMEDY_NATS=" + nats,
		"LBREMEDY_NATS_TOKEN=" + token,
		"LBREMEDY_CLOUD_ENDPOINT=" + tb.Cloud.Addr(),
		"LBREMEDY_CLOUD_SCHEME=HTTP",
		"ALIBABA_CLOUD_ACCESS_KEY_ID=" + key.AccessKeyID,
		"ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + key.Secret,
	}
}
