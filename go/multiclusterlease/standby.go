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

// A view is the newest lease of another candidate, as it was seen here.
type view struct {
	record *v1alpha1.Record
	// When this version was first seen, and never earlier.
	seenAt moment
	// When it is worth asking for the lease.
	retryAt time.Time
}

// expired returns the version that was seen here for all of its duration.
func (v view) expired(now clock) (string, bool) {
	if v.record == nil || v.record.Released || v.record.LeaseDurationMs <= 0 {
		return "", false
	}
	return v.record.Version, milliseconds(now.waited(v.seenAt)) >= v.record.LeaseDurationMs
}

// look is Get.
func (l *Lock) look(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	// A leader, or one that has just lost the lease, must not wait: its work goes on meanwhile.
	if l.hasLed && l.isOfLeader(ctx) {
		if l.Held() {
			return l.shownAs(l.identity, l.highestTerm)
		}
		return l.shownAs("", l.highestTerm)
	}
	if l.hasLed {
		// A new run of client-go. What the run before it left is released below, once it is seen.
		l.hasLed, l.grant = false, nil
		l.forget()
	}
	// Found, but not confirmed: Update renews it first.
	if l.grant != nil {
		return l.shownAs("", l.grant.term)
	}
	// client-go does not limit a standby's call. On a connection whose peer is gone it would hang for minutes.
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
	// Nothing is known of the global lock before the first answer, and an unknown outcome is resolved by asking again.
	if l.pending != nil || l.lease == 0 {
		return l.current()
	}
	if err := l.waitForChange(ctx, latest.version()); err != nil {
		return nil, nil, err
	}
	return l.current()
}

// current returns what client-go is to see: our own lease, another's, or none, which makes it call Update.
func (l *Lock) current() (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := l.view.record
	isOthers := record != nil && !record.Released
	if l.grant != nil || l.pending != nil || l.lease == 0 || !isOthers {
		l.shown = ""
		return l.shownAs("", l.highestTerm)
	}
	l.shown = holderKey(record)
	if record.Holder == l.identity {
		// Another process with this name, such as the previous run of a container. client-go must not take the lease for
		// its own, so the name is shown in a form that no identity has.
		return l.shownAs("/"+record.Holder, record.Term)
	}
	return l.shownAs(record.Holder, record.Term)
}

// isOfLeader is whether client-go makes this call while it leads or releases. It limits those by RenewDeadline, which is
// less than a lease.
func (l *Lock) isOfLeader(ctx context.Context) bool {
	deadline, isLimited := ctx.Deadline()
	return isLimited && time.Until(deadline) <= 2*l.lease
}

func (l *Lock) shownAs(holder string, term int64) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity: holder,
		// client-go adds one for each change of the holder, as the term does.
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

// waitForChange returns when client-go has something to do: the lease is free or granted to this lock, or another
// candidate holds it than the one that Get returned last.
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
			// Asked for here, and not by Update: after a refusal client-go would sleep, and hear of no release.
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

// see takes note of a resource. What it shows may be of the past: terms only rise.
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

// observe takes note of the global record.
func (l *Lock) observe(record *v1alpha1.Record) {
	// An own grant of unknown outcome is found by repeating the request, which names the term before it.
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
	// A renewal in another cluster shows late. The controller saw it in time, and told when to ask.
	isRenewal := before.record != nil && before.record.Attempt == record.Attempt && !record.Released
	if isRenewal && isElsewhere(record) && before.retryAt.After(now.monotonic) {
		l.view.retryAt = before.retryAt
	}
}

// observeRefusal takes note of why the lease was refused, and of when to ask again.
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

// retryAt is a moment after the lease has expired, not the same for all standbys.
func (l *Lock) retryAt(now moment, afterMs float64) time.Time {
	spread := 1 + rand.Float64()*milliseconds(l.lease)/200
	return now.monotonic.Add(time.Duration((afterMs + spread) * float64(time.Millisecond)))
}

// releaseAbandoned releases a lease that was granted to an attempt of this lock after it was given up.
func (l *Lock) releaseAbandoned(ctx context.Context) error {
	record := l.view.record
	if record == nil || record.Released || l.lease == 0 || !slices.Contains(l.attempts, record.Attempt) {
		return nil
	}
	if record.Mark == "" || !slices.Contains(l.marks, record.Mark) {
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
