//go:build !linux

package controller

import "syscall"

// dieWithUs does nothing: only Linux can kill a program when its parent is killed.
func dieWithUs(*syscall.SysProcAttr) {}
