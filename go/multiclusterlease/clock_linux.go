package multiclusterlease

import (
	"syscall"
	"time"
	"unsafe"
)

// CLOCK_BOOTTIME, which package syscall does not name.
const bootTime = 7

// sinceBoot reads a clock that nobody can set and that counts while the machine sleeps.
func sinceBoot() time.Duration {
	var at syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, bootTime, uintptr(unsafe.Pointer(&at)), 0)
	if failed != 0 {
		panic(failed)
	}
	return time.Duration(at.Nano())
}
