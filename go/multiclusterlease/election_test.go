package multiclusterlease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/leaderelection"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get calls Get in the background and delivers its result.
func get(ctx context.Context, lock *Lock) <-chan string {
	result := make(chan string, 1)
	go func() {
		record, _, err := lock.Get(ctx)
		if err != nil {
			result <- err.Error()
			return
		}
		result <- "holder " + record.HolderIdentity
	}()
	return result
}

// standBy turns a lock into a standby that has seen the holder.
func standBy(ctx context.Context, t *testing.T, lock *Lock, holder string) {
	t.Helper()
	if err := lock.Update(ctx, recordOf(lock.Identity())); ReasonOf(err) != ReasonRefused {
		t.Fatalf("a second candidate got %v", err)
	}
	if shown := <-get(ctx, lock); shown != "holder "+holder {
		t.Fatalf("the standby sees %q", shown)
	}
}

func TestAStandbyIsWokenByTheReleaseInAnotherCluster(t *testing.T) {
	ctx := testContext(t)
	leader := lineTo(t, "east").lock(t, "a")
	standby := lineTo(t, "west").lock(t, "a")
	if _, _, err := leader.Get(ctx); !apierrors.IsNotFound(err) {
		t.Fatalf("a missing resource gave %v", err)
	}
	take(ctx, t, leader)
	standBy(ctx, t, standby, "east/a")
	shown := get(ctx, standby)
	// The standby must wait for as long as the leader renews.
	for range 3 {
		take(ctx, t, leader)
		select {
		case early := <-shown:
			t.Fatalf("the standby was woken by a renewal, and saw %q", early)
		case <-time.After(testLease / 3):
		}
	}
	if err := leader.Update(ctx, recordOf("")); err != nil {
		t.Fatal(err)
	}
	if woken := <-shown; woken != "holder " {
		t.Fatalf("the standby sees %q", woken)
	}
	take(ctx, t, standby)
	if standby.Term() != 2 || !standby.Held() || leader.Held() {
		t.Errorf("term %d, held %v and %v", standby.Term(), standby.Held(), leader.Held())
	}
}

func TestAStandbyLeadsWhenTheLeaseOfADeadLeaderExpires(t *testing.T) {
	ctx := testContext(t)
	leader := lineTo(t, "east").lock(t, "a", WithConfirmationBound(500*time.Millisecond))
	standby := lineTo(t, "east").lock(t, "b")
	take(ctx, t, leader)
	standBy(ctx, t, standby, "a")
	if woken := <-get(ctx, standby); woken != "holder " {
		t.Fatalf("the standby sees %q", woken)
	}
	if leader.Held() {
		t.Error("the standby was granted the lease while the leader held it")
	}
	take(ctx, t, standby)
	if standby.Term() != 2 {
		t.Errorf("term %d", standby.Term())
	}
	// The former leader learns that it lost the lease. Its Get, which client-go limits, does not wait for the new leader.
	limited, cancel := context.WithTimeout(ctx, testLease)
	defer cancel()
	if err := leader.Update(limited, recordOf("a")); ReasonOf(err) != ReasonLost {
		t.Errorf("the former leader got %v", err)
	}
	if shown := <-get(limited, leader); shown != "holder " {
		t.Errorf("the former leader sees %q", shown)
	}
	// In its next run the former leader is a standby.
	if shown := <-get(ctx, leader); shown != "holder b" {
		t.Errorf("the former leader sees %q in its next run", shown)
	}
}

func TestGetEndsWithItsContext(t *testing.T) {
	ctx := testContext(t)
	leader := lineTo(t, "east").lock(t, "a")
	standby := lineTo(t, "east").lock(t, "b")
	take(ctx, t, leader)
	standBy(ctx, t, standby, "a")
	ended, cancel := context.WithCancel(ctx)
	shown := get(ended, standby)
	time.Sleep(100 * time.Millisecond)
	cancel()
	if got := <-shown; got != context.Canceled.Error() {
		t.Errorf("Get gave %q", got)
	}
}

func TestAResourceThatIsDeletedIsCreatedAgain(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	take(ctx, t, lock)
	client, err := dynamic.NewForConfig(line.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Resource(v1alpha1.Resource).Namespace("default").Delete(ctx, lock.resource.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	take(ctx, t, lock)
	if lock.Term() != 1 {
		t.Errorf("the term rose to %d, although the lease was never lost", lock.Term())
	}
}

func TestRecordEventWritesAnEvent(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	lock.RecordEvent("became leader")
	client, err := dynamic.NewForConfig(line.config)
	if err != nil {
		t.Fatal(err)
	}
	events := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace("default")
	list, err := events.List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + lock.resource.name})
	if err != nil || len(list.Items) != 1 || list.Items[0].Object["message"] != "a became leader" {
		t.Errorf("the Events are %v, %v", list, err)
	}
}

func TestLeaderElectionOfClientGoHandsOverBetweenClusters(t *testing.T) {
	ctx := testContext(t)
	type started struct{ who *Lock }
	leading := make(chan started)
	var mutex sync.Mutex
	var leaders []string
	run := func(lock *Lock) (stop func()) {
		own, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: testLease, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- started{lock} },
				OnStoppedLeading: func() {},
				OnNewLeader: func(identity string) {
					mutex.Lock()
					defer mutex.Unlock()
					leaders = append(leaders, lock.Identity()+" sees "+identity)
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(done)
			elector.Run(own)
		}()
		return func() {
			cancel()
			<-done
		}
	}
	locks := []*Lock{lineTo(t, "east").lock(t, "a"), lineTo(t, "east").lock(t, "b"), lineTo(t, "west").lock(t, "c")}
	stops := map[*Lock]func(){}
	for _, lock := range locks {
		stops[lock] = run(lock)
	}
	for term := int64(1); term <= 3; term++ {
		var now started
		select {
		case now = <-leading:
		case <-ctx.Done():
			t.Fatal(errors.New("nobody leads"))
		}
		if now.who.Term() != term || !now.who.Held() {
			t.Errorf("%s leads in term %d, not %d", now.who.Identity(), now.who.Term(), term)
		}
		stops[now.who]()
		if now.who.Held() {
			t.Errorf("%s holds the lease after its release", now.who.Identity())
		}
	}
	mutex.Lock()
	defer mutex.Unlock()
	if len(leaders) < 3 {
		t.Errorf("too few new leaders were seen: %v", leaders)
	}
}
