package v1alpha1

import (
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const definition = "../../../deploy/multicluster/crd.yaml"

// The parts of a schema that also exist in a Go type.
type fieldSchema struct {
	Type                 string                 `json:"type"`
	Format               string                 `json:"format"`
	Required             []string               `json:"required"`
	Properties           map[string]fieldSchema `json:"properties"`
	AdditionalProperties *fieldSchema           `json:"additionalProperties"`
	Items                *fieldSchema           `json:"items"`
}

func readSchema(t *testing.T) (group, version string, root fieldSchema) {
	t.Helper()
	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Group    string `json:"group"`
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					Root fieldSchema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	newest := crd.Spec.Versions[0]
	return crd.Spec.Group, newest.Name, newest.Schema.Root
}

func TestTheTypesMatchTheCRD(t *testing.T) {
	group, version, root := readSchema(t)
	if group != GroupVersion.Group || version != GroupVersion.Version {
		t.Errorf("the CRD defines %s/%s, but the types are of %s", group, version, GroupVersion)
	}
	compare(t, "spec", reflect.TypeFor[MultiClusterLeaseSpec](), root.Properties["spec"])
	compare(t, "status", reflect.TypeFor[MultiClusterLeaseStatus](), root.Properties["status"])
}

func TestADifferenceBetweenATypeAndItsSchemaIsFound(t *testing.T) {
	_, _, root := readSchema(t)
	answer := root.Properties["status"].Properties["answers"].AdditionalProperties
	for name, differing := range map[string]any{
		"a field that the schema does not have": struct {
			AnswerError
			More string `json:"more"`
		}{},
		"a field that the type does not have": struct {
			Code string `json:"code"`
		}{},
		"a field of another type": struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		}{},
		"a field that the type allows to be missing": struct {
			Code    string `json:"code"`
			Message string `json:"message,omitempty"`
		}{},
	} {
		if len(differences(name, reflect.TypeOf(differing), answer.Properties["error"])) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

func TestTheTypesAreRegisteredWithAScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"MultiClusterLease", "MultiClusterLeaseList"} {
		if !scheme.Recognizes(GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
	term := int64(7)
	lease := &MultiClusterLease{Spec: MultiClusterLeaseSpec{Requests: map[string]Request{"k": {Claim: Claim{Term: &term}}}}}
	copied := lease.DeepCopy()
	*copied.Spec.Requests["k"].Claim.Term = 8
	if term != 7 {
		t.Error("a deep copy shares a pointer with the original")
	}
}

func compare(t *testing.T, path string, kind reflect.Type, of fieldSchema) {
	t.Helper()
	for _, difference := range differences(path, kind, of) {
		t.Error(difference)
	}
}

func differences(path string, kind reflect.Type, of fieldSchema) []string {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if want := schemaTypeOf(kind); want != of.Type+" "+of.Format && !(want == "string " && of.Format == "") {
		return []string{path + ": the type is " + want + ", the schema says " + of.Type + " " + of.Format}
	}
	switch {
	case isTime(kind):
		return nil
	case kind.Kind() == reflect.Map:
		return differences(path+"[]", kind.Elem(), *of.AdditionalProperties)
	case kind.Kind() == reflect.Slice:
		return differences(path+"[]", kind.Elem(), *of.Items)
	case kind.Kind() != reflect.Struct:
		return nil
	}
	var found, names, required []string
	for _, field := range reflect.VisibleFields(kind) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		names = append(names, name)
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
		property, exists := of.Properties[name]
		if !exists {
			found = append(found, path+"."+name+" is not in the schema")
			continue
		}
		found = append(found, differences(path+"."+name, field.Type, property)...)
	}
	for name := range of.Properties {
		if !slices.Contains(names, name) {
			found = append(found, path+"."+name+" is not in the type")
		}
	}
	sort.Strings(required)
	sort.Strings(of.Required)
	if !slices.Equal(required, of.Required) {
		found = append(found, path+": the type requires "+strings.Join(required, ", ")+"; the schema "+strings.Join(of.Required, ", "))
	}
	return found
}

func isTime(kind reflect.Type) bool {
	return kind == reflect.TypeFor[metav1.MicroTime]() || kind == reflect.TypeFor[metav1.Time]()
}

func schemaTypeOf(kind reflect.Type) string {
	switch {
	case isTime(kind):
		return "string date-time"
	case kind.Kind() == reflect.String:
		return "string "
	case kind.Kind() == reflect.Bool:
		return "boolean "
	case kind.Kind() == reflect.Int32:
		return "integer int32"
	case kind.Kind() == reflect.Int64:
		return "integer int64"
	case kind.Kind() == reflect.Float64:
		return "number double"
	case kind.Kind() == reflect.Slice:
		return "array "
	}
	return "object "
}
