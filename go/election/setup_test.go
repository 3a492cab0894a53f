package election_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-js/tenure/go/election"
)

const (
	// The address of a service that the tests may use but must not stop.
	urlVariable = "TENURE_TEST_URL"
	// The command that runs another service: a program and its arguments before "serve", separated by spaces.
	commandVariable = "TENURE_TEST_COMMAND"
	// Runs this program as a candidate. The value contains the address of the service, the group, and the lease in
	// milliseconds.
	candidateVariable = "TENURE_TEST_CANDIDATE"

	// How long to wait for an event on a busy machine.
	patience = 60 * time.Second
)

func TestMain(m *testing.M) {
	if candidate := os.Getenv(candidateVariable); candidate != "" {
		os.Exit(runCandidate(strings.Fields(candidate)))
	}
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if address := os.Getenv(urlVariable); address != "" {
		os.Setenv("TENURE_URL", address)
	} else {
		fmt.Printf("Examples and tests that need a service are skipped: set %s to the address of a \"tenure serve\".\n", urlVariable)
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// runCandidate prints lines while it works, and one more when its term has ended.
func runCandidate(arguments []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ttl, err := strconv.Atoi(arguments[2])
	if err != nil {
		panic(err)
	}
	client, err := election.New(arguments[0], election.Options{NodeID: "process", LeaseTTL: time.Duration(ttl) * time.Millisecond})
	if err != nil {
		panic(err)
	}
	_ = client.Run(ctx, arguments[1], func(ctx context.Context, lease *election.Lease) error {
		for {
			// Read the clock first, because the process may be paused after it has checked its lease.
			at := time.Now()
			if !lease.Held() {
				break
			}
			fmt.Println("works at", at.UnixNano())
			time.Sleep(5 * time.Millisecond)
		}
		<-ctx.Done()
		fmt.Println("ended term", lease.Term())
		return nil
	})
	return 0
}

// sharedService returns the address of the service that all tests share. Each test uses its own group.
func sharedService(t *testing.T) string {
	t.Helper()
	address := os.Getenv(urlVariable)
	if address == "" {
		t.Skipf("set %s to the address of a \"tenure serve\"", urlVariable)
	}
	return address
}

var groups sync.Map

// group returns a group that only this test uses, even if the test runs again on the same service.
func group(t *testing.T) string {
	name, _ := groups.LoadOrStore(t, t.Name()+"-"+rand.Text())
	return name.(string)
}

// ownService is a service that a test may kill.
type ownService struct {
	t       *testing.T
	command []string
	port    int
	data    string
	process *exec.Cmd
}

func startOwnService(t *testing.T) *ownService {
	t.Helper()
	command := strings.Fields(os.Getenv(commandVariable))
	if len(command) == 0 {
		t.Skipf("set %s to the command that runs tenure", commandVariable)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	s := &ownService{t: t, command: command, port: port, data: t.TempDir()}
	t.Cleanup(s.kill)
	s.start()
	return s
}

func (s *ownService) url() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

// start returns when the service is ready.
func (s *ownService) start() {
	s.t.Helper()
	listen := fmt.Sprintf("127.0.0.1:%d", s.port)
	arguments := append(s.command[1:len(s.command):len(s.command)], "serve", "--listen", listen, "--data", s.data, "--min-ttl", "50ms")
	s.process = exec.Command(s.command[0], arguments...)
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the service is ready", func() bool {
		response, err := http.Get(s.url() + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func (s *ownService) kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

func newClient(t *testing.T, address string, options election.Options) *election.Client {
	t.Helper()
	client, err := election.New(address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// leadership holds the values that Run passed to the work of a client.
type leadership struct {
	ctx   context.Context
	lease *election.Lease
	// Makes the work return.
	finish context.CancelFunc
}

type running struct {
	t      *testing.T
	stop   context.CancelFunc
	leads  chan leadership
	result chan error
}

// run makes a client campaign. Its work returns when its context ends, or when finish is called.
func run(t *testing.T, client *election.Client, group string) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: t, stop: stop, leads: make(chan leadership, 100), result: make(chan error, 1)}
	go func() {
		r.result <- client.Run(ctx, group, func(ctx context.Context, lease *election.Lease) error {
			finished, finish := context.WithCancel(context.Background())
			defer finish()
			r.leads <- leadership{ctx, lease, finish}
			select {
			case <-ctx.Done():
			case <-finished.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		r.end()
	})
	return r
}

func (r *running) lead() leadership {
	r.t.Helper()
	return receive(r.t, "leadership", r.leads)
}

// end returns what Run returned. It may be called again.
func (r *running) end() error {
	r.t.Helper()
	err := receive(r.t, "the end of Run", r.result)
	r.result <- err
	return err
}

func receive[T any](t *testing.T, what string, channel <-chan T) T {
	t.Helper()
	select {
	case value := <-channel:
		return value
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("unreachable")
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// request sends a request for which the client has no method.
func request(t *testing.T, method, address string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := http.NewRequest(method, address, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	sent.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(sent)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s: %s %s", method, address, response.Status, text)
	}
}

// newName returns a unique group name for an example.
func newName(name string) string { return name + "-" + rand.Text() }
