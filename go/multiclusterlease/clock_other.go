//go:build !linux

package multiclusterlease

import "time"

var start = time.Now()

// sinceBoot reads the monotonic clock. On this system, that clock may stop while the machine sleeps.
func sinceBoot() time.Duration {
	return time.Since(start)
}
