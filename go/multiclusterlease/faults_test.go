package multiclusterlease

import (
	"context"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func isRead(request *http.Request) bool { return request.Method == http.MethodGet }

func TestAGrantWhoseAnswerWasLostIsRenewedBeforeItCounts(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	line.lose(isRead)
	if err := lock.Create(ctx, recordOf("a")); err == nil || lock.Held() {
		t.Fatal("a request without an answer was confirmed")
	}
	line.lose(nil)
	first, sent := line.asked()
	if first != "acquire" {
		t.Fatalf("it asked %q", first)
	}
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != "" {
		t.Fatalf("Get returned %+v, %v, and client-go would not call Update", record, err)
	}
	take(ctx, t, lock)
	verbs, requests := line.asked()
	if verbs != "acquire renew" || requests[0].Claim.Attempt != sent[0].Claim.Attempt || requests[1].Claim.Attempt != sent[0].Claim.Attempt {
		t.Errorf("it asked %q with other attempts: %+v", verbs, requests)
	}
	if !lock.Held() || lock.Term() != 1 {
		t.Errorf("held %v in term %d", lock.Held(), lock.Term())
	}
}

func TestARenewalWhoseAnswerWasLostIsAdoptedAndRenewedAgain(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	take(ctx, t, lock)
	line.lose(isRead)
	before := lock.confirmed.sent
	if err := lock.Update(ctx, recordOf("a")); err == nil || lock.confirmed.sent != before {
		t.Fatal("a renewal without an answer was confirmed")
	}
	line.lose(nil)
	line.asked()
	take(ctx, t, lock)
	if verbs, _ := line.asked(); verbs != "renew renew" || lock.Term() != 1 {
		t.Errorf("it asked %q, in term %d", verbs, lock.Term())
	}
}

func TestARequestThatALateWriteHasReplacedIsWrittenAgain(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	// Longer than an answer takes on a busy machine, because a second renewal would succeed in any case.
	lock := line.lock(t, "a", WithConfirmationBound(20*time.Second))
	take(ctx, t, lock)
	take(ctx, t, lock)
	line.asked()
	line.repeatLate()
	if err := lock.Update(ctx, recordOf("a")); err != nil {
		t.Errorf("the renewal gave %v", err)
	}
	if verbs, _ := line.asked(); verbs != "renew" {
		t.Errorf("it asked %q", verbs)
	}
}

func TestAnAttemptIsNeverUsedAgainAfterItsRelease(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	take(ctx, t, lock)
	_, first := line.asked()
	limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	line.lose(isRead)
	err := lock.Update(limited, recordOf(""))
	cancel()
	if err == nil || lock.Held() {
		t.Fatalf("a release without an answer gave %v, and held is %v", err, lock.Held())
	}
	line.lose(nil)
	_, released := line.asked()
	claim := released[0].Claim
	if claim.Attempt != first[0].Claim.Attempt || *claim.Term != 1 || claim.Version == "" {
		t.Errorf("the release names %+v", claim)
	}
	take(ctx, t, lock)
	_, again := line.asked()
	if again[0].Claim.Attempt == first[0].Claim.Attempt || lock.Term() != 2 {
		t.Errorf("term %d with attempt %q", lock.Term(), again[0].Claim.Attempt)
	}
}

func TestAnAnswerThatTookLongerThanTheBoundIsNotCounted(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	fake := newFakeClock()
	start := time.Now()
	lock.clock = func() moment {
		passed := time.Since(start)
		return moment{fake.monotonic.Add(passed), fake.boot + passed}
	}
	slept := false
	line.lose(func(request *http.Request) bool {
		if !slept && isRead(request) {
			// The machine sleeps before the first answer is read.
			fake.sleep(time.Hour)
			slept = true
		}
		return false
	})
	take(ctx, t, lock)
	if verbs, _ := line.asked(); verbs != "acquire renew" || !lock.Held() {
		t.Errorf("it asked %q, held is %v", verbs, lock.Held())
	}
}

func TestABoundShorterThanARelayConfirmsNothing(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a", WithConfirmationBound(time.Millisecond))
	if err := lock.Create(ctx, recordOf("a")); err == nil || lock.Held() {
		t.Errorf("it was confirmed within a millisecond: %v", err)
	}
}

func TestADeniedRequestHasTheReasonForbidden(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	config := rest.CopyConfig(line.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	lock, err := New(config, "default", "forbidden", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(ctx); ReasonOf(err) != ReasonForbidden {
		t.Errorf("Get gave %v", err)
	}
	if err := lock.Update(ctx, recordOf("a")); ReasonOf(err) != ReasonForbidden {
		t.Errorf("Update gave %v", err)
	}
	lock.RecordEvent("became leader")
	if !lock.events.forbidden.Load() {
		t.Error("the Event was not refused")
	}
}

func TestAnAPIServerWithoutTheCRDIsReported(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	client, err := dynamic.NewForConfig(line.config)
	if err != nil {
		t.Fatal(err)
	}
	unknown := schema.GroupVersionResource{Group: "tenure.invalid", Version: "v1alpha1", Resource: "multiclusterleases"}
	lock.resource.api = client.Resource(unknown).Namespace("default")
	if _, _, err := lock.Get(ctx); ReasonOf(err) != ReasonNotInstalled || apierrors.IsNotFound(err) {
		t.Errorf("Get gave %v", err)
	}
	if err := lock.Create(ctx, recordOf("a")); ReasonOf(err) != ReasonNotInstalled {
		t.Errorf("Create gave %v", err)
	}
}

// renewalContext returns a context as client-go passes it while it leads, limited by RenewDeadline.
func renewalContext(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, testLease)
	t.Cleanup(cancel)
	return limited
}

func TestALeaderThatLostItsLeaseIsNotGrantedANewTermInTheSameRun(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	leader := line.lock(t, "a")
	take(ctx, t, leader)
	// The lease ends as if it had expired. Another process then leads and releases it.
	stolen := *leader.grant
	if _, err := leader.releaseGrant(ctx, stolen); err != nil {
		t.Fatal(err)
	}
	other := lineTo(t, "west").lock(t, "b")
	take(ctx, t, other)
	if err := other.Update(ctx, recordOf("")); err != nil {
		t.Fatal(err)
	}
	line.asked()
	for range 2 {
		renewal := renewalContext(ctx, t)
		if err := leader.Update(renewal, recordOf("a")); err == nil || leader.Held() || leader.Term() != 1 {
			t.Fatalf("the renewal gave %v, held is %v in term %d", err, leader.Held(), leader.Term())
		}
		if shown := <-get(renewal, leader); shown != "holder " {
			t.Errorf("the former leader sees %q", shown)
		}
	}
	if verbs, _ := line.asked(); verbs != "renew" {
		t.Errorf("it asked %q", verbs)
	}
	// In its next run the former leader campaigns again.
	if _, _, err := leader.Get(ctx); err != nil {
		t.Fatal(err)
	}
	take(ctx, t, leader)
	if leader.Term() != 3 {
		t.Errorf("term %d", leader.Term())
	}
}

func TestALeaseIsLeftToExpireAfterAFailedRenewal(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	take(ctx, t, lock)
	line.lose(isRead)
	if err := lock.Update(renewalContext(ctx, t), recordOf("a")); err == nil {
		t.Fatal("a renewal without an answer was confirmed")
	}
	line.asked()
	if err := lock.Update(renewalContext(ctx, t), recordOf("")); ReasonOf(err) != ReasonLost || lock.Held() {
		t.Errorf("the release gave %v, and held is %v", err, lock.Held())
	}
	if verbs, _ := line.asked(); verbs != "" {
		t.Errorf("it asked %q while the work was still running", verbs)
	}
	lock.RecordEvent("stopped leading")
	line.lose(nil)
}

func TestALeaseIsReleasedWhenTheProgramCancelsARenewal(t *testing.T) {
	ctx := testContext(t)
	line := lineTo(t, "east")
	lock := line.lock(t, "a")
	take(ctx, t, lock)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := lock.Update(canceled, recordOf("a")); err == nil {
		t.Fatal("a canceled renewal was confirmed")
	}
	if err := lock.Update(renewalContext(ctx, t), recordOf("")); err != nil {
		t.Errorf("the release gave %v", err)
	}
}

func TestALeaseOfAnotherProcessWithTheSameIdentityIsNotShownAsItsOwn(t *testing.T) {
	ctx := testContext(t)
	before := lineTo(t, "east").lock(t, "a")
	take(ctx, t, before)
	again := lineTo(t, "east").lock(t, "a")
	standBy(ctx, t, again, "/a")
}
