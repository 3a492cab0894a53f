package election

import (
	"errors"
	"fmt"
	"time"
)

// Code is the stable code of an error from the service.
type Code string

// The codes of the service. Its documentation says what to do about each.
const (
	// CodeNotLeader: this node and term do not lead, or no longer lead.
	CodeNotLeader Code = "NOT_LEADER"
	// CodeConflict: another node leads, or a group exists with another definition.
	CodeConflict Code = "CONFLICT"
	// CodeInvalidTTL: the duration of the lease is outside the group's policy.
	CodeInvalidTTL Code = "INVALID_TTL"
	// CodeInvalidRequest: the request is malformed. Message says where.
	CodeInvalidRequest Code = "INVALID_REQUEST"
	// CodeUnauthorized: the service does not know the caller (Status 401), or the caller lacks the right (Status 403).
	CodeUnauthorized Code = "UNAUTHORIZED"
	// CodeNotFound: the group does not exist, and the service does not create groups by itself.
	CodeNotFound Code = "NOT_FOUND"
	// CodeTooLarge: the request is too large.
	CodeTooLarge Code = "TOO_LARGE"
	// CodeRateLimited: a limit is reached. Wait for RetryAfter.
	CodeRateLimited Code = "RATE_LIMITED"
	// CodeBackendUnavailable: the service cannot make writes durable now, or another server answered in its place.
	CodeBackendUnavailable Code = "BACKEND_UNAVAILABLE"
	// CodeWrongCluster: the address leads to a different service than before. Its leases and terms are unrelated to this
	// client's, so the answer does not count.
	CodeWrongCluster Code = "WRONG_CLUSTER"
)

// Error is a refusal by the service. Use errors.As to get it. A call without a complete answer fails with another
// error, and its outcome is unknown.
type Error struct {
	// Code is the kind of refusal.
	Code Code
	// Status is the HTTP status, or 0 if nothing was sent.
	Status int
	// Message is a human-readable explanation.
	Message string
	// RetryAfter is how long the service asks the caller to wait, or 0 if it does not say.
	RetryAfter time.Duration
	// RequestID identifies the request in the log of the service.
	RequestID string
}

// Error returns the code and the message.
func (e *Error) Error() string {
	if e.RequestID == "" {
		return fmt.Sprintf("election: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("election: %s: %s (request %s)", e.Code, e.Message, e.RequestID)
}

// ErrExpired is the cause of a leader's context that ended because no renewal was confirmed in time.
var ErrExpired = errors.New("election: the lease expired: no renewal was confirmed in time")

// isFinal reports whether a campaign that was refused in this way can never succeed.
func isFinal(err error) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case CodeInvalidRequest, CodeInvalidTTL, CodeTooLarge, CodeWrongCluster:
		return true
	default:
		return false
	}
}

func hasCode(err error, code Code) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == code
}

func retryAfter(err error) time.Duration {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.RetryAfter
	}
	return 0
}
