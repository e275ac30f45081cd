// Lbremedy-sim runs the simulated cloud alone, and the simulated controller
// where it is given a cluster, so that a person can break things by hand and
// watch what happens.
//
// It prints its address and an environment in which lbremedy, the SDKs and a
// real controller talk to it instead of the cloud, and runs until it is told to
// end. The exit code is 0 then, 2 for a mistake in the flags, else 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is of a mistake in the flags.
var errUsage = errors.New("usage")

// settings are what the flags say.
type settings struct {
	listen, world, env, kubeconfig, context, namespace, version string
	speed                                                       float64
	remote, verbose                                             bool
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("lbremedy-sim", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.listen, "listen", "127.0.0.1:0", "loopback `address` of the cloud; port 0 is a free one")
	f.StringVar(&s.world, "world", "", "YAML `file` with what there is at first; none: an empty account")
	f.StringVar(&s.env, "env", "", "`file` to write the environment to, besides printing it")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "run the simulated controller against the cluster of this `file`")
	f.StringVar(&s.context, "context", "", "`name` of the context in it")
	f.StringVar(&s.namespace, "namespace", "", "sync the Services of this `namespace` only")
	f.StringVar(&s.version, "ccm-version", "v2.14.0", "`release` that the controller plays")
	f.Float64Var(&s.speed, "speed", 1, "how many times as fast the controller's clock runs")
	f.BoolVar(&s.remote, "remote", false, "run the controller although the cluster is on another machine; it must have no controller of its own")
	f.BoolVar(&s.verbose, "verbose", false, "say what the controller does")
	f.Usage = func() {
		_, _ = fmt.Fprintln(out, "lbremedy-sim runs the simulated cloud on a loopback address, until Ctrl-C.\n\nFlags:")
		f.PrintDefaults()
		_, _ = fmt.Fprint(out, "\n"+sim.AdminHelp)
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		return s, errUsage // the flags have said it
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("%w: %q is no flag", errUsage, f.Arg(0))
	case s.speed <= 0:
		return s, fmt.Errorf("%w: --speed is above 0", errUsage)
	case s.kubeconfig == "" && (s.context != "" || s.namespace != "" || s.remote):
		return s, fmt.Errorf("%w: --context, --namespace and --remote go with --kubeconfig", errUsage)
	}
	return s, nil
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	s, err := parse(args, errs)
	if err == nil {
		err = serve(ctx, s, out, errs)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case err == errUsage:
		return 2
	}
	_, _ = fmt.Fprintln(errs, "lbremedy-sim:", strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// serve runs the cloud, and the controller if there is a cluster, until ctx
// ends or the controller fails.
func serve(ctx context.Context, s settings, out, errs io.Writer) error {
	w := &sim.World{}
	if s.world != "" {
		b, err := os.ReadFile(s.world)
		if err != nil {
			return fmt.Errorf("read the world: %w", err)
		}
		if w, err = sim.ParseWorld(b); err != nil {
			return fmt.Errorf("%s: %w", s.world, err)
		}
	}
	var cluster *rest.Config
	if s.kubeconfig != "" {
		var err error
		if cluster, err = kube.Load(s.kubeconfig, s.context); err != nil {
			return err
		}
		if !s.remote && !loopback(cluster.Host) {
			return fmt.Errorf("%w: the cluster at %s is not on this machine: add --remote if no other controller syncs its Services", errUsage, cluster.Host)
		}
	}
	cloud, err := sim.Start(w, sim.WithListener(s.listen), sim.WithAdmin())
	if err != nil {
		return err
	}
	defer cloud.Close()
	text := report(cloud, s)
	if s.env != "" {
		if err := os.WriteFile(s.env, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the environment: %w", err)
		}
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print the environment: %w", err)
	}
	if cluster == nil {
		<-ctx.Done()
		return nil
	}
	level := slog.LevelWarn
	if s.verbose {
		level = slog.LevelDebug
	}
	return controller.Play(ctx, options(cloud, cluster, s, slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: level}))))
}

// loopback reports whether an API server is on this machine.
func loopback(server string) bool {
	host := server
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		host = u.Hostname()
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// options connect the controller with the cluster and the cloud, where it may
// do everything.
func options(cloud *sim.Cloud, cluster *rest.Config, s settings, log *slog.Logger) controller.Options {
	w := cloud.Snapshot()
	o := controller.Options{
		Kube: cluster, Cloud: cloud.Addr(), Credentials: cloud.Client("controller", "*"), Region: w.Region, ClusterID: w.Cluster.ID, VPC: w.Cluster.VPC,
		Version: s.version, Speed: s.speed, Namespace: s.namespace, Log: log,
	}
	for _, v := range w.VSwitches {
		if slices.Contains(w.Cluster.VSwitches, v.ID) {
			o.VSwitches = append(o.VSwitches, v.Zone+":"+v.ID)
		}
	}
	return o
}

// report says where the cloud is, as lines that a shell can read.
func report(cloud *sim.Cloud, s settings) string {
	w, k, addr := cloud.Snapshot(), cloud.Client("operator", "*"), cloud.Addr()
	var b strings.Builder
	for _, c := range []string{
		"OpenAPI    http://" + addr + "/ (region " + w.Region + ", cluster " + w.Cluster.ID + ", VPC " + w.Cluster.VPC + ")",
		"admin API  http://" + addr + "/sim/",
	} {
		b.WriteString("# " + c + "\n")
	}
	env := map[string]string{
		"LBREMEDY_CLOUD_ENDPOINT": addr, "LBREMEDY_CLOUD_SCHEME": "HTTP", "LBREMEDY_REGION": w.Region, "LBREMEDY_CLUSTER": w.Cluster.ID,
		"ALIBABA_CLOUD_ACCESS_KEY_ID": k.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": k.Secret, "ALIBABA_CLOUD_REGION_ID": w.Region,
		// Of the controller.
		"ACCESS_KEY_ID": k.AccessKeyID, "ACCESS_KEY_SECRET": k.Secret, "ALICLOUD_CLIENT_SCHEME": "HTTP",
		"SLB_ENDPOINT": addr, "NLB_ENDPOINT": addr, "ECS_ENDPOINT": addr, "VPC_ENDPOINT": addr,
	}
	if s.kubeconfig != "" {
		env["LBREMEDY_KUBECONFIG"] = s.kubeconfig
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("export " + name + "='" + strings.ReplaceAll(env[name], "'", `'\''`) + "'\n")
	}
	return b.String()
}
