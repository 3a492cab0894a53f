package multiclusterlease

import (
	"context"
	"errors"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

const (
	// How long to wait before the first read, and at most between reads. A relay often takes tens of milliseconds. Reads
	// are cheap, and need no extra connection.
	firstRead   = 10 * time.Millisecond
	longestRead = 250 * time.Millisecond
	// How many times a resource may be created, deleted or full while one request is written.
	mostWrites = 3
	// How many times a replaced request is written again. Each time, another abandoned request was applied late.
	mostReplaced = 8
)

// Every field that a claim can have, because a merge patch keeps the fields that it does not name.
var emptyClaim = map[string]any{
	"holder": nil, "attempt": nil, "leaseDurationMs": nil, "afterTerm": nil, "expiredVersion": nil,
	"metadata": nil, "term": nil, "version": nil, "checkpoint": nil, "writeId": nil, "successor": nil,
}

// ask writes one request and waits for its answer. After an error the outcome is unknown. sent is the moment just
// before the request was written.
func (l *Lock) ask(ctx context.Context, verb v1alpha1.Verb, claim map[string]any, timeout time.Duration) (answer *v1alpha1.Answer, sent moment, err error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	id := randomID()
	l.noteWriteID(id)
	claim["holder"] = l.identity
	claim["writeId"] = id
	sent = l.clock()
	written, err := l.write(within, id, verb, claim, timeout)
	if err != nil {
		return nil, sent, l.unwritten(ctx, err, timeout)
	}
	// A request that is written again keeps its id, so whichever copy is carried out answers this call.
	writeAgain := func() (*snapshot, error) { return l.write(within, id, verb, claim, timeout) }
	answer, err = l.await(within, written, id, writeAgain)
	if err != nil {
		return nil, sent, l.unanswered(ctx, err, timeout)
	}
	if answer.Error != nil {
		return nil, sent, failure(ReasonInvalidRequest, "%s: %s", answer.Error.Code, answer.Error.Message)
	}
	return answer, sent, nil
}

// write puts the request into the resource, and creates the resource if it is missing. It removes the requests of
// candidates that are gone.
func (l *Lock) write(ctx context.Context, id string, verb v1alpha1.Verb, claim map[string]any, timeout time.Duration) (*snapshot, error) {
	renewTime := time.Now().UTC().Format(metav1.RFC3339Micro)
	request := map[string]any{
		"id": id, "verb": string(verb), "renewTime": renewTime,
		"timeoutMs": math.Ceil(milliseconds(timeout)),
		"claim":     claim,
	}
	// The controller would attribute a heartbeat without a request to a spec-only candidate.
	spec := map[string]any{"holderIdentity": l.identity, "renewTime": renewTime}
	if lasts, ok := claim["leaseDurationMs"].(float64); ok {
		spec["leaseDurationSeconds"] = int64(math.Ceil(lasts / 1000))
	}
	for writes := 1; ; writes++ {
		written, err := l.writeOnce(ctx, spec, request)
		if err == nil {
			l.latest = written
			return written, nil
		}
		if writes == mostWrites || !l.mayWriteAgain(ctx, err) {
			return nil, err
		}
	}
}

func (l *Lock) writeOnce(ctx context.Context, spec, request map[string]any) (*snapshot, error) {
	requests := map[string]any{l.key: withEmptyClaim(request)}
	if l.latest != nil {
		for _, key := range l.latest.silent(l.key) {
			requests[key] = nil
		}
	}
	patched, err := l.resource.patch(ctx, with(spec, "requests", requests))
	if !apierrors.IsNotFound(err) {
		return patched, err
	}
	l.latest = nil
	return l.resource.create(ctx, with(spec, "requests", map[string]any{l.key: request}))
}

// mayWriteAgain reports whether another try to write can succeed.
func (l *Lock) mayWriteAgain(ctx context.Context, err error) bool {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	if !apierrors.IsInvalid(err) {
		return false
	}
	// The resource may be full of requests whose candidates are gone.
	known := 0
	if l.latest != nil {
		known = len(l.latest.silent(l.key))
	}
	latest, err := l.resource.get(ctx)
	if err != nil {
		return false
	}
	l.latest = latest
	return len(latest.silent(l.key)) > known
}

// await reads the resource until it shows the answer. It writes the request again if a write of an earlier call, which
// was abandoned, is applied late and replaces it. Otherwise no controller would ever see the request.
func (l *Lock) await(ctx context.Context, written *snapshot, id string, writeAgain func() (*snapshot, error)) (*v1alpha1.Answer, error) {
	var failed error
	replaced := 0
	for pause := firstRead; ; pause = min(longestRead, pause*3/2) {
		if !sleep(ctx, pause) {
			if failed != nil && contextError(failed) == nil {
				return nil, failed
			}
			return nil, ctx.Err()
		}
		var read *snapshot
		read, failed = l.resource.get(ctx)
		if apierrors.IsNotFound(failed) || (failed == nil && read.uid() != written.uid()) {
			return nil, failure(ReasonDeleted, "%s was deleted before the request was answered", l.resource)
		}
		if failed != nil {
			continue
		}
		l.latest = read
		if answer := read.answer(l.key, id); answer != nil {
			return answer, nil
		}
		// Only a later generation counts. An earlier one does not have the request yet.
		isReplaced := read.generation() > written.generation() && read.requestID(l.key) != id
		if isReplaced && replaced < mostReplaced {
			replaced++
			if again, err := writeAgain(); err == nil {
				written = again
			}
		}
	}
}

// unwritten explains why the API server has not confirmed the request.
func (l *Lock) unwritten(ctx context.Context, err error, timeout time.Duration) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case apierrors.IsInvalid(err):
		return &Error{ReasonFull, l.resource.String() + " does not accept the request: it accepts those of at most 64 candidates", err}
	case contextError(err) != nil:
		return failure(ReasonUnreachable, "the API server did not confirm within %v that it has the request in %s", timeout, l.resource)
	}
	return err
}

// unanswered explains why the request has no answer.
func (l *Lock) unanswered(ctx context.Context, err error, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if contextError(err) == nil {
		return err
	}
	if why := l.latest.failing(v1alpha1.ConditionBackendHealthy); why != "" {
		return failure(ReasonBackendDown, "the controller cannot work with the global lock: %s", why)
	}
	if why := l.latest.failing(v1alpha1.ConditionReady); why != "" {
		return failure(ReasonNotConfirmed, "%s has no answer after %v. The controller reports %s", l.resource, timeout, why)
	}
	if !l.latest.isAnswered() {
		return failure(ReasonNoController, "no controller has ever answered in %s: is \"tenure controller\" running in this cluster, for namespace %s?", l.resource, l.resource.namespace)
	}
	return failure(ReasonNotConfirmed, "%s has no answer after %v. A controller has answered before: is it still running, and is the confirmation bound longer than a relay?", l.resource, timeout)
}

func withEmptyClaim(request map[string]any) map[string]any {
	claim := map[string]any{}
	for name := range emptyClaim {
		claim[name] = nil
	}
	for name, value := range request["claim"].(map[string]any) {
		claim[name] = value
	}
	return with(request, "claim", claim)
}

// with returns a copy with one additional field.
func with(fields map[string]any, name string, value any) map[string]any {
	copied := make(map[string]any, len(fields)+1)
	for key, old := range fields {
		copied[key] = old
	}
	copied[name] = value
	return copied
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration) / float64(time.Millisecond)
}

// sleep returns false if the context ended first.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
