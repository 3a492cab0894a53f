//go:build !linux

package multiclusterlease

import "time"

var start = time.Now()

// sinceBoot is the monotonic time. On this system it may stop while the machine sleeps.
func sinceBoot() time.Duration {
	return time.Since(start)
}
