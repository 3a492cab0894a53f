package main

import (
	"context"
	"sync"
	"time"
)

// Lease is a term of ours, and the moment at which it must be over.
type Lease struct {
	Term int64
	ttl  time.Duration
	// For clocks that run at slightly different speeds, and for the time that the work takes to stop.
	margin time.Duration

	mutex  sync.Mutex
	ends   time.Duration
	isOver bool
	lose   context.CancelFunc
}

// newLease gives a lease that is not held before it was confirmed, and a context that ends with it.
func newLease(parent context.Context, term int64, ttl time.Duration) (*Lease, context.Context) {
	ctx, lose := context.WithCancel(parent)
	return &Lease{Term: term, ttl: ttl, margin: ttl / 10, lose: lose}, ctx
}

// confirm counts from the moment at which the request was sent: the answer may have taken long. What has ended does not
// begin again: the work may have been stopped already.
func (l *Lease) confirm(remaining, sent time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.ends == 0 || now() < l.ends {
		l.ends = sent + min(l.ttl, remaining) - l.margin
	}
}

// Held goes by the clock, each time: no timer has to fire for it, so it is right after a pause too.
func (l *Lease) Held() bool {
	return l.left() > 0
}

func (l *Lease) left() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.isOver {
		return 0
	}
	return l.ends - now()
}

func (l *Lease) end() {
	l.mutex.Lock()
	l.isOver = true
	l.mutex.Unlock()
	l.lose()
}

// watch ends the lease when its time is over, whether or not a renewal is under way. Timers stand still while the machine
// sleeps, so it looks at the clock often.
func (l *Lease) watch(ctx context.Context) {
	for l.Held() && ctx.Err() == nil {
		sleep(ctx, min(l.left(), l.ttl/50))
	}
	l.end()
}

func sleep(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
