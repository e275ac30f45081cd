package main

import "syscall"

// dieWithUs has the kernel send sig to a child when we end, in whatever way.
func dieWithUs(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig}
}
