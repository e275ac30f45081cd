//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

var nodeCommands = map[string]func(context.Context, []string) (int, error){
	"node": func(context.Context, []string) (int, error) { return 2, lacking() },
}

func lacking() error { return errors.New("a node needs Linux") }

func nodePrograms(context.Context, bool, io.Writer) ([]string, error) { return nil, lacking() }
