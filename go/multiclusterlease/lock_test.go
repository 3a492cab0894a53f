package multiclusterlease

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

func TestNewRefusesInvalidArguments(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	for name, make := range map[string]func() (*Lock, error){
		"no config":           func() (*Lock, error) { return New(nil, "n", "l", "a") },
		"no namespace":        func() (*Lock, error) { return New(config, "", "l", "a") },
		"no name":             func() (*Lock, error) { return New(config, "n", "", "a") },
		"no identity":         func() (*Lock, error) { return New(config, "n", "l", "") },
		"a slash":             func() (*Lock, error) { return New(config, "n", "l", "east/a") },
		"a control character": func() (*Lock, error) { return New(config, "n", "l", "a\n") },
		"a long identity":     func() (*Lock, error) { return New(config, "n", "l", strings.Repeat("a", 191)) },
		"a bound of zero":     func() (*Lock, error) { return New(config, "n", "l", "a", WithConfirmationBound(0)) },
		"a lease of zero":     func() (*Lock, error) { return New(config, "n", "l", "a", WithLeaseDuration(0)) },
		"long metadata":       func() (*Lock, error) { return New(config, "n", "l", "a", WithMetadata(strings.Repeat("a", 4097))) },
	} {
		if lock, err := make(); err == nil || lock != nil {
			t.Errorf("%s is not refused", name)
		}
	}
}

func TestTheLockHasItsOwnConnections(t *testing.T) {
	given := &rest.Config{Host: "https://127.0.0.1:1", UserAgent: "mine", QPS: 1, Timeout: time.Second}
	own := ownConfig(given)
	if own.UserAgent != "mine tenure-go/devel" || own.QPS != -1 || own.Timeout != 0 || own.NextProtos[0] != "http/1.1" {
		t.Errorf("unexpected config %+v", own)
	}
	if given.UserAgent != "mine" || given.QPS != 1 || given.Timeout != time.Second || len(given.NextProtos) != 0 {
		t.Error("the caller's config was changed")
	}
}

// A fakeClock is set by tests.
type fakeClock struct{ moment }

func newFakeClock() *fakeClock { return &fakeClock{moment{time.Now(), time.Hour}} }

func (f *fakeClock) now() moment { return f.moment }

func (f *fakeClock) advance(by time.Duration) {
	f.monotonic = f.monotonic.Add(by)
	f.boot += by
}

// sleep advances only the clock that counts sleep.
func (f *fakeClock) sleep(by time.Duration) { f.boot += by }

func TestSleepUsesUpALeaseAndDoesNotShortenAWait(t *testing.T) {
	fake := newFakeClock()
	clock := clock(fake.now)
	since := fake.now()
	fake.advance(2 * time.Second)
	fake.sleep(time.Minute)
	if elapsed := clock.elapsed(since); elapsed != 62*time.Second {
		t.Errorf("a holder counts %v", elapsed)
	}
	if waited := clock.waited(since); waited != 2*time.Second {
		t.Errorf("a standby counts %v", waited)
	}
}

func TestHeldEndsByTheClockAloneAndTheTermStays(t *testing.T) {
	fake := newFakeClock()
	lock := &Lock{clock: fake.now}
	if lock.Held() || lock.Term() != 0 {
		t.Error("a new lock holds something")
	}
	lock.confirm(7, fake.now(), 15*time.Second)
	fake.advance(15*time.Second - 1)
	if !lock.Held() || lock.Term() != 7 {
		t.Error("the lease is lost before its end")
	}
	fake.sleep(1)
	if lock.Held() {
		t.Error("the lease is held after its end, which came during sleep")
	}
	lock.confirm(8, fake.now(), 15*time.Second)
	lock.forget()
	if lock.Held() || lock.Term() != 8 {
		t.Error("a belief that ended is still held, or its term is unknown")
	}
}

func TestAVersionHasExpiredOnlyAfterItsWholeDurationWasSeen(t *testing.T) {
	fake := newFakeClock()
	lock := &Lock{clock: fake.now}
	record := &v1alpha1.Record{Holder: "west/b", Attempt: "x", Term: 3, LeaseDurationMs: 1000, Version: "1"}
	lock.observe(record)
	fake.advance(time.Second - 1)
	fake.sleep(time.Hour)
	if _, expired := lock.view.expired(fake.now); expired {
		t.Error("sleep counts as observation")
	}
	fake.advance(1)
	if version, expired := lock.view.expired(fake.now); !expired || version != "1" {
		t.Error("the version has not expired after its duration")
	}
	renewed := *record
	renewed.Version = "2"
	lock.observe(&renewed)
	if _, expired := lock.view.expired(fake.now); expired {
		t.Error("a new version begins expired")
	}
	if lock.highestTerm != 3 {
		t.Errorf("the highest term is %d", lock.highestTerm)
	}
}

func TestALateRenewalInAnotherClusterKeepsTheMomentToAskAgain(t *testing.T) {
	for name, passed := range map[string]time.Duration{"before that moment": time.Second, "after that moment": 4 * time.Second} {
		fake := newFakeClock()
		lock := &Lock{clock: fake.now, campaign: campaign{lease: 15 * time.Second}}
		record := v1alpha1.Record{Holder: "west/b", Attempt: "x", Term: 3, LeaseDurationMs: 15_000, Version: "1"}
		retryAfterMs := 2_000.0
		lock.observeRefusal(&v1alpha1.Answer{Record: &record, RetryAfterMs: &retryAfterMs})
		advised := lock.view.retryAt
		fake.advance(passed)
		renewed := record
		renewed.Version = "2"
		lock.observe(&renewed)
		if !lock.view.retryAt.Equal(advised) {
			t.Errorf("a renewal that is seen %s delays the next request by %v", name, lock.view.retryAt.Sub(advised))
		}
		if _, expired := lock.view.expired(fake.now); expired {
			t.Errorf("a renewal that is seen %s begins expired", name)
		}
	}
}

func TestAMalformedPartOfAResourceHidesNothingElse(t *testing.T) {
	seen := newSnapshot(&unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"renewTime": "yesterday", "requests": map[string]any{"old": map[string]any{"id": int64(5)}}},
		"status": map[string]any{
			"record":     map[string]any{"term": "many"},
			"silent":     []any{"old", "gone", "own"},
			"conditions": []any{"none", map[string]any{"type": "BackendHealthy", "status": "False", "reason": "Timeout", "message": "m"}},
			"answers": map[string]any{
				"broken": map[string]any{"id": "1", "ok": "perhaps"},
				"own":    map[string]any{"id": "2", "ok": true},
			},
		},
	}})
	if seen.record() != nil || seen.answer("broken", "1") != nil || seen.answer("own", "1") != nil {
		t.Error("something malformed, or the answer to another request, is believed")
	}
	if answer := seen.answer("own", "2"); answer == nil || !answer.OK {
		t.Error("the answer is not found")
	}
	if silent := seen.silent("own"); len(silent) != 1 || silent[0] != "old" {
		t.Errorf("the silent keys are %v", silent)
	}
	if why := seen.failing("BackendHealthy"); why != "Timeout: m" {
		t.Errorf("the condition says %q", why)
	}
}

func TestErrorsOfTheAPIServerSayWhatToDo(t *testing.T) {
	one := &resource{namespace: "jobs", name: "report"}
	status := func(code int32, reason metav1.StatusReason, name string) error {
		details := &metav1.StatusDetails{Name: name}
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Details: details}}
	}
	missing := one.explain("get", status(http.StatusNotFound, metav1.StatusReasonNotFound, "report"))
	if !apierrors.IsNotFound(missing) {
		t.Errorf("a missing resource gives %v", missing)
	}
	unknown := one.explain("get", status(http.StatusNotFound, metav1.StatusReasonNotFound, ""))
	if ReasonOf(unknown) != ReasonNotInstalled || apierrors.IsNotFound(unknown) {
		t.Errorf("an unknown kind gives %v", unknown)
	}
	forbidden := one.explain("patch", status(http.StatusForbidden, metav1.StatusReasonForbidden, "report"))
	if ReasonOf(forbidden) != ReasonForbidden || !strings.Contains(forbidden.Error(), "right to patch multiclusterleases") {
		t.Errorf("a missing right gives %v", forbidden)
	}
	if refused := one.explain("get", errors.New("connection refused")); ReasonOf(refused) != ReasonUnreachable {
		t.Errorf("a dead server gives %v", refused)
	}
	if ended := one.explain("get", context.Canceled); ended != context.Canceled {
		t.Errorf("a context that ended gives %v", ended)
	}
	if ReasonOf(errors.New("any")) != "" {
		t.Error("another error has a reason")
	}
}

func TestALockWithoutAnAnswerSaysWhy(t *testing.T) {
	statusOf := func(status map[string]any) *snapshot {
		return newSnapshot(&unstructured.Unstructured{Object: map[string]any{"status": status}})
	}
	down := map[string]any{"type": "BackendHealthy", "status": "False", "reason": "Timeout", "message": "m"}
	for want, status := range map[Reason]map[string]any{
		ReasonNoController: {},
		ReasonNotConfirmed: {"observedGeneration": int64(1)},
		ReasonBackendDown:  {"observedGeneration": int64(1), "conditions": []any{down}},
	} {
		lock := &Lock{resource: &resource{namespace: "jobs", name: "report"}, clock: systemClock}
		lock.latest = statusOf(status)
		err := lock.unanswered(context.Background(), context.DeadlineExceeded, time.Second)
		if ReasonOf(err) != want {
			t.Errorf("%v gives %v, not %s", status, err, want)
		}
	}
}
