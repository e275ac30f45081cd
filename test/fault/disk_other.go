//go:build !linux

package main

func disk(string) (release func(), ok bool) { return nil, false }
