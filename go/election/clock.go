package election

import (
	"context"
	"sync"
	"time"
)

// elapsed combines two clocks into one that never goes back and that counts sleep: a monotonic clock that may stop
// while the machine sleeps, and a wall clock that anyone may set. A wall clock that jumps ahead ends leases early,
// which is safe. A wall clock that is set back changes nothing.
type elapsed struct {
	mutex sync.Mutex
	ahead time.Duration
}

func (e *elapsed) at(monotonic, wall time.Duration) time.Duration {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.ahead = max(e.ahead, wall-monotonic)
	return monotonic + e.ahead
}

// sleep returns false if the context ended first.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
