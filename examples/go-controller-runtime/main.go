// A manager of controller-runtime whose controllers run in one cluster of many at a time.
//
// 	go run . --namespace default --name my-app
//
// Each cluster needs the definition of MultiClusterLease and a controller of Tenure: docs/guide/multicluster.md. Run as
// many replicas as you like, in as many clusters as you like. The manager uses only the API server of its own cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tenure-js/tenure/go/multiclusterlease"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reconciler represents your controllers. They need no change, because the manager starts them when it leads.
type reconciler struct {
	client client.Client
	lock   *multiclusterlease.Lock
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var found corev1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Before a write to a resource that all clusters share, check the clock, and send the term with the write.
	if r.lock.Held() {
		fmt.Printf("reconciled %s in term %d\n", request.Name, r.lock.Term())
	}
	return ctrl.Result{}, nil
}

func run(ctx context.Context, config *rest.Config, namespace, name, identity string, lease time.Duration) error {
	lock, err := multiclusterlease.New(config, namespace, name, identity, multiclusterlease.WithLeaseDuration(lease))
	if err != nil {
		return err
	}
	// The proportions of controller-runtime's own defaults: 15, 10 and 2 seconds.
	renewDeadline, retryPeriod := lease*2/3, lease*2/15
	managed, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		// The process exits right after Start returns, so another one may lead at once.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renewDeadline,
		RetryPeriod:                   &retryPeriod,
		Metrics:                       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	controllers := ctrl.NewControllerManagedBy(managed).For(&corev1.ConfigMap{})
	if err := controllers.Complete(&reconciler{managed.GetClient(), lock}); err != nil {
		return err
	}
	// Runs while this manager leads, as the controllers do.
	err = managed.Add(manager.RunnableFunc(func(ctx context.Context) error {
		fmt.Printf("%s leads in term %d\n", identity, lock.Term())
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return err
	}
	// Start returns an error when leadership is lost. The process must then exit, because its controllers may still be
	// running.
	return managed.Start(ctx)
}

func main() {
	host, _ := os.Hostname()
	namespace := flag.String("namespace", "default", "namespace of the MultiClusterLease, the same in all clusters")
	name := flag.String("name", "my-app", "name of the MultiClusterLease, the same in all clusters")
	identity := flag.String("identity", host, "name of this replica, different from the others in this cluster")
	lease := flag.Duration("lease", 15*time.Second, "how long the others wait after a crash")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie(), *namespace, *name, *identity, *lease); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
