package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

type upRun struct {
	*program
	listen, world, env, kubeconfig, context, namespace, release string
	speed                                                       float64
	remote, verbose                                             bool
}

const defaultRelease = "v2.14.0"

type announcement struct {
	record
	OpenAPI     string      `json:"openapi"`
	Admin       string      `json:"admin"`
	Region      string      `json:"region"`
	Cluster     string      `json:"cluster"`
	VPC         string      `json:"vpc"`
	Environment environment `json:"environment"`
}

func (p *program) up() *cobra.Command {
	u := &upRun{program: p}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the simulated cloud, and a controller for a cluster",
		Long: `Run the simulated cloud on a loopback address until Ctrl-C or SIGTERM. As soon as it
is ready it prints where it is and the environment for others, as lines that a shell
can read.

With --kubeconfig the simulated controller syncs the Services of that cluster with the
cloud. Where CCM_BIN names the program of a real cloud controller manager, that one
runs instead. The cluster must have no controller of its own.

--world is a YAML file of what there is at first, in the form that "lbremedy-sim dump"
prints; its callers named "operator" and "controller", if it has them, are the ones that
the environment and the controller use, so that RAM can be played too.`,
		Example: `  lbremedy-sim up
  lbremedy-sim up --world world.yaml --kubeconfig ~/.kube/kind --namespace shop --speed 10
  CCM_BIN=~/bin/cloud-controller-manager lbremedy-sim up --kubeconfig ~/.kube/kind`,
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&u.listen, "listen", "127.0.0.1:0", "loopback `address` of the cloud; port 0 is a free one")
	f.StringVar(&u.world, "world", "", "YAML `file` with what there is at first, - for standard input (default an empty account)")
	f.StringVar(&u.env, "env", "", "`file` to write the environment to, besides printing it")
	f.StringVar(&u.kubeconfig, "kubeconfig", "", "run a controller for the cluster of this `file`")
	f.StringVar(&u.context, "context", "", "`name` of the context in it")
	f.StringVar(&u.namespace, "namespace", "", "sync the Services of this `namespace` only")
	f.StringVar(&u.release, "ccm-version", defaultRelease, "`release` that the simulated controller plays")
	f.Float64Var(&u.speed, "speed", 1, "how many times as fast the simulated controller's clock runs")
	f.BoolVar(&u.remote, "remote", false, "run a controller although the cluster is on another machine; it must have none of its own")
	f.BoolVar(&u.verbose, "verbose", false, "say what the controller does")
	for _, name := range []string{"listen", "context", "namespace", "speed"} {
		command.Complete(cmd, name, cobra.NoFileCompletions)
	}
	command.Complete(cmd, "ccm-version", cobra.FixedCompletions([]string{"v1.9.3", "v2.1.0", "v2.9.1", "v2.11.2", "v2.12.1", "v2.14.0"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// run first performs checks that change nothing, and then starts.
func (u *upRun) run(ctx context.Context) error {
	if u.speed <= 0 {
		return command.Wrong("--speed: %v is not above 0", u.speed)
	}
	if u.kubeconfig == "" && (u.context != "" || u.namespace != "" || u.remote) {
		return command.Wrong("--context, --namespace and --remote go with --kubeconfig")
	}
	bin, _ := controller.Real()
	if bin != "" && u.kubeconfig != "" && (u.namespace != "" || u.speed != 1 || u.release != defaultRelease) {
		return command.Wrong("--namespace, --speed and --ccm-version are of the simulated controller: a real one, which %s names, is what it is and syncs all "+
			"Services by the real clock", controller.BinaryVariable)
	}
	w := &sim.World{}
	if u.world != "" {
		b, err := u.read(u.world)
		if err != nil {
			return err
		}
		if w, err = sim.ParseWorld(b); err != nil {
			return command.Wrong("--world: %s: %w", u.world, oneLine(err))
		}
	}
	cluster, err := u.cluster(ctx)
	if err != nil {
		return err
	}
	if _, err := loopbackAddress(u.listen); err != nil {
		return command.Wrong("--listen: %w", err)
	}
	write, release, err := u.claim()
	if err != nil {
		return err
	}
	defer release()
	cloud, err := sim.Start(w, sim.WithListener(u.listen), sim.WithAdmin(), sim.WithClient(operator, "*"), sim.WithClient(controlled, "*"))
	if err != nil {
		return err
	}
	defer cloud.Close()
	o, err := options(cloud, cluster, u)
	if err != nil {
		return err
	}
	if err := u.ready(cloud, write, bin); err != nil {
		return err
	}
	if cluster == nil {
		<-ctx.Done()
		return nil
	}
	return controller.Play(ctx, o)
}

// cluster returns the kubeconfig's cluster, or nil without one, after its server has answered: a controller would wait silently.
func (u *upRun) cluster(ctx context.Context) (*rest.Config, error) {
	if u.kubeconfig == "" {
		return nil, nil
	}
	config, err := kube.Load(u.kubeconfig, u.context)
	if err != nil {
		return nil, command.Mistake{Err: err}
	}
	if !u.remote && !onThisMachine(config.Host) {
		return nil, command.Wrong("the cluster at %s is not on this machine: add --remote if no other controller syncs its Services", config.Host)
	}
	client, err := kubernetes.New(config)
	if err != nil {
		return nil, command.Wrong("%s: %w", u.kubeconfig, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := client.CoreV1().Services(u.namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, fmt.Errorf("look at the Services of the cluster at %s: %w", config.Host, err)
	}
	return config, nil
}

func onThisMachine(server string) bool {
	host := server
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		host = u.Hostname()
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func options(cloud *sim.Cloud, cluster *rest.Config, u *upRun) (controller.Options, error) {
	level := slog.LevelWarn
	if u.verbose {
		level = slog.LevelDebug
	}
	w := cloud.Snapshot()
	o := controller.Options{
		Kube: cluster, Cloud: cloud.Addr(), Region: w.Region, ClusterID: w.Cluster.ID, VPC: w.Cluster.VPC, Version: u.release, Speed: u.speed,
		Namespace: u.namespace, Log: slog.New(slog.NewTextHandler(u.err, &slog.HandlerOptions{Level: level})),
	}
	for _, k := range w.Callers {
		if k.Name == controlled {
			o.Credentials = k.Credentials()
		}
	}
	for _, v := range w.VSwitches {
		if slices.Contains(w.Cluster.VSwitches, v.ID) {
			o.VSwitches = append(o.VSwitches, v.Zone+":"+v.ID)
		}
	}
	if cluster == nil {
		return o, nil
	}
	if err := o.Validate(); err != nil {
		return o, command.Mistake{Err: err}
	}
	return o, nil
}

func (u *upRun) ready(cloud *sim.Cloud, write func(record) error, bin string) error {
	w := cloud.Snapshot()
	r := record{Name: u.name, Address: cloud.Addr(), PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Second), Controller: "none", Context: u.context}
	if u.kubeconfig != "" {
		var err error
		if r.Kubeconfig, err = filepath.Abs(u.kubeconfig); err != nil {
			return fmt.Errorf("find the kubeconfig: %w", err)
		}
		r.Controller = "simulated " + u.release
		if bin != "" {
			r.Controller = "real, " + bin
		}
	}
	e, err := environmentOf(r, w)
	if err != nil {
		return err
	}
	if u.env != "" {
		if err := os.WriteFile(u.env, []byte(e.write("sh", false)), 0o600); err != nil {
			return fmt.Errorf("write the environment: %w", err)
		}
	}
	if err := write(r); err != nil {
		return err
	}
	a := announce(r, w, e)
	controller, eval := r.Controller, "lbremedy-sim env"
	if u.kubeconfig == "" {
		controller += " (--kubeconfig runs one)"
	}
	if r.Name != "default" {
		eval += " --name " + r.Name
	}
	return u.print(a, func() error {
		return u.line("# OpenAPI     %s (region %s, cluster %s, VPC %s)\n# Admin API   %s\n# Controller  %s\n# Elsewhere   eval \"$(%s)\"\n%s",
			a.OpenAPI, a.Region, a.Cluster, a.VPC, a.Admin, controller, eval, strings.TrimSuffix(e.write("sh", false), "\n"))
	})
}

func announce(r record, w *sim.World, e environment) announcement {
	url := "http://" + r.Address + "/"
	return announcement{record: r, OpenAPI: url, Admin: url + "sim/", Region: w.Region, Cluster: w.Cluster.ID, VPC: w.Cluster.VPC, Environment: e}
}

func (p *program) status() *cobra.Command {
	return &cobra.Command{
		Use:               "status",
		Short:             "Say where the simulation is and whether it answers",
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connect()
			if err != nil {
				return err
			}
			w, err := c.world(cmd.Context())
			if err != nil {
				return err
			}
			e, err := environmentOf(c.record, w)
			if err != nil {
				return err
			}
			a := announce(c.record, w, e)
			return p.print(a, func() error {
				started := "unknown"
				if !a.Started.IsZero() {
					started = fmt.Sprintf("%s ago, process %d", time.Since(a.Started).Round(time.Second), a.PID)
				}
				rows := [][]any{
					{"OpenAPI", a.OpenAPI}, {"Admin API", a.Admin}, {"Region", a.Region}, {"Cluster", a.Cluster}, {"VPC", a.VPC},
					{"Controller", cmp.Or(a.Controller, "unknown")}, {"Started", started},
				}
				return p.table([]any{"simulation", a.Name}, rows)
			})
		},
	}
}
