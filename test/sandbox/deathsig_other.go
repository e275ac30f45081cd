//go:build !linux

package main

import "syscall"

// dieWithUs does nothing: only Linux can end a child together with a parent that is killed.
func dieWithUs(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
