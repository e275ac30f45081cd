//go:build !linux

package main

import "syscall"

// dieWithUs does nothing: only Linux can kill a child when its parent is killed.
func dieWithUs(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
