//go:build !linux

package election

import "time"

var (
	start = time.Now()
	clock elapsed
)

func now() time.Duration {
	at := time.Now()
	// Round(0) removes the monotonic reading, so the second difference uses the wall clock.
	return clock.at(at.Sub(start), at.Round(0).Sub(start.Round(0)))
}
