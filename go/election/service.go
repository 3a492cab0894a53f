package election

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	largestAnswer = 1 << 20
	clusterHeader = "Tenure-Cluster-Id"
)

var validGroup = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$`)

// service sends requests to one of its addresses, and switches to the next one when a request fails.
type service struct {
	options   Options
	http      *http.Client
	addresses []*url.URL
	at        atomic.Uint64

	mutex sync.Mutex
	// The id in the first answer. Answers with another id do not count.
	cluster string
}

type answer struct {
	OK           bool        `json:"ok"`
	IsLeader     bool        `json:"is_leader"`
	Leader       *leaderJSON `json:"leader"`
	RetryAfterMs float64     `json:"retry_after_ms"`
	Error        Code        `json:"error"`
	Message      string      `json:"message"`
	RequestID    string      `json:"request_id"`
}

type leaderJSON struct {
	NodeID           string         `json:"node_id"`
	Term             int64          `json:"term"`
	LeaseRemainingMs float64        `json:"lease_remaining_ms"`
	LeaseTTLMs       float64        `json:"lease_ttl_ms"`
	AcquiredAtMs     float64        `json:"acquired_at_ms"`
	Metadata         map[string]any `json:"metadata"`
	Attempt          string         `json:"attempt"`
}

// post sends a JSON body and returns the answer within the timeout. After any error other than an [Error], the outcome
// of the request is unknown.
func (s *service) post(ctx context.Context, group, action string, timeout time.Duration, body any) (*answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, http.MethodPost, group, action, timeout, text)
}

func (s *service) get(ctx context.Context, group, action string, timeout time.Duration) (*answer, error) {
	return s.call(ctx, http.MethodGet, group, action, timeout, nil)
}

func (s *service) call(ctx context.Context, method, group, action string, timeout time.Duration, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := s.send(ctx, method, group, action, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return nil, fmt.Errorf("election: %s of group %q: %w", action, group, err)
	}
	defer response.Body.Close()
	return s.read(response)
}

// send opens one exchange. The caller closes the body.
func (s *service) send(ctx context.Context, method, group, action string, header http.Header, body []byte) (*http.Response, error) {
	if !validGroup.MatchString(group) {
		return nil, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("%q is not the name of a group", group)}
	}
	at := s.at.Load()
	address := s.addresses[at%uint64(len(s.addresses))].JoinPath("v1/groups", group)
	request, err := http.NewRequestWithContext(ctx, method, address.String()+"/"+action, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	if err := s.authorize(ctx, request); err != nil {
		return nil, err
	}
	if cluster := s.knownCluster(); cluster != "" {
		request.Header.Set(clusterHeader, cluster)
	}
	response, err := s.http.Do(request)
	if err != nil || response.StatusCode >= http.StatusInternalServerError {
		// Switch only if no other call has switched in the meantime.
		s.at.CompareAndSwap(at, at+1)
	}
	return response, err
}

func (s *service) authorize(ctx context.Context, request *http.Request) error {
	token := s.options.Token
	if s.options.TokenSource != nil {
		var err error
		if token, err = s.options.TokenSource(ctx); err != nil {
			return fmt.Errorf("no token: %w", err)
		}
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	return nil
}

// read parses an answer. A response that does not come from the service is an error with CodeBackendUnavailable.
func (s *service) read(response *http.Response) (*answer, error) {
	var read answer
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return nil, fmt.Errorf("election: the answer is incomplete: %w", err)
	}
	if err := s.checkCluster(response); err != nil {
		return nil, err
	}
	isJSON := kind == "application/json" && json.Unmarshal(text, &read) == nil
	if isJSON && read.Error != "" {
		return nil, &Error{Code: read.Error, Status: response.StatusCode, Message: read.Message,
			RetryAfter: max(milliseconds(read.RetryAfterMs), retryHeader(response)), RequestID: read.RequestID}
	}
	if !isJSON || response.StatusCode != http.StatusOK {
		return nil, &Error{Code: CodeBackendUnavailable, Status: response.StatusCode, RetryAfter: retryHeader(response),
			Message: fmt.Sprintf("the answer (%s) is not one of an election service", response.Status)}
	}
	return &read, nil
}

func (s *service) knownCluster() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.cluster
}

// checkCluster refuses an answer from a service other than the first one. A response that does not come from a service,
// such as a proxy's, names no cluster.
func (s *service) checkCluster(response *http.Response) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	id := response.Header.Get(clusterHeader)
	if s.cluster == "" && response.StatusCode == http.StatusOK {
		s.cluster = id
	}
	if id == s.cluster || s.cluster == "" || (id == "" && response.StatusCode != http.StatusOK) {
		return nil
	}
	return &Error{Code: CodeWrongCluster, Status: response.StatusCode,
		Message: fmt.Sprintf("the service has the data of cluster %q, not of %q", id, s.cluster)}
}

func retryHeader(response *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func milliseconds(count float64) time.Duration {
	// A longer duration would overflow. A lease is never that long.
	return time.Duration(min(max(count, 0), 1e12) * float64(time.Millisecond))
}
