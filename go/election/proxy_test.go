package election_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"sync"
	"testing"
)

// sent is a request that reached the proxy.
type sent struct {
	action  string
	header  http.Header
	Attempt string `json:"attempt"`
	Start   string `json:"instance_start_uuid"`
	Term    int64  `json:"term"`
}

// proxy is between a client and the service, and loses or delays messages as a test requires.
type proxy struct {
	url     string
	forward *httputil.ReverseProxy

	mutex    sync.Mutex
	target   *url.URL
	requests []sent
	// Called for each answer before it is forwarded. If it returns false, the answer is lost: the service has carried out
	// the request, but the connection breaks.
	answer func(number int, request sent) bool
	// Called for each request before it is forwarded.
	arrive func(request *http.Request)
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{}
	p.leadTo(t, target)
	p.forward = &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(request *httputil.ProxyRequest) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			request.SetURL(p.target)
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(p)
	p.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

func (p *proxy) leadTo(t *testing.T, target string) {
	t.Helper()
	parsed, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.target = parsed
}

func (p *proxy) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	seen := sent{action: path.Base(request.URL.Path), header: request.Header.Clone()}
	_ = json.Unmarshal(body, &seen)
	p.mutex.Lock()
	p.requests = append(p.requests, seen)
	number := len(p.requests)
	arrive, answer := p.arrive, p.answer
	p.mutex.Unlock()
	if arrive != nil {
		arrive(request)
	}
	if answer == nil || seen.action == "watch" {
		p.forward.ServeHTTP(writer, request)
		return
	}
	// The service carries out the request even if the client is gone.
	recorded := httptest.NewRecorder()
	p.forward.ServeHTTP(recorded, request)
	if !answer(number, seen) {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(writer.Header(), recorded.Header())
	writer.WriteHeader(recorded.Code)
	_, _ = writer.Write(recorded.Body.Bytes())
}

// of returns the requests of one kind so far.
func (p *proxy) of(action string) []sent {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var found []sent
	for _, request := range p.requests {
		if request.action == action {
			found = append(found, request)
		}
	}
	return found
}

func (p *proxy) setAnswer(answer func(int, sent) bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.answer = answer
}

func (p *proxy) setArrive(arrive func(*http.Request)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.arrive = arrive
}
