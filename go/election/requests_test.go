package election_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tenure-js/tenure/go/election"
)

func expectCode(t *testing.T, err error, code election.Code) {
	t.Helper()
	var refused *election.Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func noWork(context.Context, *election.Lease) error { return nil }

func TestNewRefusesOptionsThatCannotBeSafe(t *testing.T) {
	const here = "http://127.0.0.1:7070"
	for _, wrong := range []struct {
		address string
		options election.Options
		says    string
	}{
		{"127.0.0.1:7070", election.Options{}, "not an http:// or https:// address"},
		{here, election.Options{Replicas: []string{"ftp://a"}}, `"ftp://a"`},
		{here, election.Options{LeaseTTL: -1}, "LeaseTTL must be at least 1 ms"},
		{here, election.Options{LeaseTTL: 3 * time.Second, CallTimeout: 2 * time.Second}, "must fit into LeaseTTL (3s)"},
		{here, election.Options{LeaseTTL: 10 * time.Second, Margin: time.Millisecond}, "at least a fiftieth of LeaseTTL"},
		{here, election.Options{Token: "a", TokenSource: func(context.Context) (string, error) { return "b", nil }}, "not both"},
		{"http://elections.example.com", election.Options{Token: "a"}, "without TLS"},
		{"https://elections.example.com", election.Options{Token: "a", Replicas: []string{"http://b.example.com"}}, "without TLS"},
	} {
		if _, err := election.New(wrong.address, wrong.options); err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("got %v, want %q", err, wrong.says)
		}
	}
}

func TestARefusalHasTheCodeOfTheService(t *testing.T) {
	address := sharedService(t)
	impatient := newClient(t, address, election.Options{LeaseTTL: 20 * time.Millisecond})
	err := impatient.Run(context.Background(), group(t), noWork)
	expectCode(t, err, election.CodeInvalidTTL)
	var refused *election.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || refused.RequestID == "" || refused.Message == "" {
		t.Errorf("%+v", refused)
	}
	expectCode(t, newClient(t, address, election.Options{}).Run(context.Background(), "no/group", noWork), election.CodeInvalidRequest)
}

func TestAnAnswerThatDoesNotComeFromTheServiceIsAnError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, _, err := newClient(t, server.URL, election.Options{}).Leader(context.Background(), group(t))
	expectCode(t, err, election.CodeBackendUnavailable)
}

func TestLeaderDescribesTheLeader(t *testing.T) {
	address := sharedService(t)
	options := election.Options{NodeID: "a", LeaseTTL: calm, Metadata: map[string]any{"zone": "east"}}
	client := newClient(t, address, options)
	before := time.Now().Add(-time.Second)
	run(t, client, group(t)).lead()
	leader, ok, err := client.Leader(context.Background(), group(t))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if leader.NodeID != "a" || leader.Term != 1 || leader.LeaseTTL != calm || leader.Metadata["zone"] != "east" {
		t.Errorf("%+v", leader)
	}
	if leader.Remaining <= 0 || leader.Remaining > calm || leader.AcquiredAt.Before(before) {
		t.Errorf("%+v", leader)
	}
}

func TestTheTokenSourceIsCalledForEachRequest(t *testing.T) {
	middle := startProxy(t, sharedService(t))
	count := 0
	source := func(context.Context) (string, error) {
		count++
		return fmt.Sprintf("token-%d\n", count), nil
	}
	client := newClient(t, middle.url, election.Options{TokenSource: source})
	for range 2 {
		_, _, _ = client.Leader(context.Background(), group(t))
	}
	for index, request := range middle.of("leader") {
		if got, expected := request.header.Get("Authorization"), fmt.Sprintf("Bearer token-%d", index+1); got != expected {
			t.Errorf("got %q, want %q", got, expected)
		}
	}
	failure := errors.New("the file is gone")
	broken := election.Options{TokenSource: func(context.Context) (string, error) { return "", failure }}
	if _, _, err := newClient(t, middle.url, broken).Leader(context.Background(), group(t)); !errors.Is(err, failure) {
		t.Error(err)
	}
	if sent := len(middle.of("leader")); sent != 2 {
		t.Errorf("got %d requests, one of which has no token", sent)
	}
}

func TestARedirectIsNotFollowedWithTheToken(t *testing.T) {
	elsewhere := startProxy(t, "http://127.0.0.1:1")
	server := httptest.NewServer(http.RedirectHandler(elsewhere.url, http.StatusTemporaryRedirect))
	defer server.Close()
	for _, options := range []election.Options{{Token: "secret"}, {Token: "secret", HTTPClient: &http.Client{}}} {
		_, _, err := newClient(t, server.URL, options).Leader(context.Background(), group(t))
		expectCode(t, err, election.CodeBackendUnavailable)
	}
	elsewhere.mutex.Lock()
	defer elsewhere.mutex.Unlock()
	if len(elsewhere.requests) != 0 {
		t.Errorf("%+v", elsewhere.requests)
	}
}

func TestTLSAndHTTPClientConfigureConnections(t *testing.T) {
	target, err := url.Parse(sharedService(t))
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) }}
	server := httptest.NewTLSServer(forward)
	defer server.Close()
	server.Config.ErrorLog = nil
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for _, trusted := range []election.Options{{TLS: &tls.Config{RootCAs: roots}}, {HTTPClient: server.Client()}} {
		if _, _, err := newClient(t, server.URL, trusted).Leader(context.Background(), group(t)); err != nil {
			t.Error(err)
		}
	}
	_, _, err = newClient(t, server.URL, election.Options{}).Leader(context.Background(), group(t))
	var unknown *tls.CertificateVerificationError
	if !errors.As(err, &unknown) {
		t.Error(err)
	}
}

func TestACallIsBoundedEvenIfNothingAnswers(t *testing.T) {
	middle := startProxy(t, sharedService(t))
	gone := make(chan struct{})
	defer close(gone)
	middle.setArrive(func(*http.Request) { <-gone })
	client := newClient(t, middle.url, election.Options{CallTimeout: 100 * time.Millisecond})
	_, _, err := client.Leader(context.Background(), group(t))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
