package multiclusterlease

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

const (
	shortestBound = 500 * time.Millisecond
	// How many requests one call sends before it leaves the next one to client-go's retry loop.
	mostRequests = 4
	// How long one try to release may take. A relay that is too slow to confirm can still release.
	releaseTimeout = 3 * time.Second
	releaseTries   = 3
	// How many attempts and write ids are remembered.
	mostAttempts = 8
	mostWriteIDs = 64
)

// A campaign is the state that a lock keeps between its calls. Only the running call accesses it.
type campaign struct {
	// The duration that client-go reported, or 0 before the first Update.
	lease time.Duration
	// The highest term that was seen. No request names a lower one.
	highestTerm int64
	// An acquire whose outcome is unknown.
	pending *attempt
	// The lease that this lock believes it holds. It counts only while it is confirmed.
	grant *grant
	// The lock's own attempts, and the write ids that were sent with them. A record with another write id was written
	// by a clone.
	attempts []string
	writeIDs []string
	view     view
	latest   *snapshot
	// The holder that Get returned last.
	shown string
	// Whether this lock has led in the current run of client-go.
	hasLed bool
}

type attempt struct {
	id        string
	afterTerm int64
}

type grant struct {
	attempt string
	term    int64
	version string
}

// leaseOf returns the LeaseDuration of client-go. It refuses one that client-go has truncated to whole seconds.
func (l *Lock) leaseOf(ctx context.Context, record resourcelock.LeaderElectionRecord) (time.Duration, error) {
	lease := l.exactLease
	if lease == 0 {
		lease = time.Duration(record.LeaseDurationSeconds) * time.Second
	}
	deadline, isLimited := ctx.Deadline()
	// RenewDeadline is always less than LeaseDuration.
	isShortened := l.exactLease == 0 && l.hasLed && isLimited && time.Until(deadline) > lease
	if lease < time.Millisecond || isShortened {
		return 0, failure(ReasonTimings, "client-go reports a LeaseDuration of %d s. Set one of whole seconds, or pass WithLeaseDuration to the lock", record.LeaseDurationSeconds)
	}
	l.lease = lease
	return lease, nil
}

func (l *Lock) boundOf(lease time.Duration) time.Duration {
	if l.bound > 0 {
		return l.bound
	}
	return max(shortestBound, lease/10)
}

// hold acquires or renews until a confirmation arrives in time.
//
// A leader never acquires. A new term within one leadership would put a new fencing token on work that started under
// the old one, although another candidate led in between. Nor does a leader renew after its belief has ended.
func (l *Lock) hold(ctx context.Context, lease time.Duration) error {
	if l.hasLed && (l.grant == nil || !l.Held()) {
		l.grant = nil
		l.forget()
		return failure(ReasonLost, "%q no longer holds the lease", l.identity)
	}
	bound := l.boundOf(lease)
	var took time.Duration
	for range mostRequests {
		answer, sent, isFirst, err := l.claim(ctx, lease, bound)
		if err != nil {
			return err
		}
		if !answer.OK {
			mayAcquire := !l.hasLed && l.isOpen(answer)
			if l.grant != nil || mayAcquire {
				continue
			}
			return l.refusal(answer)
		}
		// Other candidates wait for the duration in the record, so the lease must cover the whole time during which
		// client-go believes that it leads.
		spare := time.Duration(min(*answer.ValidForMs, answer.Record.LeaseDurationMs)*float64(time.Millisecond)) - lease
		took = l.clock.elapsed(sent)
		if isFirst && took <= min(bound, spare) {
			l.confirm(l.grant.term, sent, lease)
			l.hasLed = true
			return nil
		}
	}
	return failure(ReasonNotConfirmed, "%s was not confirmed within the bound of %v; the last answer took %v. Set WithConfirmationBound to more than a relay takes, or a longer lease", l.resource, bound, took)
}

// claim renews the held lease, or acquires one. isFirst is whether the answer is certain to be for this request, and
// not for an earlier one.
func (l *Lock) claim(ctx context.Context, lease, bound time.Duration) (answer *v1alpha1.Answer, sent moment, isFirst bool, err error) {
	if l.grant != nil {
		answer, sent, err = l.renew(ctx, lease, bound)
		return answer, sent, true, err
	}
	return l.acquire(ctx, lease, bound)
}

// acquire requests the lease. A request whose outcome is unknown is repeated unchanged, with the same attempt.
func (l *Lock) acquire(ctx context.Context, lease, bound time.Duration) (answer *v1alpha1.Answer, sent moment, isFirst bool, err error) {
	// The attempt is abandoned, because another candidate has led since. If it is granted anyway, the grant is released
	// when it is seen.
	if l.pending != nil && l.pending.afterTerm != l.highestTerm {
		l.pending = nil
	}
	isFirst = l.pending == nil
	if isFirst {
		l.pending = &attempt{randomID(), l.highestTerm}
		l.attempts = remember(l.attempts, l.pending.id, mostAttempts)
	}
	asked := *l.pending
	claim := map[string]any{
		"attempt": asked.id, "leaseDurationMs": milliseconds(lease + bound), "afterTerm": asked.afterTerm,
		"metadata": l.metadata,
	}
	if version, expired := l.view.expired(l.clock); expired {
		claim["expiredVersion"] = version
	}
	answer, sent, err = l.ask(ctx, v1alpha1.VerbAcquire, claim, bound)
	if err != nil {
		return nil, sent, false, err
	}
	l.pending = nil
	if !answer.OK {
		l.observeRefusal(answer)
		return answer, sent, false, nil
	}
	record := answer.Record
	if err := l.check(answer, asked.id); err != nil {
		return nil, sent, false, err
	}
	if record.Term <= asked.afterTerm || record.Released {
		return nil, sent, false, failure(ReasonInvalidRecord, "the global lock granted term %d, which is not above the term %d seen before", record.Term, asked.afterTerm)
	}
	l.take(record)
	return answer, sent, isFirst, nil
}

func (l *Lock) renew(ctx context.Context, lease, bound time.Duration) (*v1alpha1.Answer, moment, error) {
	held := *l.grant
	answer, sent, err := l.ask(ctx, v1alpha1.VerbRenew, held.claim(lease+bound), bound)
	if err != nil {
		return nil, sent, err
	}
	if answer.OK {
		if err := l.check(answer, held.attempt); err != nil {
			return nil, sent, err
		}
		if answer.Record.Term != held.term || answer.Record.Released {
			return nil, sent, failure(ReasonInvalidRecord, "the renewal of term %d shows term %d", held.term, answer.Record.Term)
		}
		l.take(answer.Record)
		return answer, sent, nil
	}
	return answer, sent, l.adopt(answer, held)
}

// adopt takes the version from a refusal that shows this lock's own lease, because an earlier renewal was applied. Any
// other refusal means that the lease is lost.
func (l *Lock) adopt(answer *v1alpha1.Answer, held grant) error {
	record := answer.Record
	isOwn := record != nil && record.Attempt == held.attempt && record.Term == held.term && !record.Released
	if isOwn && l.hasWriteID(record) {
		l.take(record)
		return nil
	}
	l.grant = nil
	l.forget()
	l.observeRefusal(answer)
	if isOwn {
		return l.disown(record)
	}
	return nil
}

func (l *Lock) take(record *v1alpha1.Record) {
	l.grant = &grant{record.Attempt, record.Term, record.Version}
	l.highestTerm = max(l.highestTerm, record.Term)
	l.view = view{}
}

// release first ends the belief, and then the lease. If the lease could not be released, it is released later, when it
// is seen again.
func (l *Lock) release(ctx context.Context) error {
	l.forget()
	held := l.grant
	// The attempt is never used again, so that a late request with it is not granted under a new term.
	l.grant, l.pending, l.hasLed = nil, nil, false
	if held == nil {
		return nil
	}
	// client-go also releases after a failed renewal, and cancels the work only afterwards. A release would let another
	// candidate lead while that work runs, and waiting for it would let the work continue past the lease.
	if l.isLosing() {
		return failure(ReasonLost, "the lease of %q is left to expire, because its last renewal was not confirmed and client-go has not stopped the work yet", l.identity)
	}
	_, err := l.releaseGrant(ctx, *held)
	return err
}

func (l *Lock) releaseGrant(ctx context.Context, held grant) (*v1alpha1.Answer, error) {
	lasts := l.lease + l.boundOf(l.lease)
	var answer *v1alpha1.Answer
	var err error
	for range releaseTries {
		answer, _, err = l.ask(ctx, v1alpha1.VerbRelease, held.claim(lasts), releaseTimeout)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			continue
		}
		record := answer.Record
		if record != nil {
			l.observe(record)
		}
		isOwn := record != nil && record.Attempt == held.attempt && record.Term == held.term && !record.Released
		if answer.OK || !isOwn || !l.hasWriteID(record) {
			return answer, nil
		}
		held.version = record.Version
	}
	if err == nil && ctx.Err() == nil {
		err = failure(ReasonNotConfirmed, "the release of term %d was not confirmed", held.term)
	}
	return answer, err
}

// check refuses a grant that was not requested.
func (l *Lock) check(answer *v1alpha1.Answer, attempt string) error {
	record := answer.Record
	if record == nil || answer.ValidForMs == nil || record.Version == "" || record.Holder != l.identity || record.Attempt != attempt {
		return failure(ReasonInvalidRecord, "an answer in %s shows a grant that was not asked for", l.resource)
	}
	if !l.hasWriteID(record) {
		l.grant = nil
		l.forget()
		return l.disown(record)
	}
	return nil
}

// disown drops a lease that a clone of this process has renewed, because the lease now belongs to the clone.
func (l *Lock) disown(record *v1alpha1.Record) error {
	l.attempts = slices.DeleteFunc(l.attempts, func(id string) bool { return id == record.Attempt })
	return failure(ReasonCloned, "another process renews the lease that %q was granted in term %d: a copy of this process, or the global lock lost its newest writes", l.identity, record.Term)
}

// isOpen reports whether another request could be granted at once after this refusal.
func (l *Lock) isOpen(answer *v1alpha1.Answer) bool {
	if answer.Record != nil && answer.Record.Released {
		return true
	}
	return answer.RetryAfterMs != nil && *answer.RetryAfterMs == 0
}

func (l *Lock) refusal(answer *v1alpha1.Answer) error {
	if record := answer.Record; record != nil {
		return failure(ReasonRefused, "%q holds the lease in term %d", record.Holder, record.Term)
	}
	return failure(ReasonRefused, "the lease of term %d may still be held, though its record is gone", l.highestTerm)
}

func (l *Lock) noteWriteID(writeID string) { l.writeIDs = remember(l.writeIDs, writeID, mostWriteIDs) }

// hasWriteID reports whether a request of this lock wrote the record of one of its own attempts.
func (l *Lock) hasWriteID(record *v1alpha1.Record) bool {
	return record.WriteID == "" || slices.Contains(l.writeIDs, record.WriteID)
}

func (g grant) claim(lasts time.Duration) map[string]any {
	return map[string]any{
		"attempt": g.attempt, "term": g.term, "version": g.version, "leaseDurationMs": milliseconds(lasts),
	}
}

func remember(list []string, one string, most int) []string {
	list = append(list, one)
	return list[max(0, len(list)-most):]
}
