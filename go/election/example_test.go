package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tenure-js/tenure/go/election"
)

func Example() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{LeaseTTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	// One of many processes does this. The others wait until it ends or crashes.
	err = client.Run(context.Background(), newName("payments"), func(ctx context.Context, lease *election.Lease) error {
		for page := 1; page <= 2; page++ {
			if !lease.Held() {
				return context.Cause(ctx)
			}
			fmt.Println("page", page, "in term", lease.Term())
		}
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// page 1 in term 1
	// page 2 in term 1
	// done: <nil>
}

func ExampleNew() {
	client, err := election.New("https://elections.example.com", election.Options{
		NodeID:   "node-17",
		Replicas: []string{"https://elections-2.example.com"},
		// Read for each request, because it is replaced before it expires.
		TokenSource: func(context.Context) (string, error) {
			token, err := os.ReadFile("token")
			return string(token), err
		},
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	_, err = election.New("http://elections.example.com", election.Options{Token: "secret"})
	fmt.Println(err)
	// Output:
	// election: a token is not sent to elections.example.com without TLS: use https://
}

func ExampleOptions() {
	// The lease, the margin and the timeout of a call depend on each other. New checks them.
	_, err := election.New("http://127.0.0.1:7070", election.Options{LeaseTTL: 6 * time.Second, CallTimeout: 5 * time.Second})
	fmt.Println(err)
	// Output:
	// election: a third of LeaseTTL (2s), CallTimeout (5s) and Margin (600ms) must fit into LeaseTTL (6s)
}

func ExampleClient_Run() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	// A real program would use signal.NotifyContext.
	ctx, stop := context.WithCancel(context.Background())
	err = client.Run(ctx, newName("reports"), func(ctx context.Context, lease *election.Lease) error {
		fmt.Println("leads in term", lease.Term())
		stop()
		<-ctx.Done()
		fmt.Println("may finish:", lease.Held())
		return nil
	})
	fmt.Println(err)
	// Output:
	// leads in term 1
	// may finish: true
	// context canceled
}

// A store that knows the newest term refuses the write of an old leader.
func ExampleLease_Term() {
	newest := int64(0)
	write := func(term int64, text string) error {
		if term < newest {
			return fmt.Errorf("term %d is over", term)
		}
		newest = term
		fmt.Println(text)
		return nil
	}
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	group := newName("ledger")
	var late int64
	for range 2 {
		_ = client.Run(context.Background(), group, func(_ context.Context, lease *election.Lease) error {
			late = max(1, lease.Term()-1)
			return write(lease.Term(), fmt.Sprint("written in term ", lease.Term()))
		})
	}
	fmt.Println(write(late, "never shown"))
	// Output:
	// written in term 1
	// written in term 2
	// term 1 is over
}

func ExampleLease_Held() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	var kept *election.Lease
	_ = client.Run(context.Background(), newName("jobs"), func(_ context.Context, lease *election.Lease) error {
		kept = lease
		fmt.Println(lease.Held())
		return nil
	})
	fmt.Println(kept.Held(), kept.Remaining())
	// Output:
	// true
	// false 0s
}

func ExampleLease_Remaining() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{LeaseTTL: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	_ = client.Run(context.Background(), newName("jobs"), func(_ context.Context, lease *election.Lease) error {
		// Do not start a step that cannot finish in time.
		fmt.Println("time for a step of 10 s:", lease.Remaining() > 10*time.Second)
		return nil
	})
	// Output:
	// time for a step of 10 s: true
}

func ExampleClient_Leader() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{NodeID: "node-17", Metadata: map[string]any{"zone": "east"}})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	group := newName("payments")
	show := func() {
		leader, ok, err := client.Leader(context.Background(), group)
		if err != nil {
			panic(err)
		}
		fmt.Println(ok, leader.NodeID, leader.Term, leader.Metadata["zone"])
	}
	_ = client.Run(context.Background(), group, func(context.Context, *election.Lease) error {
		show()
		return nil
	})
	show()
	// Output:
	// true node-17 1 east
	// false  0 <nil>
}

func ExampleClient_Watch() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{NodeID: "node-17"})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	group := newName("payments")
	begun := make(chan struct{})
	go func() {
		<-begun
		_ = client.Run(context.Background(), group, func(context.Context, *election.Lease) error { return nil })
	}()
	for event, err := range client.Watch(context.Background(), group) {
		if err != nil {
			panic(err)
		}
		switch event.Type {
		case election.EventGap:
			// Some changes are unknown. The state follows.
		case election.EventState:
			fmt.Println("somebody leads:", event.Leader != nil)
			close(begun)
		case election.EventLeaderChanged:
			fmt.Println(event.NodeID, "leads in term", event.Term)
		case election.EventLeaderLost:
			fmt.Println("term", event.Term, "has", event.Reason)
			return
		}
	}
	// Output:
	// somebody leads: false
	// node-17 leads in term 1
	// term 1 has resigned
}

func ExampleClient_Close() {
	client, err := election.New("http://127.0.0.1:7070", election.Options{})
	if err != nil {
		panic(err)
	}
	// The client may still be used. It then opens new connections.
	client.Close()
	// Output:
}

// Work can be tested without a service: the test only needs to cancel its context.
func ExampleWork() {
	var work election.Work = func(ctx context.Context, _ *election.Lease) error {
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), election.ErrExpired) {
			fmt.Println("the service was not reached in time")
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(election.ErrExpired)
	_ = work(ctx, nil)
	// Output:
	// the service was not reached in time
}

func ExampleEvent() {
	// Only EventState and EventLeaderChanged have a leader. EventState follows a gap.
	follow := func(event election.Event) string {
		if event.Leader == nil {
			return "nobody"
		}
		return event.Leader.NodeID
	}
	fmt.Println(follow(election.Event{Type: election.EventLeaderChanged, Leader: &election.Leader{NodeID: "node-17", Term: 4}}))
	fmt.Println(follow(election.Event{Type: election.EventLeaderLost, NodeID: "node-17", Term: 4, Reason: "expired"}))
	// Output:
	// node-17
	// nobody
}

func ExampleEventType() {
	fmt.Println(election.EventState, election.EventLeaderChanged, election.EventLeaderLost, election.EventGap)
	// Output:
	// STATE LEADER_CHANGED LEADER_LOST GAP
}

func ExampleLeader() {
	leader := election.Leader{NodeID: "node-17", Term: 4, Metadata: map[string]any{"address": "10.0.1.7:8080"}}
	address, ok := leader.Metadata["address"].(string)
	fmt.Println(address, ok)
	// Output:
	// 10.0.1.7:8080 true
}

func ExampleCode() {
	var err error = &election.Error{Code: election.CodeRateLimited, Message: "too many", RetryAfter: time.Second}
	var refused *election.Error
	if errors.As(err, &refused) && refused.Code == election.CodeRateLimited {
		fmt.Println("wait", refused.RetryAfter)
	}
	// Output:
	// wait 1s
}

func ExampleError() {
	client, err := election.New(os.Getenv("TENURE_URL"), election.Options{LeaseTTL: 20 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	err = client.Run(context.Background(), newName("payments"), nil)
	var refused *election.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, refused.Status)
	}
	// Output:
	// INVALID_TTL 400
}
