package election_test

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-js/tenure/go/election"
)

func TestACampaignWhoseAnswerWasLostIsRepeatedWithTheSameAttempt(t *testing.T) {
	t.Parallel()
	middle := startProxy(t, sharedService(t))
	middle.setAnswer(func(number int, _ sent) bool { return number > 2 })
	client := newClient(t, middle.url, election.Options{LeaseTTL: 20 * time.Second})
	leads := run(t, client, group(t)).lead()
	if leads.lease.Term() != 1 {
		t.Errorf("the client leads in term %d, so it did not find its first grant", leads.lease.Term())
	}
	campaigns := middle.of("campaign")
	if len(campaigns) != 3 {
		t.Fatalf("%d campaigns", len(campaigns))
	}
	for _, campaign := range campaigns {
		if campaign.Attempt == "" || campaign.Attempt != campaigns[0].Attempt || campaign.Start != campaigns[0].Start {
			t.Errorf("a campaign of another candidacy: %+v", campaign)
		}
	}
}

func TestALeaseCountsFromTheFirstCampaignWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	middle := startProxy(t, sharedService(t))
	const ttl = 6 * time.Second
	middle.setAnswer(func(number int, _ sent) bool {
		if number == 1 {
			// When the second campaign is answered, less than half of the lease is left, counted from the first campaign, and
			// more than half, counted from the second.
			time.Sleep(ttl * 3 / 10)
		}
		return number > 1
	})
	leads := run(t, newClient(t, middle.url, election.Options{LeaseTTL: ttl}), group(t)).lead()
	if len(middle.of("campaign")) < 2 || len(middle.of("renew")) == 0 {
		t.Errorf("the work started after %d campaigns, without a renewal", len(middle.of("campaign")))
	}
	if leads.lease.Term() != 1 {
		t.Errorf("the client leads in term %d", leads.lease.Term())
	}
}

func TestALateAnswerToACampaignProvesNothingWithoutARenewal(t *testing.T) {
	t.Parallel()
	middle := startProxy(t, sharedService(t))
	const ttl = 4 * time.Second
	middle.setAnswer(func(_ int, request sent) bool {
		if request.action == "campaign" {
			time.Sleep(ttl / 2)
		}
		return true
	})
	run(t, newClient(t, middle.url, election.Options{LeaseTTL: ttl}), group(t)).lead()
	if len(middle.of("renew")) == 0 {
		t.Error("the work started without a renewal")
	}
}

func TestAPromptGrantNeedsNoRenewal(t *testing.T) {
	t.Parallel()
	middle := startProxy(t, sharedService(t))
	run(t, newClient(t, middle.url, election.Options{LeaseTTL: calm}), group(t)).lead()
	if renewals := len(middle.of("renew")); renewals != 0 {
		t.Errorf("the work started after %d renewals", renewals)
	}
}

// expectEnd waits until the lease is no longer held. The lease must end within ttl of lastSent, when the last confirmed
// request was sent.
func expectEnd(t *testing.T, leads leadership, lastSent time.Time, ttl time.Duration) {
	t.Helper()
	eventually(t, "the lease ends", func() bool {
		// Read the clock first, because the test may be paused before it checks the lease.
		at := time.Now()
		held := leads.lease.Held()
		if held && at.Sub(lastSent) > ttl {
			t.Errorf("the lease is held %v after the last confirmed request, but lasts only %v", at.Sub(lastSent), ttl)
		}
		return !held
	})
	receive(t, "end of its context", leads.ctx.Done())
}

func TestALeaderStopsInTimeIfAnswersToItsRenewalsComeLate(t *testing.T) {
	t.Parallel()
	middle := startProxy(t, sharedService(t))
	const ttl = 3 * time.Second
	leads := run(t, newClient(t, middle.url, election.Options{LeaseTTL: ttl, CallTimeout: ttl / 2}), group(t)).lead()
	arrived, late := make(chan time.Time, 100), make(chan struct{})
	middle.setAnswer(func(_ int, request sent) bool {
		if request.action == "renew" {
			arrived <- time.Now()
			<-late
		}
		return true
	})
	// The service extends the lease, but the leader does not learn of it in time and must not rely on it.
	expectEnd(t, leads, receive(t, "renewal", arrived), ttl)
	if cause := context.Cause(leads.ctx); cause != election.ErrExpired {
		t.Errorf("the context ended with %v", cause)
	}
	close(late)
	if leads.lease.Held() {
		t.Error("a late answer made the lease begin again")
	}
}

func TestARenewalCountsFromTheMomentOfSending(t *testing.T) {
	t.Parallel()
	middle := startProxy(t, sharedService(t))
	const ttl = 4 * time.Second
	var arrived atomic.Pointer[time.Time]
	middle.setAnswer(func(_ int, request sent) bool {
		if request.action == "renew" {
			at := time.Now()
			arrived.Store(&at)
			time.Sleep(ttl / 4)
		}
		return true
	})
	leads := run(t, newClient(t, middle.url, election.Options{LeaseTTL: ttl, CallTimeout: ttl / 2}), group(t)).lead()
	before := len(middle.of("renew"))
	eventually(t, "a renewal is confirmed", func() bool {
		// The lease ends at this time or later. It counts from a request that was sent before the last request arrived.
		ends := time.Now().Add(leads.lease.Remaining())
		if last := arrived.Load(); last != nil && ends.Sub(*last) > ttl {
			t.Errorf("the lease ends %v after the last renewal arrived, but lasts only %v", ends.Sub(*last), ttl)
		}
		return t.Failed() || len(middle.of("renew")) >= before+2
	})
}

func TestAStolenLeaseEndsWithTheRefusedRenewal(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	client := newClient(t, address, election.Options{NodeID: "a", LeaseTTL: 3 * time.Second})
	candidate := run(t, client, group(t))
	leads := candidate.lead()
	force := map[string]any{"node_id": "a", "term": leads.lease.Term(), "force": true}
	request(t, http.MethodPost, address+"/v1/groups/"+group(t)+"/resign", force)
	receive(t, "end of leadership", leads.ctx.Done())
	var refused *election.Error
	if cause := context.Cause(leads.ctx); !errors.As(cause, &refused) || refused.Code != election.CodeNotLeader || refused.Status != http.StatusConflict {
		t.Errorf("the context ended with %v", cause)
	}
	if leads.lease.Held() {
		t.Error("the lease is still held")
	}
	if again := candidate.lead(); again.lease.Term() <= leads.lease.Term() {
		t.Errorf("term %d after %d", again.lease.Term(), leads.lease.Term())
	}
}

func TestAPausedLeaderDoesNotWorkInItsOldTerm(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program)
	child.Env = append(os.Environ(), candidateVariable+"="+strings.Join([]string{address, group(t), "2000"}, " "))
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100_000)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	if line := receive(t, "line", lines); !strings.HasPrefix(line, "works ") {
		t.Fatal(line)
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := run(t, newClient(t, address, election.Options{NodeID: "b", LeaseTTL: calm}), group(t)).lead()
	began := time.Now().UnixNano()
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for {
		line := receive(t, "line", lines)
		if line == "ended term 1" {
			break
		}
		at, err := strconv.ParseInt(strings.TrimPrefix(line, "works at "), 10, 64)
		if err != nil {
			t.Fatal(line)
		}
		if at > began {
			t.Errorf("the former leader works %v after another node began to lead", time.Duration(at-began))
		}
	}
	if next.lease.Term() != 2 || !next.lease.Held() {
		t.Errorf("term %d, held %v", next.lease.Term(), next.lease.Held())
	}
}

func TestALeaderOutlivesARestartOfTheServiceThatIsShorterThanItsLease(t *testing.T) {
	t.Parallel()
	service := startOwnService(t)
	// The lease is long, because a restart can be slow on a busy machine.
	client := newClient(t, service.url(), election.Options{LeaseTTL: 30 * time.Second, CallTimeout: time.Second})
	leads := run(t, client, "jobs").lead()
	service.kill()
	service.start()
	before := leads.lease.Remaining()
	eventually(t, "a renewal is confirmed", func() bool { return leads.lease.Remaining() > before })
	if leader, ok, err := client.Leader(context.Background(), "jobs"); !ok || err != nil || leader.Term != leads.lease.Term() || leads.ctx.Err() != nil {
		t.Errorf("leader %+v (%v), error %v, context %v", leader, ok, err, leads.ctx.Err())
	}
}

func TestALeaderStopsWithoutTheServiceAndLeadsAgainWhenItIsBack(t *testing.T) {
	t.Parallel()
	service := startOwnService(t)
	const ttl = 2 * time.Second
	candidate := run(t, newClient(t, service.url(), election.Options{LeaseTTL: ttl}), "jobs")
	leads := candidate.lead()
	service.kill()
	expectEnd(t, leads, time.Now(), ttl)
	if cause := context.Cause(leads.ctx); cause != election.ErrExpired {
		t.Errorf("the context ended with %v", cause)
	}
	service.start()
	if again := candidate.lead(); again.lease.Term() <= leads.lease.Term() || !again.lease.Held() {
		t.Errorf("term %d after %d, held %v", again.lease.Term(), leads.lease.Term(), again.lease.Held())
	}
}

func TestAnotherServiceAtTheSameAddressIsRefused(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	other := startOwnService(t)
	middle := startProxy(t, address)
	candidate := run(t, newClient(t, middle.url, election.Options{LeaseTTL: 2 * time.Second}), group(t))
	leads := candidate.lead()
	middle.leadTo(t, other.url())
	receive(t, "end of leadership", leads.ctx.Done())
	var refused *election.Error
	if err := candidate.end(); !errors.As(err, &refused) || refused.Code != election.CodeWrongCluster {
		t.Errorf("Run returned %v", err)
	}
	if _, ok, err := newClient(t, other.url(), election.Options{}).Leader(context.Background(), group(t)); ok || err != nil {
		t.Errorf("the other service granted a lease: %v", err)
	}
}

func TestACallThatFailsAtOneAddressIsRepeatedAtTheNext(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	middle := startProxy(t, address)
	options := election.Options{LeaseTTL: 3 * time.Second, Replicas: []string{address}}
	client := newClient(t, middle.url, options)
	leads := run(t, client, group(t)).lead()
	// From now on the first address does not answer.
	middle.setAnswer(func(int, sent) bool { return false })
	lost := len(middle.of("renew"))
	eventually(t, "a renewal is lost", func() bool { return len(middle.of("renew")) > lost })
	before := leads.lease.Remaining()
	eventually(t, "another one is confirmed", func() bool { return leads.lease.Remaining() > before || !leads.lease.Held() })
	if !leads.lease.Held() {
		t.Error("the lease was lost although the second address answers")
	}
}

// Answers are lost or late, and leaders are stopped or resign. Even so, no node works in an old term once a newer one has
// begun.
func TestALeaseIsNeverHeldWhenANewerTermHasBegun(t *testing.T) {
	t.Parallel()
	address := sharedService(t)
	const ttl = 500 * time.Millisecond
	var mutex sync.Mutex
	var newest int64
	var looks, changes, lost atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var nodes sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		middle := startProxy(t, address)
		middle.setAnswer(func(int, sent) bool {
			switch rand.IntN(6) {
			case 0:
				lost.Add(1)
				return false
			case 1:
				time.Sleep(rand.N(2 * ttl))
			}
			return true
		})
		client := newClient(t, middle.url, election.Options{NodeID: name, LeaseTTL: ttl})
		work := func(ctx context.Context, lease *election.Lease) error {
			changes.Add(1)
			until := time.Now().Add(rand.N(4 * ttl))
			for time.Now().Before(until) {
				mutex.Lock()
				// Check the lease after recording the newest term, while holding the same lock.
				if lease.Held() {
					looks.Add(1)
					if lease.Term() < newest {
						t.Errorf("term %d is still held after term %d has begun", lease.Term(), newest)
					}
					newest = max(newest, lease.Term())
				}
				mutex.Unlock()
				// This leader ignores its context.
				time.Sleep(time.Millisecond)
			}
			return nil
		}
		nodes.Add(1)
		go func() {
			defer nodes.Done()
			for ctx.Err() == nil {
				_ = client.Run(ctx, group(t), work)
			}
		}()
	}
	eventually(t, "enough changes and losses are observed", func() bool { return changes.Load() >= 12 && lost.Load() >= 10 && looks.Load() >= 1_000 })
	stop()
	nodes.Wait()
}
