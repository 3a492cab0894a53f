// Package multiclusterlease is a lock for client-go's leader election that elects one leader among the pods of many
// clusters. It works with leaderelection.LeaderElectionConfig and the manager of controller-runtime. The lock talks only
// to the API server of its own cluster. A controller there carries out its requests on the global lock.
//
// # Why beliefs never overlap
//
//  1. Every request has a new random id. Only an answer with that id counts, so nothing that was written, cached or
//     restored before the request can confirm anything.
//  2. The lock requests a lease of LeaseDuration + bound. The global lock writes it after the request was sent, and from
//     that write on every other candidate waits for LeaseDuration + bound.
//  3. Update returns nil only if at most the bound has passed since the request was sent, by a clock that also counts
//     sleep.
//  4. client-go believes for at most RetryPeriod + RenewDeadline after Update returned nil, because after a failed renewal
//     the lock neither releases nor waits: client-go would cancel the work only afterwards. That time must not exceed
//     LeaseDuration. So its belief ends by sent + bound + LeaseDuration, before anyone else can be granted the lease.
//  5. A grant counts only from the one request that asked for it. A grant that a repeated request finds may be older,
//     so it is renewed first, and the renewal counts from its own sending.
//  6. A refused renewal that shows the lock's own attempt means that an earlier renewal was applied. The lock adopts its
//     version and renews again. The refusal itself extends nothing.
//  7. A release names attempt, term and version, and no attempt is used after its release, so that no late request can
//     end or extend another lease.
//  8. A leader that lost its lease acquires nothing in the same run, so the work of one run has one fencing token.
//
// # What client-go does not guarantee
//
// client-go reads its clock after Update has returned, and again when its timers fire. If the process is paused or the
// machine sleeps in between, or a callback does not stop, client-go believes for that much longer. [Lock.Held] is
// computed from the clock at each call and is also correct in these cases. Only a resource that checks [Lock.Term] as a
// fencing token is protected against a write that was already in flight.
package multiclusterlease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

// Lock is a lock on the MultiClusterLease of one namespace and name. It implements resourcelock.Interface. It keeps no
// goroutine, watch or timer between calls.
type Lock struct {
	resource *resource
	events   *events
	identity string
	// The key of this lock's slot in the resource. It is random, so that no two locks share one.
	key          string
	metadata     string
	bound        time.Duration
	exactLease   time.Duration
	writesEvents bool
	clock        clock

	// Only one call runs at a time. It owns the fields of the campaign.
	calls chan struct{}
	campaign

	mutex sync.Mutex
	// The confirmed lease. Guarded by the mutex, because Held and Term may be called from any goroutine.
	confirmed confirmation
	// Whether the newest renewal failed. Guarded by the mutex.
	losing bool
}

// A confirmation is a grant that counts.
type confirmation struct {
	term int64
	sent moment
	// How long the belief lasts, counted from sent.
	lasts time.Duration
}

var _ resourcelock.Interface = (*Lock)(nil)

// New creates a lock. It sends nothing. The identity must be unique among the candidates of the cluster. The host name
// with a random suffix is a good choice. An error means that an argument is invalid.
func New(config *rest.Config, namespace, name, identity string, options ...Option) (*Lock, error) {
	if config == nil {
		return nil, errors.New("multiclusterlease: config is nil")
	}
	if namespace == "" || name == "" {
		return nil, errors.New("multiclusterlease: namespace and name must not be empty")
	}
	isControl := func(r rune) bool { return r == '/' || unicode.IsControl(r) }
	if identity == "" || len(identity) > 190 || strings.ContainsFunc(identity, isControl) {
		return nil, fmt.Errorf("multiclusterlease: identity %q must be 1 to 190 bytes long, without \"/\" or control characters", identity)
	}
	own := ownConfig(config)
	client, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("multiclusterlease: %w", err)
	}
	lock := &Lock{
		resource:     &resource{client.Resource(v1alpha1.Resource).Namespace(namespace), namespace, name},
		identity:     identity,
		key:          randomID(),
		metadata:     "{}",
		writesEvents: true,
		clock:        systemClock,
		calls:        make(chan struct{}, 1),
	}
	lock.events = &events{client: client, namespace: namespace, name: name, identity: identity}
	for _, option := range options {
		if err := option(lock); err != nil {
			return nil, fmt.Errorf("multiclusterlease: %w", err)
		}
	}
	return lock, nil
}

// Held reports whether this lock holds the lease now, computed from the clock. It is false from the moment at which
// another candidate could be granted the lease, even if client-go has not noticed yet.
func (l *Lock) Held() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.confirmed.term > 0 && l.clock.elapsed(l.confirmed.sent) < l.confirmed.lasts
}

// Term returns the fencing token of the newest lease that this lock was confirmed to hold, or 0. It rises with every
// change of leadership, across all clusters. Send it with every write, and let the resource refuse a lower one.
func (l *Lock) Term() int64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.confirmed.term
}

// Identity returns the name of this candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe names the lock in the log lines of client-go.
func (l *Lock) Describe() string { return l.resource.namespace + "/" + l.resource.name }

// RecordEvent creates an Event about the resource, and stops trying after a second. Events are only for display. After
// a failed renewal it creates none, because client-go waits for it before it stops the work.
func (l *Lock) RecordEvent(what string) {
	if l.writesEvents && !l.isLosing() {
		l.events.write(what)
	}
}

// Get returns the record. For a standby it blocks while another candidate holds the lease, until the lease is released,
// expires or changes hands, or the context ends. A record without a holder makes client-go call Update at once.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer l.leave()
	return l.look(ctx)
}

// Create requests the lease, as Update does.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update acquires or renews the lease, and returns nil only if the global lock has confirmed it in time. With an empty
// holder it releases the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.leave()
	if record.HolderIdentity == "" {
		return l.release(ctx)
	}
	if record.HolderIdentity != l.identity {
		return failure(ReasonInvalidRequest, "the lock of %q cannot be updated for %q", l.identity, record.HolderIdentity)
	}
	lease, err := l.leaseOf(ctx, record)
	if err != nil {
		return err
	}
	err = l.hold(ctx, lease)
	l.noteRenewal(err != nil && l.hasLed && !errors.Is(ctx.Err(), context.Canceled))
	return err
}

func (l *Lock) enter(ctx context.Context) error {
	select {
	case l.calls <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Lock) leave() { <-l.calls }

func (l *Lock) confirm(term int64, sent moment, lasts time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.confirmed = confirmation{term, sent, lasts}
}

// noteRenewal remembers whether a renewal failed. A renewal that the program canceled does not count as failed.
func (l *Lock) noteRenewal(failed bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.losing = failed
}

func (l *Lock) isLosing() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.losing
}

// forget ends the belief. The term stays, because work that is winding down may still need it.
func (l *Lock) forget() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.confirmed.lasts = 0
}
