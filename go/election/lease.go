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

// Term returns the fencing token. It rises with every leader of the group and is never used twice. Send it with every
// write, and let the resource refuse lower terms.
func (l *Lease) Term() int64 { return l.term }

// Held reports whether the lease is held now. It reads the clock at every call, so it is correct even in the first call
// after a pause, before any timer has fired. After the context of [Client.Run] has ended, the lease is still held until
// the work has returned.
func (l *Lease) Held() bool { return l.Remaining() > 0 }

// Remaining returns how long the lease is certainly held, even if no further renewal is confirmed. It returns 0 if the
// lease is not held.
func (l *Lease) Remaining() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.isOver {
		return 0
	}
	return max(0, l.ends-now())
}

// extend counts from the moment at which a request was sent, because its answer may have taken a long time. A lease
// that has ended does not start again, because the work may have been stopped.
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

// expire ends the lease when its time is up, even while a renewal is in flight. Timers stop while the machine sleeps,
// so it checks the clock often.
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
