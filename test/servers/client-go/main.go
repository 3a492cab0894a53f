// Campaigns with client-go for one Lease or MultiClusterLease, and again after each loss, like a pod that restarts.
// Prints each callback as a line of JSON, with the time of CLOCK_MONOTONIC, which Node's process.hrtime() also reads.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

type event struct {
	Event    string `json:"event"`
	Identity string `json:"identity"`
	// The leaseTransitions in the Lease. Only set when this candidate starts to lead.
	Transitions *int64  `json:"transitions,omitempty"`
	MonotonicMs float64 `json:"monotonic_ms"`
}

// lock remembers the leaseTransitions of the last write.
type lock struct {
	resourcelock.Interface
	transitions atomic.Int64
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.transitions.Store(int64(record.LeaderTransitions))
	return l.Interface.Create(ctx, record)
}

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.transitions.Store(int64(record.LeaderTransitions))
	return l.Interface.Update(ctx, record)
}

func monotonicMs() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return float64(now.Nano()) / 1e6
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	caFile := flag.String("ca-file", "", "what its certificate is verified with")
	token := flag.String("token", "", "bearer token")
	namespace := flag.String("namespace", "default", "namespace of the Lease")
	name := flag.String("lease", "", "name of the Lease")
	identity := flag.String("identity", "", "name of this candidate")
	leaseDuration := flag.Duration("lease-duration", 15*time.Second, "")
	renewDeadline := flag.Duration("renew-deadline", 10*time.Second, "")
	retryPeriod := flag.Duration("retry-period", 2*time.Second, "")
	releaseOnCancel := flag.Bool("release-on-cancel", true, "")
	multicluster := flag.Bool("multicluster", false, "campaign for the MultiClusterLease of that name")
	flag.Parse()
	klog.SetLogger(klog.Logger{})

	config := &rest.Config{Host: *server, BearerToken: *token, TLSClientConfig: rest.TLSClientConfig{CAFile: *caFile}}
	var inner resourcelock.Interface
	var err error
	if *multicluster {
		inner, err = newDocumentLock(config, *namespace, *name, *identity, *leaseDuration)
	} else {
		inner, err = resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, *namespace, *name,
			resourcelock.ResourceLockConfig{Identity: *identity}, config, *renewDeadline)
	}
	if err != nil {
		log.Fatal(err)
	}
	held := &lock{Interface: inner}

	var mutex sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	say := func(line event) {
		if err := encoder.Encode(line); err != nil {
			log.Fatal(err)
		}
	}
	campaign := func(ctx context.Context) {
		var started, stopped bool
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock:            held,
			LeaseDuration:   *leaseDuration,
			RenewDeadline:   *renewDeadline,
			RetryPeriod:     *retryPeriod,
			ReleaseOnCancel: *releaseOnCancel,
			Callbacks: leaderelection.LeaderCallbacks{
				// client-go calls this in another goroutine, so leadership may already have ended.
				OnStartedLeading: func(context.Context) {
					now := monotonicMs()
					mutex.Lock()
					defer mutex.Unlock()
					if !stopped {
						started = true
						transitions := held.transitions.Load()
						say(event{"started", *identity, &transitions, now})
					}
				},
				// client-go calls this even if the candidate never led.
				OnStoppedLeading: func() {
					now := monotonicMs()
					mutex.Lock()
					defer mutex.Unlock()
					stopped = true
					if started {
						say(event{"stopped", *identity, nil, now})
					}
				},
				OnNewLeader: func(leader string) {
					now := monotonicMs()
					mutex.Lock()
					defer mutex.Unlock()
					say(event{"new-leader", leader, nil, now})
				},
			},
		})
	}

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	for ctx.Err() == nil {
		campaign(ctx)
	}
}
