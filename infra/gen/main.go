// Gen writes what follows from the remedies: the classifier's table, the catalogue of classes, their rights in a cluster and on Alibaba
// Cloud, their functions' manifests, and the JSON schemas of the wire, the policy file and the routes file.
//
// It is the second stage of "make gen", after stage1, which writes the list of remedies that it imports. Neither writes a file that is up to date.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/infra/gen/folders"
)

func main() {
	dir := flag.String("C", ".", "root of the repository")
	class := flag.String("class", "", "`folder` with a declaration class.yaml: write only what follows from it, into its folder generated")
	flag.Parse()
	var err error
	if *class == "" {
		err = run(*dir, os.Stdout)
	} else {
		files := map[string][]byte{}
		if err = declared(*class, ".", files); err == nil {
			err = folders.Write(*class, files, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string, out io.Writer) error {
	names, err := folders.List(os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := check(functions.All, names); err != nil {
		return err
	}
	files, err := files(dir, functions.All)
	if err != nil {
		return err
	}
	if err := folders.Write(dir, files, out); err != nil {
		return err
	}
	stale, err := leftovers(os.DirFS(dir), files)
	if err != nil {
		return err
	}
	return folders.Remove(dir, stale, out)
}
