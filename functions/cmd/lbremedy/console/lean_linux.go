package console

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// unmap takes those pages of the program's file out of this process's memory that are read and
// never written. What is still needed comes back from the kernel's cache, a few pages at a time;
// what the start alone needed, more than half of the file, does not. Where it can't be done, all
// stays.
func unmap() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		var from, to, offset uintptr
		var rights, device, file string
		var inode int
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &from, &to, &rights, &offset, &device, &inode, &file); err != nil || file != program {
			continue
		}
		if rights == "r-xp" || rights == "r--p" {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED) // a page that stays is no harm
		}
	}
}
