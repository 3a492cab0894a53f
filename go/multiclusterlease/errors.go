package multiclusterlease

import (
	"errors"
	"fmt"
)

// A Reason is one word that says why a call of the lock failed.
type Reason string

// The reasons of errors.
const (
	// ReasonRefused: another candidate holds the lease, or took it.
	ReasonRefused Reason = "Refused"
	// ReasonNotConfirmed: an answer came later than the confirmation bound, so it does not count.
	ReasonNotConfirmed Reason = "NotConfirmed"
	// ReasonBackendDown: the controller cannot use the global lock. The message contains the condition BackendHealthy.
	ReasonBackendDown Reason = "BackendDown"
	// ReasonNoController: no controller answers in this cluster.
	ReasonNoController Reason = "NoController"
	// ReasonNotInstalled: the API server does not know MultiClusterLease.
	ReasonNotInstalled Reason = "NotInstalled"
	// ReasonForbidden: the API server denied a request. The message names the missing right.
	ReasonForbidden Reason = "Forbidden"
	// ReasonUnreachable: the API server did not answer, or answered with an error.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonFull: the resource has its maximum number of candidates.
	ReasonFull Reason = "Full"
	// ReasonDeleted: the resource was deleted while the call waited. The next call creates it again.
	ReasonDeleted Reason = "Deleted"
	// ReasonInvalidRecord: an answer does not match its request, so it does not count.
	ReasonInvalidRecord Reason = "InvalidRecord"
	// ReasonInvalidRequest: the controller can never carry out the request.
	ReasonInvalidRequest Reason = "InvalidRequest"
	// ReasonCloned: another process renews the lease that was granted here, for example a copy restored from a
	// snapshot.
	ReasonCloned Reason = "Cloned"
	// ReasonLost: the leadership of this lock has ended. It never acquires again within the same run of client-go.
	ReasonLost Reason = "Lost"
	// ReasonTimings: the durations of client-go are not safe with this lock.
	ReasonTimings Reason = "Timings"
)

// Error is the error that a failed call of a Lock returns. The exceptions are an error that means "not found", which
// client-go needs, and the error of a context that has ended.
type Error struct {
	Reason  Reason
	Message string
	// Err is the cause, if any.
	Err error
}

// Error returns the reason, the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of an error of a Lock, or "" for any other error.
func ReasonOf(err error) Reason {
	var reasoned *Error
	if errors.As(err, &reasoned) {
		return reasoned.Reason
	}
	return ""
}

func failure(reason Reason, format string, arguments ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}
