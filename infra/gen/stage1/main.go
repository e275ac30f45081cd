// Stage1 writes the files that follow only from the names of the class folders: functions/all.go, and in each class folder its
// test and its program.
//
// It imports no class and no package that classes use. It can therefore repair the list of classes even if a class is missing or
// doesn't compile, and the second stage, which imports that list, compiles again.
//
// With -new it first starts a class: a folder with a remedy that only asks, its page and one scenario.
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

// begin writes the folder of a new class and prints what it wrote.
func begin(dir, class string, out io.Writer) error {
	files, err := folders.Start(os.DirFS(dir), class)
	if err != nil {
		return err
	}
	return folders.Write(dir, files, out)
}

// generate updates a tree and prints its changes.
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
