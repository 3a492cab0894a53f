package multiclusterlease

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheLockNeedsNoCloudSDK(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(output))
	if !slices.Contains(packages, "k8s.io/client-go/tools/leaderelection/resourcelock") {
		t.Fatal("go list does not show what the lock imports")
	}
	cloud := regexp.MustCompile(`aws|azure|cloud\.google\.com|googleapis|etcd|grpc|dynamodb|redis`)
	for _, name := range packages {
		if cloud.MatchString(name) {
			t.Errorf("the lock imports %s", name)
		}
	}
}

func TestTheModuleRequiresOnlyClientGo(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "\t") && len(fields) == 2 {
			direct = append(direct, fields[0])
		}
	}
	slices.Sort(direct)
	if want := []string{"go.uber.org/goleak", "k8s.io/apimachinery", "k8s.io/client-go"}; !slices.Equal(direct, want) {
		t.Errorf("go.mod requires %v, not %v", direct, want)
	}
}
