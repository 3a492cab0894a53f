package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "tenure.dev", Version: "v1alpha1"}

// Resource is the name of the collection of MultiClusterLeases in the API server.
var Resource = GroupVersion.WithResource("multiclusterleases")

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the types of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MultiClusterLease{}, &MultiClusterLeaseList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
