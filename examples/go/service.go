package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const largestAnswer = 1 << 20

// Answer has the fields of all answers that a candidate needs.
type Answer struct {
	OK       bool `json:"ok"`
	IsLeader bool `json:"is_leader"`
	Leader   *struct {
		NodeID           string  `json:"node_id"`
		Term             int64   `json:"term"`
		LeaseRemainingMs float64 `json:"lease_remaining_ms"`
	} `json:"leader"`
	RetryAfterMs float64 `json:"retry_after_ms"`
	Error        string  `json:"error"`
	Message      string  `json:"message"`
}

// Service calls one group.
type Service struct {
	group     string
	node      string
	tokenFile string
	client    *http.Client
}

// NewService checks what it was given: a token is sent over TLS only, or to this machine.
func NewService(address, group, node, tokenFile, caFile string) (*Service, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return nil, err
	}
	if tokenFile != "" && base.Scheme != "https" && !isLoopback(base.Hostname()) {
		return nil, errors.New("a token is sent over https:// only: everybody on the way could use it")
	}
	transport := &http.Transport{}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	client := &http.Client{
		Transport: transport,
		// A token goes nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Service{base.JoinPath("v1/groups", url.PathEscape(group)).String(), node, tokenFile, client}, nil
}

// Ask gives the answer, within a time for all of it. With an error, nobody knows whether it was done.
func (s *Service) Ask(ctx context.Context, action string, timeout time.Duration, body map[string]any) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body["node_id"] = s.node
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.group+"/"+action, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("content-type", "application/json")
	if s.tokenFile != "" {
		// Read again each time: it is replaced before it ends.
		token, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer Answer
	if err := json.NewDecoder(io.LimitReader(response.Body, largestAnswer)).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		fmt.Fprintf(os.Stderr, "%s: %s: %s\n", action, answer.Error, answer.Message)
	}
	return &answer, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func newID() string {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes)
}
