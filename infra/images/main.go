// Images builds the images of all programs, says what a registry lacks of them, and
// pushes them.
//
// An image is the program, root certificates, time zones and a user, in two layers on
// nothing: there is no shell and nobody else's base that would have to be pulled and
// followed. ko can't build that, as its base always comes from a registry or a daemon
// (v0.19.1, pkg/commands/config.go), so that this is made from what ko itself is made
// of: go-containerregistry.
//
// The same source, Go and certificates make the same digests, wherever and whenever.
// Programs of classes carry no version and no commit, and are the bytes that Function
// Compute gets: a class whose code did not change keeps its digest, and a release of
// others starts no Pod of it anew. Which release such an image belongs to say its tags
// and the digests.yaml of the release; its label version is the beginning of the
// program's own SHA-256. Exporter and lbremedy print their version, and are
// new with each.
//
// For tests on a machine that has no registry it can be one itself.
//
// It is a module of its own: a registry's client is no library of lbremedy's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

const usage = `Usage: images build | complete | sign | push | serve [flags]

  build     build the images into a folder
  complete  add to the images of a release the chart, SBOMs and provenance, and sum it all
  sign      sign a release with the key that COSIGN_KEY names or COSIGN_PRIVATE_KEY holds
  push      say what a registry lacks of them; with -apply, push it
  serve     be a registry for tests, which forgets all when it ends

`

// run runs one command.
func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	root := f.String("C", "../..", "build: `root` of the repository")
	dir := f.String("dir", "bin/images", "`folder` of the images, below the root if it is relative")
	only := f.String("only", "", "build: `names` of programs and classes with commas between them; empty: all")
	arches := f.String("arch", "amd64,arm64", "build: `architectures` with commas between them")
	version := f.String("version", "dev", "build, complete: `version` that programs print, and the tag of the images")
	commit := f.String("commit", "", "complete: `commit` that the release is built from")
	of := f.String("release", "bin/release", "complete, sign: `folder` of the release, below the root if it is relative")
	repo := f.String("registry", "", "push: `registry` and namespace, such as registry.example/acme")
	tag := f.String("tag", "", "push: `tag`; empty: the version that was built")
	apply := f.Bool("apply", false, "push: push, and don't only say so")
	listen := f.String("listen", "127.0.0.1:5000", "serve: `address`, over HTTP")
	if len(args) == 0 {
		f.Usage()
		return errors.New("name a command")
	}
	command := args[0]
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is no flag; see images build -h", f.Arg(0))
	}
	s := store(under(*root, *dir))
	switch command {
	case "build":
		programs, err := choose(*root, *only, *version)
		if err != nil {
			return err
		}
		platforms, err := platforms(*arches)
		if err != nil {
			return err
		}
		return build(ctx, *root, s, programs, platforms, *version, out)
	case "complete":
		o, err := originOf(*root, *version, *commit)
		if err != nil {
			return err
		}
		return complete(*root, release(under(*root, *of)), o, out)
	case "sign":
		by, err := key(os.LookupEnv, os.Stdin)
		if err != nil {
			return err
		}
		if by == nil {
			fmt.Fprintln(out, "The release is not signed: neither COSIGN_KEY nor COSIGN_PRIVATE_KEY names a key.")
			return nil
		}
		return sign(release(under(*root, *of)), *by, out)
	case "push":
		return push(s, *repo, *tag, *apply, out, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	case "serve":
		return serveRegistry(ctx, *listen, out)
	case "-h", "--help", "help":
		f.Usage()
		return nil
	}
	return fmt.Errorf("%q is no command: build, complete, sign, push and serve are", command)
}

// A program is what one image holds.
type program struct {
	name  string // of the image
	dir   string // of its package, below the root
	stamp string // the version that it prints; empty: none
}

// file returns the name that go build gives to the program.
func (p program) file() string { return p.dir[strings.LastIndexByte(p.dir, '/')+1:] }

// choose returns the programs that only names, all if it is empty, in the order of
// their names. The classes are those that manifests and chart are generated for.
func choose(root, only, version string) ([]program, error) {
	text, err := os.ReadFile(under(root, "infra/cluster/classes.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the list of classes: %w", err)
	}
	all := []program{
		{name: "exporter", dir: "events/cmd/exporter", stamp: version},
		{name: "lbremedy", dir: "functions/cmd/lbremedy", stamp: version},
	}
	for line := range strings.Lines(string(text)) {
		class, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "- ")
		if !ok {
			continue
		}
		name := strings.ReplaceAll(class, "-", "")
		all = append(all, program{name: class, dir: "functions/" + name + "/cmd/" + name})
	}
	slices.SortFunc(all, func(a, b program) int { return strings.Compare(a.name, b.name) })
	if only == "" {
		return all, nil
	}
	var chosen []program
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no program and no class %q: functions/README.md lists the classes", name)
		}
		if !slices.Contains(chosen, all[i]) {
			chosen = append(chosen, all[i])
		}
	}
	slices.SortFunc(chosen, func(a, b program) int { return strings.Compare(a.name, b.name) })
	return chosen, nil
}
