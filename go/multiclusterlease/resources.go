package multiclusterlease

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

// resource accesses the one MultiClusterLease of a lock at the API server.
type resource struct {
	api       dynamic.ResourceInterface
	namespace string
	name      string
}

func (r *resource) get(ctx context.Context) (*snapshot, error) {
	object, err := r.api.Get(ctx, r.name, metav1.GetOptions{})
	return r.result("get", object, err)
}

// An API server that gets this drops its record of who wrote which field, and no longer keeps one for this object. It
// would take up almost half of the object, and most of the time of a write.
var untracked = map[string]any{"managedFields": []any{map[string]any{}}}

// patch replaces parts of the spec. An API server that does not know a field must refuse it, not drop it.
func (r *resource) patch(ctx context.Context, spec map[string]any) (*snapshot, error) {
	body, err := json.Marshal(map[string]any{"metadata": untracked, "spec": spec})
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}
	object, err := r.api.Patch(ctx, r.name, types.MergePatchType, body, options)
	return r.result("patch", object, err)
}

func (r *resource) create(ctx context.Context, spec map[string]any) (*snapshot, error) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "MultiClusterLease",
		"metadata":   map[string]any{"name": r.name},
		"spec":       spec,
	}}
	created, err := r.api.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return r.result("create", created, err)
}

func (r *resource) watch(ctx context.Context, from string) (watch.Interface, error) {
	one := fields.OneTermEqualSelector("metadata.name", r.name).String()
	watched, err := r.api.Watch(ctx, metav1.ListOptions{FieldSelector: one, ResourceVersion: from})
	if err != nil {
		return nil, r.explain("watch", err)
	}
	return watched, nil
}

func (r *resource) result(verb string, object *unstructured.Unstructured, err error) (*snapshot, error) {
	if err != nil {
		return nil, r.explain(verb, err)
	}
	return newSnapshot(object), nil
}

// explain preserves "not found" and "already exists" errors, because callers act on them.
func (r *resource) explain(verb string, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		if ctx := contextError(err); ctx != nil {
			return ctx
		}
		return &Error{ReasonUnreachable, "cannot " + verb + " " + r.String() + ": the API server did not answer", err}
	}
	answer := status.Status()
	switch {
	case answer.Code == http.StatusNotFound && isKindUnknown(answer):
		// This error is not wrapped, because client-go would treat it as a missing resource and try to create it.
		return failure(ReasonNotInstalled,
			"the API server does not know MultiClusterLease (%s): apply deploy/multicluster/crd.yaml", answer.Message)
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return err
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &Error{ReasonForbidden, "the right to " + verb + " multiclusterleases of the group tenure.dev in namespace " +
			r.namespace + " is missing: bind the Role of deploy/multicluster/candidate", err}
	}
	return &Error{ReasonUnreachable, "cannot " + verb + " " + r.String(), err}
}

// For an unknown kind, the API server's answer names no resource.
func isKindUnknown(answer metav1.Status) bool {
	return answer.Details == nil || answer.Details.Name == "" || answer.Reason != metav1.StatusReasonNotFound
}

func contextError(err error) error {
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return nil
}

func (r *resource) String() string {
	return "MultiClusterLease " + r.namespace + "/" + r.name
}
