package multiclusterlease

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

// A view is the newest lease of another candidate, as observed by this lock.
type view struct {
	record *v1alpha1.Record
	// When this version was first seen. It may be a later time, but never an earlier one.
	seenAt moment
	// When to request the lease.
	retryAt time.Time
}

// expired returns the version that was observed here for its whole duration.
func (v view) expired(now clock) (string, bool) {
	if v.record == nil || v.record.Released || v.record.LeaseDurationMs <= 0 {
		return "", false
	}
	return v.record.Version, milliseconds(now.waited(v.seenAt)) >= v.record.LeaseDurationMs
}

// look implements Get.
func (l *Lock) look(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	// A leader, or a candidate that has just lost the lease, must not wait, because its work is still running.
	if l.hasLed && l.isOfLeader(ctx) {
		if l.Held() {
			return l.shownAs(l.identity, l.highestTerm)
		}
		return l.shownAs("", l.highestTerm)
	}
	if l.hasLed {
		// This is a new run of client-go. The lease of the previous run is released below, once it is seen.
		l.hasLed, l.grant = false, nil
		l.forget()
	}
	// The lease was found but is not confirmed. Update renews it first.
	if l.grant != nil {
		return l.shownAs("", l.grant.term)
	}
	// client-go sets no deadline for a standby's call. On a connection whose peer is gone, it would hang for minutes.
	limited, cancel := context.WithTimeout(ctx, longestPause)
	latest, err := l.resource.get(limited)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	l.see(latest)
	if err := l.releaseAbandoned(ctx); err != nil {
		return nil, nil, err
	}
	// Before the first answer, nothing is known about the global lock. A request whose outcome is unknown is repeated.
	if l.pending != nil || l.lease == 0 {
		return l.current()
	}
	if err := l.waitForChange(ctx, latest.version()); err != nil {
		return nil, nil, err
	}
	return l.current()
}

// current returns the record for client-go: this lock's own lease, another's, or none, which makes client-go call
// Update.
func (l *Lock) current() (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := l.view.record
	isOthers := record != nil && !record.Released
	if l.grant != nil || l.pending != nil || l.lease == 0 || !isOthers {
		l.shown = ""
		return l.shownAs("", l.highestTerm)
	}
	l.shown = holderKey(record)
	if record.Holder == l.identity {
		// The holder is another process with the same name, such as the previous run of a container. client-go must not
		// mistake the lease for its own, so the name is shown in a form that no identity has.
		return l.shownAs("/"+record.Holder, record.Term)
	}
	return l.shownAs(record.Holder, record.Term)
}

// isOfLeader reports whether client-go makes this call while it leads or releases. client-go limits such calls by
// RenewDeadline, which is less than a lease.
func (l *Lock) isOfLeader(ctx context.Context) bool {
	deadline, isLimited := ctx.Deadline()
	return isLimited && time.Until(deadline) <= 2*l.lease
}

func (l *Lock) shownAs(holder string, term int64) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity: holder,
		// client-go adds one for each change of the holder. The term does the same.
		LeaderTransitions: int(max(0, term-1)),
	}
	if seen := l.view.record; seen != nil {
		record.LeaseDurationSeconds = int(math.Ceil(seen.LeaseDurationMs / 1000))
		record.AcquireTime = metav1.NewTime(time.UnixMilli(int64(seen.AcquiredAt)))
		record.RenewTime = metav1.NewTime(time.UnixMilli(int64(seen.RenewedAt)))
	} else {
		record.LeaseDurationSeconds = int(math.Ceil(l.lease.Seconds()))
	}
	raw, err := json.Marshal(record)
	return record, raw, err
}

// waitForChange returns when client-go must act: the lease is free or granted to this lock, or its holder is not the
// one that Get returned last.
func (l *Lock) waitForChange(ctx context.Context, from string) error {
	changes := l.follow(ctx, from)
	defer changes.stop()
	for !l.hasChanged() {
		timer := time.NewTimer(time.Until(l.view.retryAt))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case latest := <-changes.seen:
			timer.Stop()
			if latest == nil {
				return apierrors.NewNotFound(v1alpha1.Resource.GroupResource(), l.resource.name)
			}
			l.see(latest)
			if err := l.releaseAbandoned(ctx); err != nil {
				return err
			}
		case <-timer.C:
			// The lease is requested here and not by Update, because client-go would sleep after a refusal and miss a
			// release.
			answer, _, _, err := l.acquire(ctx, l.lease, l.boundOf(l.lease))
			if err != nil {
				return err
			}
			if !answer.OK && l.isOpen(answer) {
				return nil
			}
		}
	}
	return nil
}

func (l *Lock) hasChanged() bool {
	record := l.view.record
	return l.grant != nil || record == nil || record.Released || holderKey(record) != l.shown
}

func holderKey(record *v1alpha1.Record) string {
	return record.Holder + "\n" + record.Attempt
}

// see records a resource. It may be outdated, so terms only rise.
func (l *Lock) see(latest *snapshot) {
	l.latest = latest
	record := latest.record()
	if record == nil {
		if l.pending == nil {
			l.highestTerm = max(l.highestTerm, latest.term())
		}
		return
	}
	isOld := l.view.record != nil && l.view.record.Term == record.Term && l.view.record.Released
	if record.Term >= l.highestTerm && !isOld {
		l.observe(record)
	}
}

// observe records the global record.
func (l *Lock) observe(record *v1alpha1.Record) {
	// A grant to this lock whose outcome is unknown is found by repeating the request, which names the term before it.
	if l.pending != nil && record.Attempt == l.pending.id {
		return
	}
	l.highestTerm = max(l.highestTerm, record.Term)
	before := l.view
	if before.record != nil && before.record.Version == record.Version && before.record.Released == record.Released {
		return
	}
	now := l.clock()
	l.view = view{record, now, l.retryAt(now, record.LeaseDurationMs)}
	// A renewal in another cluster arrives late. The controller saw it in time, and said when to ask again. That moment
	// may have passed while client-go slept. The lock then asks at once, instead of waiting for a whole lease again.
	isRenewal := before.record != nil && before.record.Attempt == record.Attempt && !record.Released
	if isRenewal && isElsewhere(record) {
		l.view.retryAt = before.retryAt
	}
}

// observeRefusal records why the lease was refused, and when to ask again.
func (l *Lock) observeRefusal(answer *v1alpha1.Answer) {
	if answer.HighestTerm != nil {
		l.highestTerm = max(l.highestTerm, *answer.HighestTerm)
	}
	if answer.Record == nil {
		l.view = view{}
		return
	}
	l.observe(answer.Record)
	if answer.RetryAfterMs != nil {
		l.view.retryAt = l.retryAt(l.clock(), *answer.RetryAfterMs)
	} else if !l.view.retryAt.After(time.Now()) {
		l.view.retryAt = l.retryAt(l.clock(), answer.Record.LeaseDurationMs)
	}
}

// retryAt returns a moment after the lease has expired, with jitter, so that standbys do not all ask at once.
func (l *Lock) retryAt(now moment, afterMs float64) time.Time {
	spread := 1 + rand.Float64()*milliseconds(l.lease)/200
	return now.monotonic.Add(time.Duration((afterMs + spread) * float64(time.Millisecond)))
}

// releaseAbandoned releases a lease that was granted to an abandoned attempt of this lock.
func (l *Lock) releaseAbandoned(ctx context.Context) error {
	record := l.view.record
	if record == nil || record.Released || l.lease == 0 || !slices.Contains(l.attempts, record.Attempt) {
		return nil
	}
	if record.WriteID == "" || !slices.Contains(l.writeIDs, record.WriteID) {
		return nil
	}
	_, err := l.releaseGrant(ctx, grant{record.Attempt, record.Term, record.Version})
	return err
}

func isElsewhere(record *v1alpha1.Record) bool {
	for _, letter := range record.Holder {
		if letter == '/' {
			return true
		}
	}
	return false
}
