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

// elapsed is the age of the moment for a holder, including sleep, because sleep uses up a lease.
func (c clock) elapsed(since moment) time.Duration {
	now := c()
	return max(now.monotonic.Sub(since.monotonic), now.boot-since.boot)
}

// waited is the age of the moment for a standby, without sleep, so that sleep only makes it wait longer.
func (c clock) waited(since moment) time.Duration {
	return c().monotonic.Sub(since.monotonic)
}
