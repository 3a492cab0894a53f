package election

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"time"
)

// EventType is the kind of an [Event].
type EventType string

const (
	// EventState: the current state of the group. It is the first event of a watch.
	EventState EventType = "STATE"
	// EventLeaderChanged: a new leader.
	EventLeaderChanged EventType = "LEADER_CHANGED"
	// EventLeaderLost: the term has ended. Reason says why.
	EventLeaderLost EventType = "LEADER_LOST"
	// EventGap: some changes are unknown. EventState follows.
	EventGap EventType = "GAP"

	eventTooSlow EventType = "TOO_SLOW"
)

// Event is a change of a group's leadership.
type Event struct {
	// Type is the kind of the event.
	Type EventType
	// Group is the name of the group, or empty for EventGap.
	Group string
	// Term is the newest term of the group, or 0 if there was none.
	Term int64
	// NodeID is the node that leads, or, for EventLeaderLost, the former leader. Empty if nobody leads.
	NodeID string
	// Reason is why a term ended: "expired", "resigned" or "deleted".
	Reason string
	// Leader describes the leader, or is nil if nobody leads.
	Leader *Leader
	// At is when the event happened, on the service's wall clock. For display only.
	At time.Time
}

type eventJSON struct {
	Type         EventType   `json:"type"`
	GroupID      string      `json:"group_id"`
	Term         int64       `json:"term"`
	LeaderNodeID string      `json:"leader_node_id"`
	Reason       string      `json:"reason"`
	Leader       *leaderJSON `json:"leader"`
	HighestTerm  int64       `json:"highest_term"`
	TsMs         float64     `json:"ts_ms"`
}

var (
	errTooSlow = errors.New("election: the service ended the stream because its reader did not keep up")
	errSilent  = errors.New("election: the stream has received nothing for too long")
)

// Watch returns the state of the group and then its changes, in order, until ctx ends. It reconnects by itself and
// resumes at its last position, so it misses no change. If that is not possible, it yields an [EventGap] and the
// current state instead. After an error it yields nothing more, because the service would refuse the watch again.
//
// Watch starts no goroutine. The loop that reads it should be quick: the service ends a stream whose reader does not
// keep up, and Watch then resumes it.
func (c *Client) Watch(ctx context.Context, group string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := &watch{client: c, group: group, yield: yield}
		for failures := 0; ctx.Err() == nil; failures++ {
			w.progressed = false
			err := w.open(ctx)
			if w.stopped {
				return
			}
			if w.progressed {
				failures = 0
			}
			if ctx.Err() != nil {
				return
			}
			if hasCode(err, CodeInvalidRequest) && w.cursor != "" {
				// The service does not know the cursor, for example after a backup was restored.
				w.cursor = ""
				if !yield(Event{Type: EventGap, At: time.Now()}, nil) {
					return
				}
				continue
			}
			if isFinal(err) || hasCode(err, CodeUnauthorized) {
				yield(Event{}, err)
				return
			}
			c.log(ctx, "watch", group, err)
			sleep(ctx, c.backoff(failures, err))
		}
	}
}

type watch struct {
	client *Client
	group  string
	yield  func(Event, error) bool
	// Where to resume.
	cursor string
	// Whether the caller has left the loop.
	stopped bool
	// Whether this stream has delivered an event.
	progressed bool
}

// open reads one stream to its end and returns why it ended.
func (w *watch) open(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	silence := time.AfterFunc(w.client.silence, cancel)
	defer silence.Stop()
	err := w.follow(ctx, silence)
	if ctx.Err() != nil && parent.Err() == nil {
		return errSilent
	}
	return err
}

func (w *watch) follow(ctx context.Context, silence *time.Timer) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if w.cursor != "" {
		header.Set("Last-Event-ID", w.cursor)
	}
	response, err := w.client.service.send(ctx, http.MethodGet, w.group, "watch", header, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := w.admit(response); err != nil {
		return err
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, largestAnswer)
	var id, data string
	for lines.Scan() {
		silence.Reset(w.client.silence)
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "id":
			id = value
		case field == "data":
			data += value
		case lines.Text() == "" && data != "":
			if err := w.show(id, data); err != nil || w.stopped {
				return err
			}
			id, data = "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// admit checks that the answer is a stream of this service.
func (w *watch) admit(response *http.Response) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return w.client.service.checkCluster(response)
	}
	if _, err := w.client.service.read(response); err != nil {
		return err
	}
	return &Error{Code: CodeBackendUnavailable, Status: response.StatusCode,
		Message: "a watch got no event stream; is there a proxy in between?"}
}

func (w *watch) show(id, data string) error {
	var read eventJSON
	if err := json.Unmarshal([]byte(data), &read); err != nil {
		return fmt.Errorf("election: an event cannot be parsed: %w", err)
	}
	if read.Type == eventTooSlow {
		return errTooSlow
	}
	event := Event{Type: read.Type, Group: read.GroupID, Term: max(read.Term, read.HighestTerm), NodeID: read.LeaderNodeID,
		Reason: read.Reason, At: time.UnixMilli(int64(read.TsMs))}
	if leader, ok := read.Leader.leader(); ok {
		event.Leader, event.NodeID = &leader, leader.NodeID
	}
	w.progressed = true
	w.stopped = !w.yield(event, nil)
	// An event without an id has no cursor, so the stream resumes after the event before it.
	if id != "" {
		w.cursor = id
	}
	return nil
}
