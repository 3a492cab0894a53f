package multiclusterlease

import (
	"fmt"
	"time"
)

// An Option changes a Lock.
type Option func(*Lock) error

// WithConfirmationBound sets how long a confirmation may take, from the sending of the request to the return of Update.
// The lease is longer by this bound, so the next leader waits that much longer after a crash. Default: a tenth of the
// lease, and at least 500 ms. It must be longer than a relay takes: the patch, the global call, and the write of the
// status.
func WithConfirmationBound(bound time.Duration) Option {
	return func(l *Lock) error {
		if bound < time.Millisecond {
			return fmt.Errorf("WithConfirmationBound: %v is too short: it must be at least 1 ms", bound)
		}
		l.bound = bound
		return nil
	}
}

// WithLeaseDuration sets the LeaseDuration of the LeaderElectionConfig. It is needed if that is not a whole number of
// seconds, because client-go reports only whole seconds to a lock, and would believe for longer than the lease lasts.
func WithLeaseDuration(lease time.Duration) Option {
	return func(l *Lock) error {
		if lease < 100*time.Millisecond {
			return fmt.Errorf("WithLeaseDuration: %v is too short: it must be at least 100 ms", lease)
		}
		l.exactLease = lease
		return nil
	}
}

// WithMetadata sets the metadata that other candidates see in the record, as JSON of at most 4096 bytes. Default: {}.
func WithMetadata(json string) Option {
	return func(l *Lock) error {
		if len(json) > 4096 {
			return fmt.Errorf("WithMetadata: %d bytes are too many: at most 4096 are allowed", len(json))
		}
		l.metadata = json
		return nil
	}
}

// WithoutEvents makes RecordEvent do nothing. By default it creates an Event, which requires the right to create
// events.
func WithoutEvents() Option {
	return func(l *Lock) error {
		l.writesEvents = false
		return nil
	}
}
