package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// groups is the mount point of cgroups: one hierarchy, or with version 1 one for each controller.
const groups = "/sys/fs/cgroup"

func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(groups, "cgroup.controllers")); err == nil {
		return []string{groups}, nil
	}
	entries, err := os.ReadDir(groups)
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	var all []string
	for _, e := range entries { // symbolic links are other names of these
		dir := filepath.Join(groups, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); e.IsDir() && err == nil {
			all = append(all, dir)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no cgroups at %s", groups)
	}
	return all, nil
}

// joinGroups creates a group in each hierarchy for a node's Pods, and moves this process to a child group, which is empty when
// all processes of the node have ended.
func joinGroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		top := filepath.Join(h, name)
		for _, dir := range []string{top, filepath.Join(top, "machine")} {
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make a cgroup: %w", err)
			}
			if err := inherit(dir); err != nil {
				return fmt.Errorf("make the cgroup %s: %w", dir, err)
			}
		}
		if err := os.WriteFile(filepath.Join(top, "machine", "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("join a cgroup: %w", err)
		}
	}
	return nil
}

func tryGroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return fmt.Errorf("a node needs cgroups: %w", err)
	}
	for _, h := range all {
		dir := filepath.Join(h, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("a node needs cgroups that it may write: %w; a container has to be privileged", err)
		}
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("remove a cgroup: %w", err)
		}
	}
	return nil
}

// inherit gives a new group its required settings: processors and memory with version 1, the parent's controllers with version 2.
func inherit(dir string) error {
	parent := filepath.Dir(dir)
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		b, err := os.ReadFile(filepath.Join(parent, f))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), b, 0o644); err != nil {
			return err
		}
	}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeGroups removes these groups and their children. It fails while they have processes.
func removeGroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(h, name), func(dir string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && e.IsDir() {
				dirs = append(dirs, dir)
			}
			return err
		})
		errs = append(errs, err)
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
