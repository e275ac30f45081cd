package controller

import "syscall"

// dieWithUs has the kernel kill a program when we end, in whatever way.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
