package multiclusterlease

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

// client-go waits for an Event before it starts to lead, so writing one must not take long.
const eventTimeout = time.Second

// events writes Events about one resource.
type events struct {
	client    dynamic.Interface
	namespace string
	name      string
	identity  string
	forbidden atomic.Bool
}

func (e *events) write(what string) {
	// After a denied request, no further Events are written, because they would only add load.
	if e.forbidden.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	now := time.Now().UTC().Format(time.RFC3339)
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Event",
		"metadata":   map[string]any{"name": e.name + "." + randomID()[:16], "namespace": e.namespace},
		"involvedObject": map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "MultiClusterLease",
			"namespace": e.namespace, "name": e.name,
		},
		"reason":         "LeaderElection",
		"message":        e.identity + " " + what,
		"type":           "Normal",
		"source":         map[string]any{"component": e.identity},
		"firstTimestamp": now,
		"lastTimestamp":  now,
		"count":          int64(1),
	}}
	kind := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	_, err := e.client.Resource(kind).Namespace(e.namespace).Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		e.forbidden.Store(true)
	}
}
