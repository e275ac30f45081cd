package controller

import "syscall"

// dieWithUs makes the kernel kill a program when this process ends in any way.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
