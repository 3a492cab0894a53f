package election

import (
	"context"
	"errors"
	"sync"
	"time"
)

const longestWait = 10 * time.Second

// Work is a function that only one node may run at a time. Its context is canceled when leadership ends,
// [Options.Margin] before another node can lead, or when the context of [Client.Run] ends. Its context.Cause is
// [ErrExpired], an [Error] with [CodeNotLeader], or the cause of the context of Run. Work must return soon after that.
type Work func(ctx context.Context, lease *Lease) error

// Run campaigns until this node leads the group, and then calls work, in the same goroutine. What happens next depends
// on how the work returns:
//
//   - While it leads: Run resigns, so that the next node need not wait, and returns the work's error.
//   - After the lease was lost: Run campaigns again, and the work is called again with the next lease.
//   - After ctx ended: Run resigns and returns the cause of ctx, or the work's error if that is a different one.
//
// The lease is renewed until the work has returned, and is never released before that. If the work panics, the lease is
// left to expire.
//
// While the service is unavailable, Run keeps trying until ctx ends. It returns an [Error] if a campaign can never
// succeed: the codes [CodeInvalidRequest], [CodeInvalidTTL], [CodeTooLarge] and [CodeWrongCluster].
//
// After ctx has ended and the work has returned, Run takes at most the time of a few calls to release the lease. No
// goroutine is left when it returns.
func (c *Client) Run(ctx context.Context, group string, work Work) error {
	for {
		lease, err := c.campaign(ctx, group)
		if err != nil {
			return err
		}
		wasHeld, err := c.lead(ctx, lease, work)
		if ctx.Err() != nil {
			if err == nil || errors.Is(err, ctx.Err()) {
				return context.Cause(ctx)
			}
			return err
		}
		if wasHeld {
			return err
		}
		if err != nil {
			c.log(ctx, "work", group, err)
		}
	}
}

// candidacy is one try to become leader. It sends the same attempt until it gets an answer, so that it finds a grant
// whose answer was lost.
type candidacy struct {
	NodeID     string         `json:"node_id"`
	LeaseTTLMs int64          `json:"lease_ttl_ms"`
	WaitMs     int64          `json:"wait_ms"`
	Attempt    string         `json:"attempt"`
	Instance   string         `json:"instance_start_uuid"`
	Metadata   map[string]any `json:"metadata,omitempty"`

	// When it was first sent, or 0 if it has not been sent yet.
	sent time.Duration
}

func (c *Client) newCandidacy() *candidacy {
	return &candidacy{NodeID: c.options.NodeID, LeaseTTLMs: c.options.LeaseTTL.Milliseconds(), WaitMs: c.wait().Milliseconds(),
		Attempt: newID(), Instance: c.instance, Metadata: c.options.Metadata}
}

// wait is how long one campaign waits in the queue.
func (c *Client) wait() time.Duration { return min(c.options.LeaseTTL, longestWait) }

// campaign waits in the queue until this node leads with at least half of a lease left.
func (c *Client) campaign(ctx context.Context, group string) (*Lease, error) {
	claim := c.newCandidacy()
	for failures := 0; ctx.Err() == nil; {
		started := now()
		if claim.sent == 0 {
			claim.sent = started
		}
		judged, err := c.service.post(ctx, group, "campaign", c.wait()+c.options.CallTimeout, claim)
		if err == nil && (!judged.IsLeader || judged.Leader == nil) {
			failures = 0
			claim = c.newCandidacy()
			// A campaign that waited in the queue needs no further pause.
			if now()-started < c.wait()/2 {
				asked := max(c.options.LeaseTTL/30, milliseconds(judged.RetryAfterMs))
				sleep(ctx, min(c.options.LeaseTTL, asked+jittered(asked/10)))
			}
			continue
		}
		if err == nil && ctx.Err() == nil {
			var ends time.Duration
			if ends, err = c.begin(ctx, group, claim, judged.Leader); err == nil {
				return &Lease{group: group, term: judged.Leader.Term, attempt: claim.Attempt,
					ttl: c.options.LeaseTTL, ends: ends}, nil
			}
		}
		if err == nil {
			break
		}
		c.log(ctx, "campaign", group, err)
		if isFinal(err) {
			return nil, err
		}
		if hasCode(err, CodeNotLeader) {
			claim = c.newCandidacy()
		}
		sleep(ctx, c.backoff(failures, err))
		failures++
	}
	c.abandon(ctx, group, claim)
	return nil, context.Cause(ctx)
}

// begin returns when a granted lease ends, counted from the first time that this candidacy was sent. It may have waited
// in the queue since, or its first answer may have been lost. If too little is left, the lease counts from a renewal
// instead.
func (c *Client) begin(ctx context.Context, group string, claim *candidacy, granted *leaderJSON) (time.Duration, error) {
	ends := c.endOf(claim.sent, granted)
	if ends-now() >= c.options.LeaseTTL/2 {
		return ends, nil
	}
	return c.renew(ctx, group, granted.Term, claim.Attempt)
}

// abandon releases the lease of a canceled candidacy, if it was granted in the meantime. Otherwise the other nodes
// would wait for a lease that nobody uses.
func (c *Client) abandon(ctx context.Context, group string, claim *candidacy) {
	if claim.sent == 0 {
		return
	}
	leader, ok, err := c.Leader(context.WithoutCancel(ctx), group)
	if err == nil && ok && leader.attempt == claim.Attempt {
		c.resign(ctx, group, leader.Term, claim.Attempt)
	}
}

// lead calls the work while the lease is renewed. It returns whether the lease was held when the work returned.
func (c *Client) lead(ctx context.Context, lease *Lease, work Work) (wasHeld bool, err error) {
	leading, cancel := context.WithCancelCause(ctx)
	lease.cancel = cancel
	// This context does not end with ctx, so that the lease is renewed until the work has returned.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keepers sync.WaitGroup
	finish := sync.OnceFunc(func() {
		wasHeld = lease.Held()
		stop()
		lease.end(context.Canceled)
		keepers.Wait()
	})
	// This also covers a panic.
	defer finish()
	keepers.Add(2)
	go func() {
		defer keepers.Done()
		lease.expire(keeping)
	}()
	go func() {
		defer keepers.Done()
		c.keep(keeping, ctx, lease)
	}()
	err = work(leading, lease)
	finish()
	if wasHeld {
		c.resign(ctx, lease.group, lease.term, lease.attempt)
	}
	return wasHeld, err
}

// keep renews the lease until it has ended, or until the work has had DrainTimeout to return after run has ended.
func (c *Client) keep(ctx, run context.Context, lease *Lease) {
	var drained time.Duration
	failures := 0
	pause := lease.ttl / 3
	for sleep(ctx, min(pause, lease.Remaining()/2)) && lease.Held() {
		if run.Err() != nil && drained == 0 {
			drained = now() + c.options.DrainTimeout
		}
		if drained != 0 && now() >= drained {
			return
		}
		ends, err := c.renew(ctx, lease.group, lease.term, lease.attempt)
		switch {
		case err == nil:
			lease.extend(ends)
			failures, pause = 0, lease.ttl/3
		case hasCode(err, CodeNotLeader):
			lease.end(err)
		default:
			c.log(ctx, "renew", lease.group, err)
			pause = c.backoff(failures, err)
			failures++
		}
	}
}
