package election_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-js/tenure/go/election"
)

// watch returns the events as they arrive.
func watch(t *testing.T, client *election.Client, group string) <-chan election.Event {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	events := make(chan election.Event, 1_000)
	go func() {
		for event, err := range client.Watch(ctx, group) {
			if err != nil {
				t.Error(err)
				return
			}
			events <- event
		}
	}()
	return events
}

// leadOnce causes two changes: the beginning and the end of a term.
func leadOnce(t *testing.T, address, group string) {
	t.Helper()
	client := newClient(t, address, election.Options{NodeID: "a", LeaseTTL: calm})
	err := client.Run(context.Background(), group, func(context.Context, *election.Lease) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func expectEvents(t *testing.T, events <-chan election.Event, expected ...string) {
	t.Helper()
	for _, want := range expected {
		event := receive(t, "event", events)
		if got := strings.TrimSpace(string(event.Type) + " " + event.NodeID + " " + event.Reason); got != want {
			t.Fatalf("%q instead of %q: %+v", got, want, event)
		}
	}
}

func TestAWatchShowsTheStateAndEachChange(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	events := watch(t, newClient(t, address, election.Options{}), group(t))
	expectEvents(t, events, "STATE")
	for term := int64(1); term <= 2; term++ {
		leadOnce(t, address, group(t))
		changed := receive(t, "event", events)
		if changed.Type != election.EventLeaderChanged || changed.Term != term || changed.Leader == nil || changed.Leader.NodeID != "a" {
			t.Errorf("%+v", changed)
		}
		if lost := receive(t, "event", events); lost.Type != election.EventLeaderLost || lost.Term != term || lost.Reason != "resigned" {
			t.Errorf("%+v", lost)
		}
	}
}

func TestAWatchMissesNothingWhileItIsCutOff(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	middle := startProxy(t, address)
	back := make(chan struct{})
	var isCut atomic.Bool
	middle.setArrive(func(request *http.Request) {
		if isCut.Load() {
			<-back
		}
		// The first stream ends without an error.
		ctx, cut := context.WithCancel(request.Context())
		*request = *request.WithContext(ctx)
		go func() {
			for !isCut.Load() {
				time.Sleep(time.Millisecond)
			}
			if len(middle.of("watch")) == 1 {
				cut()
			}
		}()
	})
	events := watch(t, newClient(t, middle.url, election.Options{LeaseTTL: time.Second}), group(t))
	expectEvents(t, events, "STATE")
	isCut.Store(true)
	eventually(t, "the watch reconnects", func() bool { return len(middle.of("watch")) == 2 })
	leadOnce(t, address, group(t))
	leadOnce(t, address, group(t))
	close(back)
	expectEvents(t, events, "LEADER_CHANGED a", "LEADER_LOST a resigned", "LEADER_CHANGED a", "LEADER_LOST a resigned")
	if resumed := middle.of("watch")[1].header.Get("Last-Event-ID"); resumed == "" {
		t.Error("the watch did not resume from a cursor")
	}
}

func TestAWatchShowsAGapAndTheStateIfItsCursorIsUnknown(t *testing.T) {
	t.Parallel()
	service := startOwnService(t)
	middle := startProxy(t, service.url())
	middle.setArrive(func(request *http.Request) {
		if cursor := request.Header.Get("Last-Event-ID"); cursor != "" {
			// A well-formed cursor that the service never issued.
			request.Header.Set("Last-Event-ID", strings.Repeat("A", len(cursor)))
		}
	})
	events := watch(t, newClient(t, middle.url, election.Options{LeaseTTL: time.Second}), "jobs")
	expectEvents(t, events, "STATE")
	leadOnce(t, service.url(), "jobs")
	expectEvents(t, events, "LEADER_CHANGED a", "LEADER_LOST a resigned")
	service.kill()
	service.start()
	expectEvents(t, events, "GAP", "STATE")
}

func TestAWatchContinuesAfterARestartOfTheService(t *testing.T) {
	t.Parallel()
	service := startOwnService(t)
	events := watch(t, newClient(t, service.url(), election.Options{LeaseTTL: time.Second}), "jobs")
	expectEvents(t, events, "STATE")
	service.kill()
	service.start()
	leadOnce(t, service.url(), "jobs")
	// A restart may cause a gap. The watch still shows the changes after it, or the state that they led to.
	for {
		event := receive(t, "event", events)
		if event.Term == 1 && (event.Type == election.EventLeaderLost || event.Type == election.EventState && event.Leader == nil) {
			return
		}
	}
}

func TestAWatchEndsWhenTheLoopIsLeftOrItsContextEnds(t *testing.T) {
	t.Parallel()
	client := newClient(t, sharedService(t), election.Options{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for range client.Watch(ctx, group(t)) {
		break
	}
	count := 0
	for range client.Watch(ctx, group(t)) {
		count++
		stop()
	}
	if count != 1 {
		t.Errorf("%d events", count)
	}
}

func TestAWatchOfAnImpossibleGroupYieldsTheError(t *testing.T) {
	t.Parallel()
	client := newClient(t, sharedService(t), election.Options{})
	var errs []error
	for _, err := range client.Watch(context.Background(), "../campaign") {
		errs = append(errs, err)
	}
	expectCode(t, errs[len(errs)-1], election.CodeInvalidRequest)
	if len(errs) != 1 {
		t.Errorf("%v", errs)
	}
}
