package multiclusterlease

import "time"

// A moment, on the clock of package time, which stops while the machine sleeps, and on one that does not.
type moment struct {
	monotonic time.Time
	boot      time.Duration
}

// A clock is replaced by tests.
type clock func() moment

func systemClock() moment {
	return moment{time.Now(), sinceBoot()}
}

// elapsed is how long ago the moment was for a holder: sleep uses up a lease.
func (c clock) elapsed(since moment) time.Duration {
	now := c()
	return max(now.monotonic.Sub(since.monotonic), now.boot-since.boot)
}

// waited is how long ago the moment was for a standby: sleep only makes it wait longer.
func (c clock) waited(since moment) time.Duration {
	return c().monotonic.Sub(since.monotonic)
}
