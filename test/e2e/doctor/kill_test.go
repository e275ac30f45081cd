package doctor

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const roundVariable = "LBREMEDY_E2E_ROUND"

const rulesVariable = "LBREMEDY_E2E_RULES"

// onTimer checks the cluster once, as "lbremedy up" does on a timer, as configured by the environment.
func onTimer() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := host.Config{Config: connect.FromEnv(), NATS: os.Getenv("LBREMEDY_NATS"), NATSToken: os.Getenv("LBREMEDY_NATS_TOKEN"), Who: "worker"}
	env, err := host.ConnectReads(c)
	if err != nil {
		return err
	}
	if env.Stream, err = c.Stream(ctx); err != nil {
		return err
	}
	defer env.Stream.Close()
	env.Policy = reads(os.Getenv(rulesVariable))
	_, err = (&doctor.ScheduledRun{Env: env.Env, Cloud: env.Clients.Cloud, Checks: checks.Checks()}).Run(ctx)
	return err
}

// killed checks the cluster in a process of its own, and kills it without warning at its nth request of a path, which gets no answer.
func (r *rig) killed(path string, n int32) {
	r.Helper()
	self, err := os.Executable()
	r.must(err)
	there := make(chan struct{})
	var asked atomic.Int32
	kubeconfig := r.proxy(caller, scheduledGrants(), func(req *http.Request) {
		if req.URL.Path != path {
			return
		}
		switch now := asked.Add(1); {
		case now == n:
			close(there)
			fallthrough
		case now > n:
			<-req.Context().Done()
		}
	})
	var said strings.Builder
	cmd := exec.CommandContext(r.ctx, self)
	cmd.Env, cmd.Stderr = append(r.environ(kubeconfig, caller, scheduledGrants()), roundVariable+"=1", rulesVariable+"="+r.rules), &said
	r.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-there:
		r.must(cmd.Process.Kill())
		<-ended
	case err := <-ended:
		r.Fatalf("the run has ended before it was killed: %v %s", err, said.String())
	}
}

// kill interrupts runs while they read the cluster and while they notify, and returns the cases of the notifications. The dead
// run's lock expires by the clock of NATS, which the test cannot advance, so it removes the lock.
func (r *rig) kill() []string {
	r.Helper()
	before, _ := r.env.Stream.Entry(r.ctx, event.DoctorKey(testbed.ClusterID)) // nil if missing
	r.killed("/api/v1/nodes", 1)
	r.unlocked()
	if told := r.told(); len(told) > 0 {
		r.Errorf("a run that was killed while it read has told of %q", told)
	}
	r.killed("/api/v1/namespaces/"+namespace, 8) // read once for each case of a Service
	r.unlocked()
	told := r.told()
	if len(told) == 0 {
		r.Error("a run that was killed while it told has told of nothing")
	}
	if after, err := r.env.Stream.Entry(r.ctx, event.DoctorKey(testbed.ClusterID)); after.Revision != before.Revision {
		r.Errorf("a run that was killed has ended well: %q, %v", after.Value, err)
	}
	return told
}

func (r *rig) unlocked() {
	r.Helper()
	if _, err := (&doctor.ScheduledRun{Env: r.env.Env, Cloud: r.env.Clients.Cloud, Checks: checks.Checks()}).Run(r.ctx); !errors.Is(err, doctor.ErrElsewhere) {
		r.Errorf("while the lock of a run that was killed stands, the next one ends with %v", err)
	}
	r.must(r.env.Stream.Delete(r.ctx, control.ClaimKey("doctor."+testbed.ClusterID)))
}

// scheduledGrants returns the rights of the checks, and to read the namespace's labels, which can say that nobody is to be asked.
func scheduledGrants() []grant.Grant {
	return grant.Set(doctor.Grants(checks.Checks()), []grant.Grant{grant.GetNamespaces})
}

// environ returns the environment of a program that uses the testbed through a kubeconfig, and the cloud with the RAM actions of grants.
func (r *rig) environ(kubeconfig, name string, grants []grant.Grant) []string {
	key := r.testbed.Cloud.Client(name, grant.Actions(grants)...)
	return []string{
		"LBREMEDY_CLUSTER=" + testbed.ClusterID, "LBREMEDY_REGION=" + r.testbed.Cloud.Region(), "LBREMEDY_KUBECONFIG=" + kubeconfig,
		"LBREMEDY_NATS=" + r.nats, "LBREMEDY_NATS_TOKEN=" + token,
		"LBREMEDY_CLOUD_ENDPOINT=" + r.testbed.Cloud.Addr(), "LBREMEDY_CLOUD_SCHEME=HTTP",
		"ALIBABA_CLOUD_ACCESS_KEY_ID=" + key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + key.Secret,
		"HOME=" + r.TempDir(), "PATH=" + os.Getenv("PATH"),
	}
}
