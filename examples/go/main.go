// A program that works in one process at a time, using the election service and no other dependency.
//
// 	TENURE_URL=http://127.0.0.1:7070 go run . nightly-report
//
// Start as many as you like. One of them works. When it ends or dies, another one continues. Put your own code into the
// function work.
//
// TENURE_NODE is the name of this candidate, and TENURE_TTL the lease in seconds. For a service on another machine,
// TENURE_TOKEN_FILE names the file with the token, and TENURE_CA_FILE the authority of the service's certificate.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/tenure-js/tenure/go/election"
)

// work contains what only one process may do at a time. It returns soon after the context has ended.
//
// Send lease.Term() with every write, and let the resource refuse lower terms. Nothing else helps against a program that
// was paused between its last check of the lease and its write.
func work(ctx context.Context, lease *election.Lease, pause time.Duration) {
	for lease.Held() {
		fmt.Printf("term %d: works\n", lease.Term())
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func run(ctx context.Context, group string) error {
	options, err := optionsFromEnvironment()
	if err != nil {
		return err
	}
	client, err := election.New(setting("TENURE_URL", "http://127.0.0.1:7070"), options)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Run(ctx, group, func(ctx context.Context, lease *election.Lease) error {
		fmt.Printf("%s leads in term %d\n", options.NodeID, lease.Term())
		work(ctx, lease, options.LeaseTTL/30)
		fmt.Printf("%s has ended term %d\n", options.NodeID, lease.Term())
		return nil
	})
}

func optionsFromEnvironment() (election.Options, error) {
	host, _ := os.Hostname()
	options := election.Options{NodeID: setting("TENURE_NODE", fmt.Sprintf("%s-%d", host, os.Getpid()))}
	seconds, err := strconv.ParseFloat(setting("TENURE_TTL", "15"), 64)
	if err != nil || seconds <= 0 {
		return options, errors.New("TENURE_TTL must be a number of seconds")
	}
	options.LeaseTTL = time.Duration(seconds * float64(time.Second))
	if file := os.Getenv("TENURE_TOKEN_FILE"); file != "" {
		// Read for each request, because it is replaced before it expires.
		options.TokenSource = func(context.Context) (string, error) {
			token, err := os.ReadFile(file)
			return string(token), err
		}
	}
	if file := os.Getenv("TENURE_CA_FILE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return options, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return options, fmt.Errorf("%s has no certificate", file)
		}
		options.TLS = &tls.Config{RootCAs: pool}
	}
	return options, nil
}

func setting(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

func main() {
	group := "go"
	if len(os.Args) > 1 {
		group = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, group); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
