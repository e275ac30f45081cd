package scene

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/events/table"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Names under which the parts of lbremedy act on a stage.
const (
	worker       = "lbremedy-worker"
	exporterUser = "lbremedy-exporter"
	operator     = "lbremedy-operator"
)

// Env returns what a worker of these remedies runs on: the stage's cluster as a
// user, and its cloud as a caller, that may do what the remedies declare and
// nothing else. The policy is the one in force in the stream.
func (s *Stage) Env(ctx context.Context, st *stream.Stream, remedies []*remedy.Remedy) (*remedy.Env, error) {
	var all []grant.Grant
	for _, r := range remedies {
		all = append(all, r.Grants()...)
	}
	reader, err := s.reader(ctx, worker, all)
	if err != nil {
		return nil, err
	}
	account, writer, err := s.account(worker, all)
	if err != nil {
		return nil, err
	}
	return &remedy.Env{
		Cluster: ClusterID, Stream: st,
		Kube: reader, KubeWriter: kube.NewWriter(reader), Cloud: account, CloudWriter: writer,
		Policy: func(ctx context.Context) (remedy.Policy, error) { return policy.InForce(ctx, st) },
		Decode: step.Decode, Who: "worker",
	}, nil
}

// WorkerCalls returns the calls that a worker of Env has made to the cloud.
func (s *Stage) WorkerCalls(action string) int {
	n := 0
	for _, c := range s.Cloud.CallsOf(worker) {
		if c.Action == action && c.Code == "" {
			n++
		}
	}
	return n
}

// WorkerWrites returns the calls that changed something in the cloud which a
// worker of Env has made, as product and action.
func (s *Stage) WorkerWrites() []string {
	var writes []string
	for _, c := range s.Cloud.CallsOf(worker) {
		read := slices.ContainsFunc([]string{"Describe", "List", "Get", "Query"}, func(p string) bool { return strings.HasPrefix(c.Action, p) })
		if !read && c.Code == "" {
			writes = append(writes, c.Product+":"+c.Action)
		}
	}
	return writes
}

// Exporter returns an exporter of the stage's cluster that may do what the
// exporter declares and nothing else.
func (s *Stage) Exporter(ctx context.Context, st *stream.Stream) (*exporter.Exporter, error) {
	reader, err := s.reader(ctx, exporterUser, exporter.Grants)
	if err != nil {
		return nil, err
	}
	return exporter.New(exporter.Config{Cluster: ClusterID, Kube: reader, Stream: st, Classifier: events.NewClassifier(table.Table())})
}

// Environ returns the environment of a program that is to work on the stage with
// all rights, such as the operator's.
func (s *Stage) Environ(nats, token string) []string {
	key := s.Cloud.Client(operator, "*")
	return []string{
		"LBREMEDY_CLUSTER=" + ClusterID,
		"LBREMEDY_REGION=" + s.Cloud.Region(),
		"LBREMEDY_KUBECONFIG=" + s.Cluster.Kubeconfig,
		"LBREMEDY_NATS=" + nats,
		"LBREMEDY_NATS_TOKEN=" + token,
		"LBREMEDY_CLOUD_ENDPOINT=" + s.Cloud.Addr(),
		"LBREMEDY_CLOUD_SCHEME=HTTP",
		"ALIBABA_CLOUD_ACCESS_KEY_ID=" + key.AccessKeyID,
		"ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + key.Secret,
	}
}

// reader returns the cluster as a user with these rights.
func (s *Stage) reader(ctx context.Context, user string, grants []grant.Grant) (*kube.Cluster, error) {
	var rules []rbacv1.PolicyRule
	for _, g := range grant.Set(grants) {
		if !g.RAM() {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: []string{g.Verb}})
		}
	}
	config, err := s.Cluster.Impersonate(ctx, user, rules)
	if err != nil {
		return nil, err
	}
	c, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("act as %s: %w", user, err)
	}
	return c, nil
}

// account returns the cloud as a caller with these rights.
func (s *Stage) account(caller string, grants []grant.Grant) (*cloud.Reader, *cloud.Writer, error) {
	key := s.Cloud.Client(caller, grant.Actions(grants)...)
	reader, writer, err := cloud.New(cloud.Config{
		Region: s.Cloud.Region(), ClusterID: ClusterID, Endpoint: s.Cloud.Addr(), Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token}),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("act as %s: %w", caller, err)
	}
	return reader, writer, nil
}
