// A program that works in one cluster of many at a time, with the leader election of client-go.
//
// 	go run . --namespace default --name my-app
//
// Each cluster needs the definition of MultiClusterLease and a controller of Tenure: docs/guide/multicluster.md. Run as
// many replicas as you like, in as many clusters as you like. The program uses only the API server of its own cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tenure-js/tenure/go/multiclusterlease"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
)

// work contains what only one process may do at a time. It returns soon after the context has ended.
func work(ctx context.Context, lock *multiclusterlease.Lock) {
	for ctx.Err() == nil {
		// Check the clock before each write, and send the term with it, so that the resource can refuse a lower term.
		if lock.Held() {
			fmt.Printf("works in term %d\n", lock.Term())
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func run(ctx context.Context, config *rest.Config, namespace, name, identity string, lease time.Duration) error {
	lock, err := multiclusterlease.New(config, namespace, name, identity, multiclusterlease.WithLeaseDuration(lease))
	if err != nil {
		return err
	}
	// The elector releases the lease as soon as its own context ends. The work must have returned by then, so that
	// context ends only afterwards.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	worked := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		ReleaseOnCancel: true,
		// The proportions of the defaults of controller-runtime: 15, 10 and 2 seconds.
		LeaseDuration: lease,
		RenewDeadline: lease * 2 / 3,
		RetryPeriod:   lease * 2 / 15,
		Name:          name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer close(worked)
				fmt.Printf("%s leads in term %d\n", identity, lock.Term())
				working, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				work(working, lock)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if elector.IsLeader() {
			<-worked
		}
		release()
	})()
	elector.Run(electing)
	if ctx.Err() == nil {
		// The process must exit, because its work may not have returned yet.
		return fmt.Errorf("%s has lost its lease", identity)
	}
	return nil
}

func main() {
	host, _ := os.Hostname()
	namespace := flag.String("namespace", "default", "namespace of the MultiClusterLease, the same in all clusters")
	name := flag.String("name", "my-app", "name of the MultiClusterLease, the same in all clusters")
	identity := flag.String("identity", host, "name of this replica, different from the others in this cluster")
	lease := flag.Duration("lease", 15*time.Second, "how long the others wait after a crash")
	flag.Parse()
	// Load the kubeconfig from KUBECONFIG or the home directory, or use the service account in a pod.
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, config, *namespace, *name, *identity, *lease)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
