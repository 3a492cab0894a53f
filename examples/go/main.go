// A leader loop in Go: the whole protocol of the election service, with the standard library alone.
//
//	TENURE_URL=http://127.0.0.1:7070 go run . nightly-report
//
// Start as many as you like. One of them works at a time; when it ends or dies, another goes on. Put your work into work.
//
// TENURE_NODE is the name of this candidate, TENURE_TTL the lease in seconds. For a service on another machine:
// TENURE_TOKEN_FILE has its token, TENURE_CA_FILE the authority of its certificate.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// work is what only one may do at a time. It returns soon after the context has ended.
//
// Give lease.Term to whatever is written to, and let that refuse lower ones: nothing else helps against a program that was
// paused between its last look at the lease and its write.
func work(ctx context.Context, lease *Lease) {
	for ctx.Err() == nil && lease.Held() {
		fmt.Printf("term %d: works\n", lease.Term)
		sleep(ctx, lease.ttl/30)
	}
}

// Candidate campaigns, and lets the work run while it leads.
type Candidate struct {
	service *Service
	ttl     time.Duration
	// Names this candidacy. A campaign whose answer was lost is sent again with it, and gets its own lease back.
	candidacy string
}

func (c *Candidate) callTimeout() time.Duration { return c.ttl / 5 }

// run ends with its context: one that waits in line at once, one that leads when its work has ended.
func (c *Candidate) run(ctx context.Context) {
	for ctx.Err() == nil {
		term, ok := c.campaign(ctx)
		if !ok {
			continue
		}
		lease, leading := newLease(ctx, term, c.ttl)
		// It waited for a time that nobody knows: the lease counts from this renewal.
		c.renew(context.Background(), lease)
		if lease.Held() {
			c.lead(leading, lease)
		}
		lease.end()
	}
}

// campaign waits in line. A term, if it came to one.
func (c *Candidate) campaign(ctx context.Context) (int64, bool) {
	wait := min(c.ttl, 10*time.Second)
	answer, err := c.service.Ask(ctx, "campaign", wait+c.callTimeout(), map[string]any{
		"lease_ttl_ms":        c.ttl.Milliseconds(),
		"wait_ms":             wait.Milliseconds(),
		"instance_start_uuid": c.candidacy,
	})
	if err != nil {
		complain(ctx, "campaign", err)
		sleep(ctx, time.Second)
		return 0, false
	}
	if !answer.IsLeader || answer.Leader == nil {
		// Where it waited in line, the time is over already.
		if answer.Error != "" {
			sleep(ctx, max(time.Second, milliseconds(answer.RetryAfterMs)))
		}
		return 0, false
	}
	c.candidacy = newID()
	return answer.Leader.Term, true
}

// renew tells whether it was confirmed.
func (c *Candidate) renew(ctx context.Context, lease *Lease) bool {
	sent := now()
	answer, err := c.service.Ask(ctx, "renew", c.callTimeout(), map[string]any{
		"term":         lease.Term,
		"extend_by_ms": c.ttl.Milliseconds(),
	})
	if err != nil {
		// Perhaps it was extended, perhaps not: nothing to count on.
		complain(ctx, "renew", err)
		return false
	}
	if answer.Error == "NOT_LEADER" {
		lease.end()
	}
	if !answer.OK || answer.Leader == nil {
		return false
	}
	lease.confirm(milliseconds(answer.Leader.LeaseRemainingMs), sent)
	return true
}

func (c *Candidate) lead(ctx context.Context, lease *Lease) {
	fmt.Printf("%s leads in term %d\n", c.service.node, lease.Term)
	// Not one of ctx: while the work comes to its end after a signal, the lease is renewed.
	kept, release := context.WithCancel(context.Background())
	defer release()
	go lease.watch(kept)
	go c.keep(kept, lease)
	work(ctx, lease)
	if lease.Held() {
		// The work has ended before the lease: the next one need not wait for its end.
		release()
		_, err := c.service.Ask(context.Background(), "resign", c.callTimeout(), map[string]any{"term": lease.Term})
		if err != nil {
			complain(context.Background(), "resign", err)
		}
	}
	fmt.Printf("%s has ended term %d\n", c.service.node, lease.Term)
}

func (c *Candidate) keep(ctx context.Context, lease *Lease) {
	pause := c.ttl / 3
	for {
		sleep(ctx, pause)
		if ctx.Err() != nil || !lease.Held() {
			return
		}
		pause = c.ttl / 3
		if !c.renew(ctx, lease) {
			pause = c.ttl / 30
		}
	}
}

func complain(ctx context.Context, action string, err error) {
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", action, err)
	}
}

func milliseconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Millisecond))
}

func setting(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

func main() {
	group := "go"
	if len(os.Args) > 1 {
		group = os.Args[1]
	}
	host, _ := os.Hostname()
	node := setting("TENURE_NODE", fmt.Sprintf("%s-%d", host, os.Getpid()))
	seconds, err := strconv.ParseFloat(setting("TENURE_TTL", "15"), 64)
	if err != nil || seconds <= 0 {
		fmt.Fprintln(os.Stderr, "TENURE_TTL must be a number of seconds")
		os.Exit(2)
	}
	address := setting("TENURE_URL", "http://127.0.0.1:7070")
	service, err := NewService(address, group, node, os.Getenv("TENURE_TOKEN_FILE"), os.Getenv("TENURE_CA_FILE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	candidate := &Candidate{service: service, ttl: time.Duration(seconds * float64(time.Second)), candidacy: newID()}
	candidate.run(ctx)
}
