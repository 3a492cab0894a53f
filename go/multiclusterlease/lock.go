// Package multiclusterlease is a lock for client-go's leader election that elects one leader among the pods of many
// clusters. It fits leaderelection.LeaderElectionConfig and the manager of controller-runtime. The lock talks to the API
// server of its own cluster only. A controller there carries out its requests on the global lock.
//
// # Why beliefs never overlap
//
//  1. Every request has an id that is drawn for it. Only an answer with that id counts, so nothing that was written,
//     cached or restored before the request can confirm anything.
//  2. The lock asks for a lease of LeaseDuration + bound. The global lock writes it after the request was sent, and from
//     that write on every other candidate waits for LeaseDuration + bound.
//  3. Update returns nil only if at most the bound has passed since the request was sent, by a clock that counts sleep too.
//  4. client-go believes for at most RetryPeriod + RenewDeadline after Update returned nil, because after a failed renewal
//     the lock neither releases nor waits: client-go would cancel the work only afterwards. That time must not exceed
//     LeaseDuration. So its belief ends by sent + bound + LeaseDuration, before anyone else can be granted the lease.
//  5. A grant is counted only from the one request that asked for it. A grant that a repeated request finds may be older,
//     so it is renewed first, and the renewal counts from its own sending.
//  6. A refused renewal that shows our own attempt means that an earlier renewal was applied. Its version is adopted and
//     renewed again. The refusal itself extends nothing.
//  7. A release names attempt, term and version, and no attempt is used after its release, so that no late request can
//     end or extend another lease.
//  8. A leader that lost its lease acquires nothing in the same run. Work of one run has one fencing token.
//
// # What client-go does not guarantee
//
// client-go reads its clock after Update returned, and again when its timers fire. A process that is paused in between,
// or a machine that sleeps, believes for that much longer, and so does a callback that does not stop. [Lock.Held] is
// computed from the clock at each call and is right in these cases too. Only a resource that checks [Lock.Term] as a
// fencing token protects against a write that was already on its way.
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

// Lock is a lock on the MultiClusterLease of one namespace and name. It implements resourcelock.Interface. It has no
// goroutine, watch or timer of its own: everything begins with a call and ends with it.
type Lock struct {
	resource *resource
	events   *events
	identity string
	// Names this lock's place in the resource. Random, so that no two locks share one.
	key          string
	metadata     string
	bound        time.Duration
	exactLease   time.Duration
	writesEvents bool
	clock        clock

	// One call at a time. Its holder owns the fields of the campaign.
	calls chan struct{}
	campaign

	mutex sync.Mutex
	// What was confirmed. Guarded by the mutex, because Held and Term are called from anywhere.
	confirmed confirmation
	// Whether the newest renewal failed. Guarded by the mutex.
	losing bool
}

// A confirmation is a grant that counts.
type confirmation struct {
	term int64
	sent moment
	// How long the belief lasts from sent on.
	lasts time.Duration
}

var _ resourcelock.Interface = (*Lock)(nil)

// New makes a lock. It sends nothing. The identity must be unique among the candidates of the cluster; the host name
// with a random suffix is a good one. An error is a mistake in an argument.
func New(config *rest.Config, namespace, name, identity string, options ...Option) (*Lock, error) {
	if config == nil {
		return nil, errors.New("multiclusterlease: config is nil")
	}
	if namespace == "" || name == "" {
		return nil, errors.New("multiclusterlease: namespace and name must not be empty")
	}
	isControl := func(r rune) bool { return r == '/' || unicode.IsControl(r) }
	if identity == "" || len(identity) > 190 || strings.ContainsFunc(identity, isControl) {
		return nil, fmt.Errorf("multiclusterlease: identity %q must have 1 to 190 bytes, without \"/\" and control characters", identity)
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

// Held is whether this lock holds the lease right now, computed from the clock. It is false from the moment at which
// another candidate could be granted the lease, even if client-go has not noticed yet.
func (l *Lock) Held() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.confirmed.term > 0 && l.clock.elapsed(l.confirmed.sent) < l.confirmed.lasts
}

// Term is the fencing token of the newest lease that this lock was confirmed to hold, or 0. It rises with every change
// of leadership, in all clusters together. Send it with every write, and let the receiver refuse a lower one.
func (l *Lock) Term() int64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.confirmed.term
}

// Identity returns the name of this candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe names the lock in the log lines of client-go.
func (l *Lock) Describe() string { return l.resource.namespace + "/" + l.resource.name }

// RecordEvent creates an Event about the resource, and gives up after a second. Only people read Events. After a failed
// renewal it creates none: client-go waits for it before it stops the work.
func (l *Lock) RecordEvent(what string) {
	if l.writesEvents && !l.isLosing() {
		l.events.write(what)
	}
}

// Get returns the record. For a standby it blocks while another candidate holds the lease: until the lease is released,
// expires or changes hands, or the context ends. A record without a holder makes client-go call Update at once.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer l.leave()
	return l.look(ctx)
}

// Create asks for the lease, as Update does.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update acquires or renews the lease, and returns nil only once the global lock has confirmed it in time. With an empty
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

// noteRenewal remembers whether a renewal failed. One that the program canceled did not.
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

// forget ends the belief. The term stays: work that is still winding down may ask for it.
func (l *Lock) forget() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.confirmed.lasts = 0
}
