package multiclusterlease

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 5 * time.Second
)

// changes delivers the changes of a resource from a watch, or from reads if the watch ends, hangs or is not allowed.
type changes struct {
	// Nil if the resource was deleted.
	seen   chan *snapshot
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// follow starts to deliver changes. stop ends it and waits for its goroutine.
func (l *Lock) follow(ctx context.Context, from string) *changes {
	ctx, cancel := context.WithCancel(ctx)
	followed := &changes{seen: make(chan *snapshot), cancel: cancel}
	read := max(time.Second, l.lease/3)
	resource := l.resource
	followed.done.Add(1)
	go func() {
		defer followed.done.Done()
		pause := shortestPause
		for ctx.Err() == nil {
			opened := time.Now()
			followed.once(ctx, resource, from, read)
			if time.Since(opened) > longestPause {
				pause = shortestPause
			}
			if !sleep(ctx, pause) {
				return
			}
			pause = min(longestPause, pause*2, read)
			from = followed.read(ctx, resource)
		}
	}()
	return followed
}

func (c *changes) stop() {
	c.cancel()
	c.done.Wait()
}

// once delivers the events of one watch until it ends or receives nothing for too long. The watch is then opened again,
// because the connection may be gone.
func (c *changes) once(ctx context.Context, resource *resource, from string, silence time.Duration) {
	// Only the opening has a deadline, because the watch itself has no end.
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(longestPause, cancel)
	watched, err := resource.watch(opening, from)
	if err != nil {
		limit.Stop()
		return
	}
	defer watched.Stop()
	if !limit.Stop() {
		return
	}
	for {
		quiet := time.NewTimer(silence)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return
		case <-quiet.C:
			if c.read(ctx, resource) == "" {
				return
			}
		case event, open := <-watched.ResultChan():
			quiet.Stop()
			object, isObject := event.Object.(*unstructured.Unstructured)
			if !open || !isObject {
				return
			}
			switch event.Type {
			case watch.Deleted:
				c.show(ctx, nil)
			case watch.Added, watch.Modified:
				c.show(ctx, newSnapshot(object))
			}
		}
	}
}

// read delivers the current resource and returns its version, or "" if it could not be read.
func (c *changes) read(ctx context.Context, resource *resource) string {
	limited, cancel := context.WithTimeout(ctx, longestPause)
	defer cancel()
	latest, err := resource.get(limited)
	if apierrors.IsNotFound(err) {
		c.show(ctx, nil)
	}
	if err != nil {
		return ""
	}
	c.show(ctx, latest)
	return latest.version()
}

func (c *changes) show(ctx context.Context, latest *snapshot) {
	select {
	case c.seen <- latest:
	case <-ctx.Done():
	}
}
