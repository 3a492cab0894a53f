// A manager of controller-runtime that leads across clusters. It restarts after each loss, like a pod. It prints the
// start and end of each belief as a line of JSON, with the time of CLOCK_MONOTONIC, which Node's process.hrtime() also
// reads. The line "release" on standard input makes it release the lease, and campaign again after a pause.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-js/tenure/go/multiclusterlease"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// samplePeriod is the time between two calls of Held.
const samplePeriod = 3 * time.Millisecond

type event struct {
	Event       string  `json:"event"`
	Term        int64   `json:"term"`
	MonotonicMs float64 `json:"monotonic_ms"`
}

type options struct {
	namespace, name, identity                          string
	leaseDuration, renewDeadline, retryPeriod, holdOff time.Duration
}

var output sync.Mutex

func say(name string, term int64, at float64) {
	output.Lock()
	defer output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(event{name, term, at}); err != nil {
		os.Exit(1)
	}
}

func monotonicMs() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return float64(now.Nano()) / 1e6
}

// sample reports when Held becomes true and when it becomes false. It reads the time before it calls Held. A pause
// between the two can therefore make a belief seem to end too early, but never too late.
func sample(ctx context.Context, lock *multiclusterlease.Lock) {
	var term int64
	var last float64
	end := func() {
		if term > 0 {
			say("lost", term, last)
		}
		term = 0
	}
	for ctx.Err() == nil {
		at := monotonicMs()
		newest := lock.Term()
		isHeld := lock.Held()
		if !isHeld || newest != term {
			end()
		}
		if isHeld && lock.Term() == newest {
			if term == 0 {
				say("held", newest, at)
			}
			term, last = newest, at
		}
		time.Sleep(samplePeriod)
	}
	end()
}

// campaign returns when leadership has ended or the context is done.
func campaign(ctx context.Context, config *rest.Config, options options) error {
	lock, err := multiclusterlease.New(config, options.namespace, options.name, options.identity,
		multiclusterlease.WithLeaseDuration(options.leaseDuration))
	if err != nil {
		return err
	}
	managed, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &options.leaseDuration,
		RenewDeadline:                       &options.renewDeadline,
		RetryPeriod:                         &options.retryPeriod,
		Metrics:                             server.Options{BindAddress: "0"},
		HealthProbeBindAddress:              "0",
	})
	if err != nil {
		return err
	}
	work := manager.RunnableFunc(func(ctx context.Context) error {
		say("started", lock.Term(), monotonicMs())
		<-ctx.Done()
		say("stopped", lock.Term(), monotonicMs())
		return nil
	})
	if err := managed.Add(work); err != nil {
		return err
	}
	sampling, stop := context.WithCancel(context.Background())
	var sampled sync.WaitGroup
	sampled.Add(1)
	go func() {
		defer sampled.Done()
		sample(sampling, lock)
	}()
	defer func() {
		stop()
		sampled.Wait()
	}()
	return managed.Start(ctx)
}

func main() {
	var given options
	kubeConfig := flag.String("kube-config", "", "file that leads to the API server")
	flag.StringVar(&given.namespace, "namespace", "default", "namespace of the MultiClusterLease")
	flag.StringVar(&given.name, "lease", "", "name of the MultiClusterLease")
	flag.StringVar(&given.identity, "identity", "", "name of this candidate")
	flag.DurationVar(&given.leaseDuration, "lease-duration", 15*time.Second, "")
	flag.DurationVar(&given.renewDeadline, "renew-deadline", 10*time.Second, "")
	flag.DurationVar(&given.retryPeriod, "retry-period", 2*time.Second, "")
	flag.DurationVar(&given.holdOff, "hold-off", time.Second, "pause after a release or a loss")
	flag.Parse()
	ctrl.SetLogger(klog.NewKlogr())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeConfig)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	releases := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			releases <- struct{}{}
		}
	}()
	for ctx.Err() == nil {
		term, end := context.WithCancel(ctx)
		go func() {
			select {
			case <-releases:
				end()
			case <-term.Done():
			}
		}()
		if err := campaign(term, config, given); err != nil {
			klog.Errorf("the manager ended: %v", err)
		}
		end()
		select {
		case <-ctx.Done():
		case <-time.After(given.holdOff):
		}
	}
}
