package main

import "syscall"

// dieWithUs makes the kernel send sig to a child when this process ends in any way.
func dieWithUs(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig}
}
