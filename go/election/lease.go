package election

import (
	"context"
	"sync"
	"time"
)

// Lease is a term in which this client leads. Its methods are safe for concurrent use.
type Lease struct {
	group   string
	term    int64
	attempt string
	ttl     time.Duration

	mutex  sync.Mutex
	ends   time.Duration
	isOver bool
	cancel context.CancelCauseFunc
}

// Term is the fencing token: it rises with every leader of the group and is never used twice. Pass it to what you write
// to, and let that refuse lower terms.
func (l *Lease) Term() int64 { return l.term }

// Held reads the clock at every call: no timer has to fire for it. So the first call after a pause is right already.
// After the context of [Client.Run] ended, a lease is still held until the work has returned.
func (l *Lease) Held() bool { return l.Remaining() > 0 }

// Remaining is how long the lease is held at least, even if no further renewal is confirmed; 0 if it is not held.
func (l *Lease) Remaining() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.isOver {
		return 0
	}
	return max(0, l.ends-now())
}

// extend counts from the moment at which a request was sent, because its answer may have taken long. A lease that has
// ended does not begin again: the work may have been stopped.
func (l *Lease) extend(ends time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.isOver && now() < l.ends {
		l.ends = max(l.ends, ends)
	}
}

func (l *Lease) end(cause error) {
	l.mutex.Lock()
	l.isOver = true
	l.mutex.Unlock()
	l.cancel(cause)
}

// expire ends the lease when its time is over, even while a renewal is in flight. Timers stop while the machine sleeps,
// so it looks at the clock often.
func (l *Lease) expire(ctx context.Context) {
	interval := min(time.Second, l.ttl/10)
	for {
		left := l.Remaining()
		if left == 0 {
			l.end(ErrExpired)
			return
		}
		if !sleep(ctx, min(left, interval)) {
			return
		}
	}
}
