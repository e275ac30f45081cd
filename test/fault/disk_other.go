//go:build !linux

package main

// disk can put no disk of its own at a folder here.
func disk(string) (release func(), ok bool) { return nil, false }
