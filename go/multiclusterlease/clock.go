package multiclusterlease

import "time"

// A moment is a time on two clocks: that of package time, which stops while the machine sleeps, and one that does not.
type moment struct {
	monotonic time.Time
	boot      time.Duration
}

// A clock can be replaced by tests.
type clock func() moment

func systemClock() moment {
	return moment{time.Now(), sinceBoot()}
}

// elapsed returns the time since a moment, including sleep. A holder uses it, because its lease keeps running while the
// machine sleeps.
func (c clock) elapsed(since moment) time.Duration {
	now := c()
	return max(now.monotonic.Sub(since.monotonic), now.boot-since.boot)
}

// waited returns the time since a moment, excluding sleep. A standby uses it, so that sleep can only make it wait
// longer.
func (c clock) waited(since moment) time.Duration {
	return c().monotonic.Sub(since.monotonic)
}
