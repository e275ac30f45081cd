// Deploy says what the manifests of infra/knative would change in a cluster, and
// changes it with -apply.
//
// It needs no kubectl: each object goes to the API server by server-side apply, first
// as a dry run, in which defaults, admission and conflicts take part, and what comes
// back is compared with what is there. Nothing is deleted, and nothing is taken from
// another's hands: a field that somebody else has set is a conflict, which -force ends.
// Where a namespace or a ServiceAccount is not there yet, -apply makes it before it asks
// about what needs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/lbremedy/lbremedy/shared/kube"
)

func main() {
	var o options
	flag.StringVar(&o.root, "C", ".", "root of the repository")
	flag.StringVar(&o.registry, "registry", "", "registry that holds the images; required")
	flag.StringVar(&o.tag, "tag", "", "tag of the images; required without -digests")
	flag.StringVar(&o.digests, "digests", "", "`file` with the digests of the images, as make images writes it; they count in place of the tag")
	flag.StringVar(&o.namespace, "namespace", "lbremedy", "namespace of the functions")
	flag.StringVar(&o.cluster, "cluster", "", "ID of the ACK cluster; required")
	flag.StringVar(&o.region, "region", "", "region of the cluster; required")
	flag.StringVar(&o.engineKeys, "engine-keys", "", "public keys of the engine, as lbremedy keys prints them, with commas between; required")
	flag.StringVar(&o.initialScale, "initial-scale", "", "instances with which a new revision of a function begins; empty: one")
	flag.StringVar(&o.only, "only", "", "namespace in which alone Services are touched; empty: the whole cluster")
	flag.BoolVar(&o.apply, "apply", false, "change the cluster")
	flag.BoolVar(&o.force, "force", false, "take fields from those who have set them before")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file; empty: the usual one")
	where := flag.String("context", "", "context in the kubeconfig")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, o, *kubeconfig, *where, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, o options, kubeconfig, where string, out io.Writer) error {
	objects, err := o.objects()
	if err != nil {
		return err
	}
	config, err := kube.Load(kubeconfig, where)
	if err != nil {
		return err
	}
	s, err := connect(config)
	if err != nil {
		return err
	}
	return deploy(ctx, s, objects, o.apply, o.force, out)
}
