package election

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestElapsedCountsSleepAndNeverGoesBack(t *testing.T) {
	var clock elapsed
	for _, step := range []struct{ monotonic, wall, expected time.Duration }{
		{1, 1, 1},
		// The machine slept for 9 ns.
		{2, 11, 11},
		// The wall clock was set back, and then set right again.
		{3, -50, 12},
		{4, 13, 13},
		// The wall clock was set ahead, and then set right again.
		{5, 1_000, 1_000},
		{6, 15, 1_001},
	} {
		if got := clock.at(step.monotonic, step.wall); got != step.expected {
			t.Errorf("got %v, want %v", got, step.expected)
		}
	}
}

func TestNowMeasuresElapsedTime(t *testing.T) {
	before := now()
	time.Sleep(10 * time.Millisecond)
	if passed := now() - before; passed < 10*time.Millisecond {
		t.Errorf("the clock advanced by %v", passed)
	}
}

func TestALeaseThatHasEndedDoesNotBeginAgain(t *testing.T) {
	for _, over := range []func(*Lease){
		func(l *Lease) { l.ends = now() - 1 },
		func(l *Lease) { l.end(ErrExpired) },
	} {
		_, cancel := context.WithCancelCause(context.Background())
		lease := &Lease{ends: now() + time.Hour, cancel: cancel}
		lease.extend(now() + 2*time.Hour)
		if lease.Remaining() <= time.Hour {
			t.Error("a held lease was not extended")
		}
		over(lease)
		lease.extend(now() + 2*time.Hour)
		if lease.Held() || lease.Remaining() != 0 {
			t.Errorf("the lease has %v left", lease.Remaining())
		}
	}
}

func TestBackoffGrowsToHalfALeaseAndHonorsRetryAfterUpToTheLease(t *testing.T) {
	client, err := New("http://127.0.0.1", Options{LeaseTTL: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for failures, most := range []time.Duration{1, 2, 4, 8, 15, 15, 15} {
		most *= time.Second
		if pause := client.backoff(failures, errors.New("lost")); pause < most/2 || pause > most {
			t.Errorf("%v after %d failures", pause, failures)
		}
	}
	for asked, expected := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, time.Hour: 30 * time.Second} {
		if pause := client.backoff(0, &Error{RetryAfter: asked}); pause != expected {
			t.Errorf("%v although the service asks for %v", pause, asked)
		}
	}
}

func TestAStreamThatReceivesNothingIsReopened(t *testing.T) {
	opened := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "text/event-stream")
		writer.Header().Set(clusterHeader, "c")
		_, _ = writer.Write([]byte("retry: 2000\n\n"))
		writer.(http.Flusher).Flush()
		opened <- struct{}{}
		<-request.Context().Done()
	}))
	defer server.Close()
	client, err := New(server.URL, Options{LeaseTTL: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.silence = 50 * time.Millisecond
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go func() {
		<-opened
		<-opened
		stop()
	}()
	for event, err := range client.Watch(ctx, "jobs") {
		t.Error(event, err)
	}
	if ctx.Err() != context.Canceled {
		t.Error("the stream was opened only once")
	}
}
