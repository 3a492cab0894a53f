package election

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options configures a [Client]. The zero value works on the machine of the service.
type Options struct {
	// NodeID is the name under which the service shows this candidate. A token or a client certificate may require a
	// particular name. Default: the host's name and the process id.
	NodeID string

	// LeaseTTL is how long a lease lasts after its last renewal, and so how long other nodes wait after a crash. The
	// service refuses durations outside the group's policy with [CodeInvalidTTL]. Renewals are sent every third of it.
	// Default: 15 s.
	LeaseTTL time.Duration

	// Margin is how long before the end of its lease a leader stops. It covers clocks that run at slightly different
	// speeds, and the time that the work takes to return. Default: a tenth of LeaseTTL.
	Margin time.Duration

	// CallTimeout bounds each call. Default: a fifth of LeaseTTL.
	CallTimeout time.Duration

	// DrainTimeout is how long a lease is still renewed for work that has not returned after the context of
	// [Client.Run] has ended. After that the lease expires, and Run still waits for the work. Default: 30 s.
	DrainTimeout time.Duration

	// Metadata is published with the leader, such as an address, a zone or a version. At most 4,096 bytes of JSON.
	Metadata map[string]any

	// Replicas are further addresses of the same service. A call that fails at one address is repeated at the next.
	Replicas []string

	// Token is sent with each request, but only over TLS or to this machine.
	Token string

	// TokenSource returns the token for each request, for tokens that are replaced before they expire. Its context ends
	// with the request.
	TokenSource func(context.Context) (string, error)

	// TLS configures connections, such as the authorities to trust and a client certificate. Default: the zero
	// tls.Config.
	TLS *tls.Config

	// HTTPClient replaces the client and its transport. TLS is then not used. Redirects are never followed. The
	// transport should not share one connection among requests, as HTTP/2 does, because a hanging connection would
	// block every renewal.
	HTTPClient *http.Client

	// Logger gets a record for each failed call. Default: slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.NodeID == "" {
		host, _ := os.Hostname()
		o.NodeID = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	setDefault(&o.LeaseTTL, 15*time.Second)
	setDefault(&o.Margin, o.LeaseTTL/10)
	setDefault(&o.CallTimeout, o.LeaseTTL/5)
	setDefault(&o.DrainTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func setDefault(duration *time.Duration, value time.Duration) {
	if *duration == 0 {
		*duration = value
	}
}

func (o Options) check() error {
	if o.LeaseTTL < time.Millisecond || o.Margin < 0 || o.CallTimeout < 0 || o.DrainTimeout < 0 {
		return errors.New("election: LeaseTTL must be at least 1 ms, and Margin, CallTimeout and DrainTimeout must not be negative")
	}
	// Otherwise a renewal that is sent in time can still be too late.
	if o.LeaseTTL/3+o.CallTimeout+o.Margin > o.LeaseTTL {
		return fmt.Errorf("election: a third of LeaseTTL (%v), CallTimeout (%v) and Margin (%v) must fit into LeaseTTL (%v)",
			o.LeaseTTL/3, o.CallTimeout, o.Margin, o.LeaseTTL)
	}
	// A drift of one percent between two clocks takes up to two percent of the lease.
	if o.Margin < o.LeaseTTL/50 {
		return fmt.Errorf("election: Margin (%v) must be at least a fiftieth of LeaseTTL (%v)", o.Margin, o.LeaseTTL)
	}
	if o.Token != "" && o.TokenSource != nil {
		return errors.New("election: set Token or TokenSource, not both")
	}
	return nil
}

func (o Options) hasToken() bool { return o.Token != "" || o.TokenSource != nil }

func (o Options) addresses(first string) ([]*url.URL, error) {
	var addresses []*url.URL
	for _, text := range append([]string{first}, o.Replicas...) {
		address, err := url.Parse(strings.TrimRight(text, "/"))
		if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
			return nil, fmt.Errorf("election: %q is not an http:// or https:// address", text)
		}
		if address.Scheme == "http" && o.hasToken() && !isLoopback(address.Hostname()) {
			return nil, fmt.Errorf("election: a token is not sent to %s without TLS: use https://", address.Host)
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func (o Options) httpClient() *http.Client {
	client := &http.Client{}
	if o.HTTPClient != nil {
		*client = *o.HTTPClient
	} else {
		client.Transport = &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: o.TLS,
			IdleConnTimeout: 90 * time.Second,
			// HTTP/1.1 closes the connection of a call that timed out, so the next try has a fresh one. HTTP/2 would
			// send it over the same connection, no matter how long that one hangs.
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		}
	}
	// A redirect would take the token to another host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func newID() string { return rand.Text() }
