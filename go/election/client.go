package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Client takes part in the elections of one service. It is safe for concurrent use, even for several groups at a time.
type Client struct {
	service *service
	options Options
	// Identifies this start of the program.
	instance string
	// An event stream that receives nothing for this long is dead. The service sends a comment every 15 s.
	silence time.Duration
}

// New checks the options and returns a client. It sends nothing and starts no goroutine.
func New(url string, options Options) (*Client, error) {
	options = options.withDefaults()
	if err := options.check(); err != nil {
		return nil, err
	}
	addresses, err := options.addresses(url)
	if err != nil {
		return nil, err
	}
	service := &service{options: options, http: options.httpClient(), addresses: addresses}
	return &Client{service: service, options: options, instance: newID(), silence: 40 * time.Second}, nil
}

// Close closes idle connections. Calls in flight continue until they finish or their context ends. Close does not close
// the connections of [Options.HTTPClient].
func (c *Client) Close() {
	if c.options.HTTPClient == nil {
		c.service.http.CloseIdleConnections()
	}
}

// Leader describes the leader of a group, as the service saw it when it answered. It may have changed since.
type Leader struct {
	// NodeID names the node that leads.
	NodeID string
	// Term is the fencing token of this leadership.
	Term int64
	// Remaining is the time left on the lease, on the service's clock, when the service answered.
	Remaining time.Duration
	// LeaseTTL is the duration of the lease.
	LeaseTTL time.Duration
	// AcquiredAt is when the node became leader, on the service's wall clock. For display only.
	AcquiredAt time.Time
	// Metadata is the leader's metadata.
	Metadata map[string]any

	attempt string
}

// Leader returns the leader of the group. ok is false if the group has none. Each address is tried once.
func (c *Client) Leader(ctx context.Context, group string) (leader Leader, ok bool, err error) {
	for range c.service.addresses {
		var found *answer
		if found, err = c.service.get(ctx, group, "leader", c.options.CallTimeout); err == nil {
			leader, ok = found.Leader.leader()
			return leader, ok, nil
		}
		if isFinal(err) || ctx.Err() != nil {
			break
		}
	}
	return Leader{}, false, err
}

func (l *leaderJSON) leader() (Leader, bool) {
	if l == nil {
		return Leader{}, false
	}
	return Leader{
		NodeID:     l.NodeID,
		Term:       l.Term,
		Remaining:  milliseconds(l.LeaseRemainingMs),
		LeaseTTL:   milliseconds(l.LeaseTTLMs),
		AcquiredAt: time.UnixMilli(int64(l.AcquiredAtMs)),
		Metadata:   l.Metadata,
		attempt:    l.Attempt,
	}, true
}

// held is the body of a renewal and of a resignation. The attempt prevents a late request from changing another lease.
type held struct {
	NodeID     string `json:"node_id"`
	Term       int64  `json:"term"`
	Attempt    string `json:"attempt"`
	Instance   string `json:"instance_start_uuid"`
	ExtendByMs int64  `json:"extend_by_ms,omitempty"`
}

// renew returns the end of the lease, as a time of now().
func (c *Client) renew(ctx context.Context, group string, term int64, attempt string) (time.Duration, error) {
	sent := now()
	body := held{c.options.NodeID, term, attempt, c.instance, c.options.LeaseTTL.Milliseconds()}
	renewed, err := c.service.post(ctx, group, "renew", c.options.CallTimeout, body)
	if err != nil {
		return 0, err
	}
	if !renewed.OK || renewed.Leader == nil || renewed.Leader.Term != term {
		return 0, errors.New("election: the answer to a renewal does not confirm it")
	}
	return c.endOf(sent, renewed.Leader), nil
}

// endOf counts from the moment of sending. The service may promise more than was requested, for example after a restart.
// The client does not rely on that.
func (c *Client) endOf(sent time.Duration, granted *leaderJSON) time.Duration {
	return sent + min(c.options.LeaseTTL, milliseconds(granted.LeaseRemainingMs)) - c.options.Margin
}

// resign releases a lease, within the time of two calls. It is safe to repeat. If it fails, the lease expires.
func (c *Client) resign(ctx context.Context, group string, term int64, attempt string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.options.CallTimeout)
	defer cancel()
	for failures := 0; ctx.Err() == nil; failures++ {
		body := held{NodeID: c.options.NodeID, Term: term, Attempt: attempt, Instance: c.instance}
		_, err := c.service.post(ctx, group, "resign", c.options.CallTimeout, body)
		if err == nil || hasCode(err, CodeNotLeader) {
			return
		}
		c.log(ctx, "resign", group, err)
		if isFinal(err) || !sleep(ctx, c.backoff(failures, err)) {
			return
		}
	}
}

// backoff doubles with each failure and is jittered, so that a fleet does not return all at once. It respects a longer
// wait that the service requests, up to the duration of a lease.
func (c *Client) backoff(failures int, err error) time.Duration {
	ttl := c.options.LeaseTTL
	pause := min(ttl/2, ttl/30<<min(failures, 4))
	return min(ttl, max(jittered(pause), retryAfter(err)))
}

// jittered returns a random duration from half of the given one to all of it.
func jittered(duration time.Duration) time.Duration {
	return duration/2 + rand.N(duration/2+1)
}

func (c *Client) log(ctx context.Context, action, group string, err error) {
	// A call that the caller canceled is not a failure.
	if !errors.Is(err, context.Canceled) {
		c.options.Logger.WarnContext(ctx, "election: "+action+" failed", "group", group, "node", c.options.NodeID, "error", err)
	}
}
