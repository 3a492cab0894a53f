// Package v1alpha1 has the types of MultiClusterLease, the resource that candidates and controllers of one cluster
// share. Candidates write the spec, and controllers write the status. deploy/multicluster/crd.yaml defines the same
// fields for the API server, and a test keeps the two equal.
//
// +kubebuilder:object:generate=true
// +groupName=tenure.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0 object paths=.
