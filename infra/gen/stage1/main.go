// Stage1 writes the files that follow from the names of the class folders: functions/all.go, and each class's test and program. With -new
// it first starts a class: a folder with a remedy that only asks, its page and one scenario.
//
// It imports no class, nor a package that classes use, so it repairs the list of classes even if one is missing or doesn't compile. The
// second stage, which imports that list, then compiles again.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/lbremedy/lbremedy/infra/gen/folders"
)

func main() {
	dir := flag.String("C", ".", "root of the repository")
	class := flag.String("new", "", "ID of a class to start; an empty one is an error")
	flag.Parse()

	start := false
	flag.Visit(func(f *flag.Flag) { start = start || f.Name == "new" })
	if start {
		if err := begin(*dir, *class, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "new:", err)
			os.Exit(1)
		}
	}
	if err := generate(*dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func begin(dir, class string, out io.Writer) error {
	files, err := folders.Start(os.DirFS(dir), class)
	if err != nil {
		return err
	}
	return folders.Write(dir, files, out)
}

func generate(dir string, out io.Writer) error {
	files, stale, err := folders.Generate(os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := folders.Write(dir, files, out); err != nil {
		return err
	}
	return folders.Remove(dir, stale, out)
}
