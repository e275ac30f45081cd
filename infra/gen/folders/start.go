package folders

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Start returns the first handwritten files of a class. An existing folder is an error; "ab-c" and "a-bc" share one. It writes nothing.
func Start(root fs.FS, id string) (map[string][]byte, error) {
	if err := ValidClass(id); err != nil {
		return nil, err
	}
	name := Name(id)
	dir := path.Join(functions, name)
	if _, err := fs.Stat(root, dir); err == nil {
		return nil, fmt.Errorf("class %s: the folder %s exists already", id, dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for class folder %s: %w", dir, err)
	}
	files := map[string][]byte{}
	of := class{ID: id, Name: name, Words: strings.ReplaceAll(id, "-", " ")}
	err := fs.WalkDir(embedded, "class", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(file, "class/"), ".tmpl")
		if to == "class.go" {
			to = name + ".go"
		}
		files[path.Join(dir, to)], err = Render(templates.Lookup(path.Base(file)), of)
		return err
	})
	return files, err
}

type class struct {
	ID    string
	Name  string // of its folder and package
	Words string // the ID with spaces: the first text to match, until a better one is known
}
