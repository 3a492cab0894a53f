package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MultiClusterLease is an election across clusters. The candidates and controllers of one cluster share it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mcl
type MultiClusterLease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MultiClusterLeaseSpec   `json:"spec"`
	Status MultiClusterLeaseStatus `json:"status,omitempty"`
}

// MultiClusterLeaseList is a list of MultiClusterLeases.
//
// +kubebuilder:object:root=true
type MultiClusterLeaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MultiClusterLease `json:"items"`
}

// MultiClusterLeaseSpec contains the requests from this cluster's candidates. Only candidates write it.
type MultiClusterLeaseSpec struct {
	// HolderIdentity is the candidate of the newest heartbeat. Empty if it releases the lease.
	HolderIdentity *string `json:"holderIdentity,omitempty"`
	// LeaseDurationSeconds is how long the lease of the newest heartbeat lasts without a renewal.
	LeaseDurationSeconds *int32 `json:"leaseDurationSeconds,omitempty"`
	// RenewTime is when the newest heartbeat was sent, by the candidate's own clock. It is compared only with earlier
	// values of itself.
	RenewTime *metav1.MicroTime `json:"renewTime,omitempty"`
	// Requests holds the newest call of each candidate, by the candidate's random key.
	Requests map[string]Request `json:"requests,omitempty"`
}

// Verb is the kind of call that a request makes on the global lock.
type Verb string

// The verbs of requests.
const (
	VerbRead    Verb = "read"
	VerbAcquire Verb = "acquire"
	VerbRenew   Verb = "renew"
	VerbRelease Verb = "release"
)

// Request is one call on the global lock.
type Request struct {
	// ID identifies the call. The answer has the same id. An id is never used twice.
	ID   string `json:"id"`
	Verb Verb   `json:"verb"`
	// RenewTime is the renewTime of the heartbeat that came with this request.
	RenewTime metav1.MicroTime `json:"renewTime"`
	// TimeoutMs is how long the candidate waits for the answer, in milliseconds.
	TimeoutMs float64 `json:"timeoutMs"`
	Claim     Claim   `json:"claim"`
}

// Claim contains the arguments of a request. The verb decides which fields are set.
type Claim struct {
	// Holder is the candidate's identity, without its cluster.
	Holder string `json:"holder"`
	// Attempt identifies the acquire call that is or was granted.
	Attempt string `json:"attempt,omitempty"`
	// LeaseDurationMs is how long the lease should last without a renewal, in milliseconds.
	LeaseDurationMs float64 `json:"leaseDurationMs,omitempty"`
	// AfterTerm is, for acquire, the highest term that the candidate has seen.
	AfterTerm *int64 `json:"afterTerm,omitempty"`
	// ExpiredVersion is, for acquire, the version that the candidate saw expire. Empty if it saw the record disappear.
	ExpiredVersion *string `json:"expiredVersion,omitempty"`
	// Metadata is, for acquire, the candidate's metadata, as JSON.
	Metadata *string `json:"metadata,omitempty"`
	// Term is, for renew and release, the term that is held.
	Term *int64 `json:"term,omitempty"`
	// Version is, for renew and release, the last observed version of the record.
	Version string `json:"version,omitempty"`
	// Checkpoint is, for renew, the new checkpoint. If omitted, the checkpoint stays unchanged.
	Checkpoint *string `json:"checkpoint,omitempty"`
	// WriteID identifies the write. It is kept in the record that is written.
	WriteID string `json:"writeId,omitempty"`
	// Successor is, for release, who should lead next: an identity of this cluster, or cluster/identity.
	Successor string `json:"successor,omitempty"`
}

// MultiClusterLeaseStatus contains the answers from this cluster's controllers. Only controllers write it.
type MultiClusterLeaseStatus struct {
	// Leader is the bare identity if a candidate of this cluster leads, otherwise cluster/identity. Empty if nobody leads.
	Leader string `json:"leader,omitempty"`
	// GlobalHolderIdentity has the same value as Leader.
	GlobalHolderIdentity string `json:"globalHolderIdentity,omitempty"`
	// Cluster is the leader's cluster.
	Cluster string `json:"cluster,omitempty"`
	// Term is the fencing token. It rises with every change of leadership.
	Term int64 `json:"term,omitempty"`
	// AcquireTime is when the term was granted, by the clock of the writer.
	AcquireTime *metav1.MicroTime `json:"acquireTime,omitempty"`
	// RenewTime is when the lease was last renewed, as known to this cluster, by the clock of the writer.
	RenewTime *metav1.MicroTime `json:"renewTime,omitempty"`
	// LeaseDurationSeconds is how long the lease lasts without a renewal.
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`
	// ObservedGeneration is the newest generation whose requests were all sent to the global lock after the controller
	// saw them.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are of the types Ready, BackendHealthy, CandidateAlive and Leading.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Record is the last seen record in the global lock.
	Record *Record `json:"record,omitempty"`
	// Answers holds the outcome of each candidate's newest call, by the candidate's key.
	Answers map[string]Answer `json:"answers,omitempty"`
	// Silent lists the keys of requests that have not been renewed for a long time. The next candidate that writes
	// removes them.
	Silent []string `json:"silent,omitempty"`
}

// The types of conditions.
const (
	ConditionReady          = "Ready"
	ConditionBackendHealthy = "BackendHealthy"
	ConditionCandidateAlive = "CandidateAlive"
	ConditionLeading        = "Leading"
)

// Record is the record in the global lock, as shown in one cluster.
type Record struct {
	// Holder is the bare identity if a candidate of this cluster holds the lease, otherwise cluster/identity.
	Holder string `json:"holder"`
	// Cluster is the holder's cluster. Empty if the holder did not come through a controller.
	Cluster string `json:"cluster"`
	// Attempt identifies the acquire call that was granted.
	Attempt string `json:"attempt"`
	// Term is the fencing token. It rises with every grant.
	Term int64 `json:"term"`
	// LeaseDurationMs is how long the lease lasts without a renewal, in milliseconds.
	LeaseDurationMs float64 `json:"leaseDurationMs"`
	// AcquiredAt is when the term was granted, in Unix milliseconds by the writer's clock. For display only.
	AcquiredAt float64 `json:"acquiredAt"`
	// RenewedAt is when the lease was last renewed, in Unix milliseconds by the writer's clock. For display only.
	RenewedAt float64 `json:"renewedAt"`
	// Released is true if nobody holds the lease.
	Released bool `json:"released"`
	// Metadata is the holder's metadata, as JSON.
	Metadata string `json:"metadata"`
	// Checkpoint is a short string that survives handovers. Only the leader sets it.
	Checkpoint string `json:"checkpoint"`
	// Version is the version that the global lock assigned to this record.
	Version string `json:"version"`
	// WriteID identifies the newest write.
	WriteID string `json:"writeId,omitempty"`
	// Successor is who should lead next, in the form of Holder. Empty if the lease was not released to anybody.
	Successor string `json:"successor,omitempty"`
}

// Answer is the outcome of one request.
type Answer struct {
	// ID is the id of the request that this answers.
	ID string `json:"id"`
	// OK is whether the call was carried out.
	OK bool `json:"ok"`
	// Record is the record in the global lock after the call.
	Record *Record `json:"record,omitempty"`
	// ValidForMs is how long the grant lasts from the sending of the request, if the call was carried out.
	ValidForMs *float64 `json:"validForMs,omitempty"`
	// HighestTerm is the highest term that was ever granted, if the call was refused.
	HighestTerm *int64 `json:"highestTerm,omitempty"`
	// RetryAfterMs is how long the current lease still lasts, if the call was refused.
	RetryAfterMs *float64 `json:"retryAfterMs,omitempty"`
	// Error is set if the call can never be carried out.
	Error *AnswerError `json:"error,omitempty"`
}

// AnswerError explains why a request can never be carried out.
type AnswerError struct {
	// Code is an error code of Tenure.
	Code string `json:"code"`
	// Message is a human-readable explanation.
	Message string `json:"message"`
}
