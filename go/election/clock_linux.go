package election

import (
	"syscall"
	"time"
	"unsafe"
)

// CLOCK_BOOTTIME, which package syscall does not name.
const bootTime = 7

// now reads a clock that nobody can set and that counts while the machine sleeps. The clock of package time does not.
func now() time.Duration {
	var at syscall.Timespec
	if _, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, bootTime, uintptr(unsafe.Pointer(&at)), 0); failed != 0 {
		panic(failed)
	}
	return time.Duration(at.Nano())
}
