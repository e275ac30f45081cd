//go:build !linux

package controller

import "syscall"

// dieWithUs does nothing: only Linux can end a program together with us when we
// are killed.
func dieWithUs(*syscall.SysProcAttr) {}
