package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-js/tenure/go/election"
	"go.uber.org/goleak"
)

// Long enough that no node loses its lease on a busy machine.
const calm = time.Minute

func TestTheNextNodeLeadsAtOnceWhenTheLeaderEnds(t *testing.T) {
	address := sharedService(t)
	first := run(t, newClient(t, address, election.Options{NodeID: "a", LeaseTTL: calm}), group(t))
	before := first.lead()
	second := run(t, newClient(t, address, election.Options{NodeID: "b", LeaseTTL: calm}), group(t))
	first.stop()
	if err := first.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	after := second.lead()
	if before.lease.Term() != 1 || after.lease.Term() != 2 {
		t.Errorf("terms %d and %d", before.lease.Term(), after.lease.Term())
	}
	if before.lease.Held() || !after.lease.Held() {
		t.Errorf("held: %v and %v", before.lease.Held(), after.lease.Held())
	}
}

func TestRunReturnsWhatTheWorkReturnedAndResigns(t *testing.T) {
	address := sharedService(t)
	client := newClient(t, address, election.Options{LeaseTTL: calm})
	failure := errors.New("the disk is full")
	for _, expected := range []error{failure, nil} {
		err := client.Run(context.Background(), group(t), func(context.Context, *election.Lease) error { return expected })
		if err != expected {
			t.Errorf("Run returned %v, not %v", err, expected)
		}
		if _, ok, err := client.Leader(context.Background(), group(t)); ok || err != nil {
			t.Errorf("the group still has a leader: %v", err)
		}
	}
}

func TestAWaitingNodeEndsWithItsContext(t *testing.T) {
	address := sharedService(t)
	leader := run(t, newClient(t, address, election.Options{NodeID: "a", LeaseTTL: calm}), group(t))
	leader.lead()
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("enough")
	middle := startProxy(t, address)
	result := make(chan error, 1)
	waiting := newClient(t, middle.url, election.Options{NodeID: "b", LeaseTTL: calm})
	go func() {
		result <- waiting.Run(ctx, group(t), func(context.Context, *election.Lease) error { return nil })
	}()
	eventually(t, "the candidate waits in the queue", func() bool { return len(middle.of("campaign")) == 1 })
	cancel(reason)
	if err := receive(t, "the end of Run", result); err != reason {
		t.Errorf("Run returned %v", err)
	}
}

func TestALeaseThatWasGrantedToACanceledCampaignIsReleased(t *testing.T) {
	address := sharedService(t)
	middle := startProxy(t, address)
	granted, cut := make(chan struct{}, 1), make(chan struct{})
	middle.setAnswer(func(_ int, request sent) bool {
		if request.action == "campaign" {
			granted <- struct{}{}
			<-cut
		}
		return true
	})
	broken := run(t, newClient(t, middle.url, election.Options{NodeID: "a", LeaseTTL: calm}), group(t))
	receive(t, "grant", granted)
	broken.stop()
	if err := broken.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	close(cut)
	client := newClient(t, address, election.Options{})
	if leader, ok, err := client.Leader(context.Background(), group(t)); ok || err != nil {
		t.Errorf("%q still leads: %v", leader.NodeID, err)
	}
}

func TestALeaseIsRenewedAndNotReleasedUntilTheWorkHasReturned(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	middle := startProxy(t, address)
	client := newClient(t, middle.url, election.Options{NodeID: "a", LeaseTTL: 3 * time.Second})
	ctx, stop := context.WithCancel(context.Background())
	leads, finish, result := make(chan *election.Lease, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- client.Run(ctx, group(t), func(ctx context.Context, lease *election.Lease) error {
			leads <- lease
			<-ctx.Done()
			<-finish
			return nil
		})
	}()
	lease := receive(t, "leadership", leads)
	stop()
	// These renewals span more than one lease.
	renewed := len(middle.of("renew"))
	eventually(t, "the lease is renewed until the work returns", func() bool { return len(middle.of("renew")) >= renewed+4 })
	leader, ok, err := client.Leader(context.Background(), group(t))
	if !ok || err != nil || leader.Term != lease.Term() || !lease.Held() || len(middle.of("resign")) != 0 {
		t.Errorf("leader %+v, error %v, held %v, resigned %d times", leader, err, lease.Held(), len(middle.of("resign")))
	}
	close(finish)
	if err := receive(t, "the end of Run", result); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	if len(middle.of("resign")) != 1 {
		t.Errorf("resigned %d times", len(middle.of("resign")))
	}
}

func TestALeaseExpiresIfTheWorkDoesNotReturnInTime(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	client := newClient(t, address, election.Options{NodeID: "a", LeaseTTL: time.Second, DrainTimeout: time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	leads, finish, result := make(chan *election.Lease, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- client.Run(ctx, group(t), func(ctx context.Context, lease *election.Lease) error {
			leads <- lease
			<-finish
			return nil
		})
	}()
	lease := receive(t, "leadership", leads)
	stop()
	next := run(t, newClient(t, address, election.Options{NodeID: "b", LeaseTTL: calm}), group(t))
	if term := next.lead().lease.Term(); term <= lease.Term() || lease.Held() {
		t.Errorf("got term %d after term %d, which is still held: %v", term, lease.Term(), lease.Held())
	}
	close(finish)
	receive(t, "the end of Run", result)
}

func TestAPanicOfTheWorkLeavesTheLeaseToExpire(t *testing.T) {
	client := newClient(t, sharedService(t), election.Options{LeaseTTL: calm})
	var lease *election.Lease
	func() {
		defer func() {
			if recover() != "broken" {
				t.Error("the panic was lost")
			}
		}()
		_ = client.Run(context.Background(), group(t), func(_ context.Context, got *election.Lease) error {
			lease = got
			panic("broken")
		})
	}()
	if lease.Held() {
		t.Error("the lease is still held")
	}
	if leader, ok, err := client.Leader(context.Background(), group(t)); !ok || err != nil || leader.Term != lease.Term() {
		t.Errorf("the lease was released: %+v, %v", leader, err)
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	address := sharedService(t)
	// VerifyNone waits for the goroutines of closed connections, which end a moment later.
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	leader, err := election.New(address, election.Options{NodeID: "a", LeaseTTL: calm})
	if err != nil {
		t.Fatal(err)
	}
	standby, err := election.New(address, election.Options{NodeID: "b", LeaseTTL: calm})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	watched, results := make(chan struct{}, 100), make(chan error, 3)
	leads := make(chan struct{}, 1)
	work := func(ctx context.Context, _ *election.Lease) error {
		leads <- struct{}{}
		<-ctx.Done()
		return nil
	}
	go func() { results <- leader.Run(ctx, group(t), work) }()
	receive(t, "leadership", leads)
	go func() { results <- standby.Run(ctx, group(t), work) }()
	go func() {
		for range standby.Watch(ctx, group(t)) {
			watched <- struct{}{}
		}
		results <- nil
	}()
	receive(t, "event", watched)
	stop()
	for range 3 {
		receive(t, "the end", results)
	}
	leader.Close()
	standby.Close()
}
