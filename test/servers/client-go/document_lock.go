package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const pollInterval = 50 * time.Millisecond

// documentLock is the lock of a spec-only candidate on a MultiClusterLease. It writes holderIdentity,
// leaseDurationSeconds and renewTime, and polls until globalHolderIdentity and observedGeneration confirm the write.
type documentLock struct {
	resources dynamic.ResourceInterface
	namespace string
	name      string
	identity  string
	// How long to wait for the confirmation of a write.
	timeout time.Duration
}

func newDocumentLock(config *rest.Config, namespace, name, identity string, timeout time.Duration) (*documentLock, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionResource{Group: "tenure.dev", Version: "v1alpha1", Resource: "multiclusterleases"}
	return &documentLock{client.Resource(kind).Namespace(namespace), namespace, name, identity, timeout}, nil
}

func (l *documentLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	object, err := l.resources.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	holder, _ := confirmed(object)
	seconds, _, _ := unstructured.NestedInt64(object.Object, "spec", "leaseDurationSeconds")
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity:       holder,
		LeaseDurationSeconds: int(seconds),
		RenewTime:            timeOf(object, "spec", "renewTime"),
		AcquireTime:          timeOf(object, "status", "acquireTime"),
	}
	raw, err := json.Marshal(record)
	return record, raw, err
}

func (l *documentLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenure.dev/v1alpha1",
		"kind":       "MultiClusterLease",
		"metadata":   map[string]any{"name": l.name},
		"spec":       signalOf(record),
	}}
	created, err := l.resources.Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		return err
	}
	return l.confirm(ctx, record, created.GetGeneration())
}

func (l *documentLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	patch, err := json.Marshal(map[string]any{"spec": signalOf(record)})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldValidation: "Strict"}
	patched, err := l.resources.Patch(ctx, l.name, types.MergePatchType, patch, options)
	if err != nil {
		return err
	}
	return l.confirm(ctx, record, patched.GetGeneration())
}

// confirm waits until the status shows the write of this generation and the same holder. For a release, the generation
// alone is enough, because another candidate may already hold the lock.
func (l *documentLock) confirm(ctx context.Context, record resourcelock.LeaderElectionRecord, generation int64) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	for {
		object, err := l.resources.Get(ctx, l.name, metav1.GetOptions{})
		if err == nil {
			holder, observed := confirmed(object)
			if observed == generation && (holder == record.HolderIdentity || record.HolderIdentity == "") {
				return nil
			}
			if observed > generation {
				return fmt.Errorf("generation %d was overtaken by %d", generation, observed)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("generation %d was not confirmed: %w", generation, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func (l *documentLock) RecordEvent(string) {}

func (l *documentLock) Identity() string { return l.identity }

func (l *documentLock) Describe() string { return l.namespace + "/" + l.name }

func signalOf(record resourcelock.LeaderElectionRecord) map[string]any {
	return map[string]any{
		"holderIdentity":       record.HolderIdentity,
		"leaseDurationSeconds": int64(record.LeaseDurationSeconds),
		"renewTime":            record.RenewTime.UTC().Format(metav1.RFC3339Micro),
	}
}

func confirmed(object *unstructured.Unstructured) (holder string, generation int64) {
	holder, _, _ = unstructured.NestedString(object.Object, "status", "globalHolderIdentity")
	generation, _, _ = unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return holder, generation
}

func timeOf(object *unstructured.Unstructured, fields ...string) metav1.Time {
	text, _, _ := unstructured.NestedString(object.Object, fields...)
	parsed, _ := time.Parse(time.RFC3339Nano, text)
	return metav1.NewTime(parsed)
}
