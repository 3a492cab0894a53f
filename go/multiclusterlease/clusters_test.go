package multiclusterlease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenure-js/tenure/go/api/v1alpha1"
)

// Names the real API servers with controllers that test/multicluster/go-lock.server.test.ts starts.
const clustersVariable = "TENURE_TEST_CLUSTERS"

const (
	testLease = 6 * time.Second
	// Answers may be slow on a busy machine.
	testBound = 2 * time.Second
	patience  = 60 * time.Second
)

// A line is a connection to the API server of one cluster that can lose answers.
type line struct {
	config *rest.Config
	mutex  sync.Mutex
	// The requests that this lock wrote.
	written []v1alpha1.Request
	// Returns whether the answer to this request is lost.
	loses func(request *http.Request) bool
	// The newest patch of this lock.
	patch []byte
	// A patch that is applied right after the next one. Nil if none is.
	late []byte
}

type losing struct {
	*line
	inner http.RoundTripper
}

func (l losing) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch || request.Method == http.MethodPost {
		text, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(text))
		l.note(text)
		if late := l.takeLate(request.Method, text); late != nil {
			return l.replace(request, late)
		}
	}
	response, err := l.inner.RoundTrip(request)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err == nil && l.loses != nil && l.loses(request) {
		response.Body.Close()
		return nil, errors.New("the answer is lost")
	}
	return response, err
}

// replace applies a late patch instead of the one in the request, as if the late patch had followed so soon that no
// controller has seen the first one. The answer shows the generation of the first one.
func (l losing) replace(request *http.Request, late []byte) (*http.Response, error) {
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(late)), int64(len(late))
	response, err := l.inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	object := &unstructured.Unstructured{}
	if err := json.NewDecoder(response.Body).Decode(object); err != nil {
		return nil, err
	}
	object.SetGeneration(object.GetGeneration() - 1)
	text, err := object.MarshalJSON()
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return response, err
}

func (l *line) takeLate(method string, text []byte) []byte {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	late := l.late
	l.late = nil
	if method == http.MethodPatch {
		l.patch = text
	}
	return late
}

// repeatLate makes the newest patch arrive once more, right after the next one.
func (l *line) repeatLate() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.late = l.patch
}

func (l *line) note(text []byte) {
	var object struct {
		Spec v1alpha1.MultiClusterLeaseSpec `json:"spec"`
	}
	if json.Unmarshal(text, &object) != nil {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, request := range object.Spec.Requests {
		// If the resource is missing, the patch is followed by a create of the same request.
		isRepeated := len(l.written) > 0 && l.written[len(l.written)-1].ID == request.ID
		if request.ID != "" && !isRepeated {
			l.written = append(l.written, request)
		}
	}
}

func (l *line) lose(which func(request *http.Request) bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.loses = which
}

// asked returns the requests since its last call.
func (l *line) asked() (verbs string, requests []v1alpha1.Request) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var names []string
	for _, request := range l.written {
		names = append(names, string(request.Verb))
	}
	requests, l.written = l.written, nil
	return strings.Join(names, " "), requests
}

func lineTo(t *testing.T, cluster string) *line {
	t.Helper()
	text := os.Getenv(clustersVariable)
	if text == "" {
		t.Skipf("%s is not set: test/multicluster/go-lock.server.test.ts runs this test with real API servers", clustersVariable)
	}
	var kubeConfigs map[string]string
	if err := json.Unmarshal([]byte(text), &kubeConfigs); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeConfigs[cluster])
	if err != nil {
		t.Fatal(err)
	}
	one := &line{config: config}
	// The transports of the lock and of the tests, without the wrapper that loses answers.
	plain := []*rest.Config{ownConfig(config), rest.CopyConfig(config)}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return losing{one, inner} })
	t.Cleanup(func() {
		for _, one := range plain {
			if client, err := rest.HTTPClientFor(one); err == nil {
				utilnet.CloseIdleConnectionsFor(client.Transport)
			}
		}
	})
	return one
}

func (l *line) lock(t *testing.T, identity string, options ...Option) *Lock {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	given := append([]Option{WithLeaseDuration(testLease), WithConfirmationBound(testBound)}, options...)
	lock, err := New(l.config, "default", name, identity, given...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func recordOf(identity string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: int(testLease.Seconds())}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(patience, cancel)
	t.Cleanup(func() {
		timer.Stop()
		cancel()
	})
	return ctx
}

// take makes a lock acquire or renew the lease, as client-go would.
func take(ctx context.Context, t *testing.T, lock *Lock) {
	t.Helper()
	for ctx.Err() == nil {
		if err := lock.Create(ctx, recordOf(lock.Identity())); err == nil {
			return
		} else if ReasonOf(err) != ReasonNotConfirmed && ReasonOf(err) != ReasonRefused && ReasonOf(err) != ReasonUnreachable {
			t.Fatal(err)
		}
	}
	t.Fatal("the lease was not granted")
}
