package multiclusterlease

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

// snapshot is the part of a resource that the lock reads. The fields are decoded one by one, so that a malformed field
// of one candidate does not stop the others.
type snapshot struct {
	object *unstructured.Unstructured
}

func newSnapshot(object *unstructured.Unstructured) *snapshot {
	return &snapshot{object}
}

func (s *snapshot) version() string { return s.object.GetResourceVersion() }

func (s *snapshot) uid() string { return string(s.object.GetUID()) }

func (s *snapshot) generation() int64 { return s.object.GetGeneration() }

// requestID returns the id of the request in this slot, or "".
func (s *snapshot) requestID(key string) string {
	id, _, _ := unstructured.NestedString(s.object.Object, "spec", "requests", key, "id")
	return id
}

// answer returns the answer to one request, or nil. Ids bind answers to requests, so no other answer counts.
func (s *snapshot) answer(key, id string) *v1alpha1.Answer {
	var answer v1alpha1.Answer
	if !s.decode(&answer, "status", "answers", key) || answer.ID != id {
		return nil
	}
	return &answer
}

// record returns the global record as last seen by the controller, or nil.
func (s *snapshot) record() *v1alpha1.Record {
	var record v1alpha1.Record
	if !s.decode(&record, "status", "record") || record.Version == "" {
		return nil
	}
	return &record
}

// term returns the highest term that the status shows.
func (s *snapshot) term() int64 {
	term, _, _ := unstructured.NestedInt64(s.object.Object, "status", "term")
	return term
}

// isAnswered reports whether any controller has ever served the resource.
func (s *snapshot) isAnswered() bool {
	_, found, _ := unstructured.NestedFieldNoCopy(s.object.Object, "status", "observedGeneration")
	return found
}

// failing returns the message of a condition that does not hold, or "".
func (s *snapshot) failing(kind string) string {
	conditions, _, _ := unstructured.NestedSlice(s.object.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] == kind && condition["status"] == "False" {
			reason, _ := condition["reason"].(string)
			message, _ := condition["message"].(string)
			return reason + ": " + message
		}
	}
	return ""
}

// silent returns the keys of requests whose candidates are gone.
func (s *snapshot) silent(own string) []string {
	requests, _, _ := unstructured.NestedMap(s.object.Object, "spec", "requests")
	listed, _, _ := unstructured.NestedStringSlice(s.object.Object, "status", "silent")
	var silent []string
	for _, key := range listed {
		if _, found := requests[key]; found && key != own {
			silent = append(silent, key)
		}
	}
	return silent
}

func (s *snapshot) decode(into any, path ...string) bool {
	value, found, err := unstructured.NestedFieldNoCopy(s.object.Object, path...)
	if err != nil || !found || value == nil {
		return false
	}
	text, err := json.Marshal(value)
	return err == nil && json.Unmarshal(text, into) == nil
}
