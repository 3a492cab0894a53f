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

// EventType says what an [Event] reports.
type EventType string

const (
	// EventState: the present state of the group. A watch begins with it.
	EventState EventType = "STATE"
	// EventLeaderChanged: a new leader.
	EventLeaderChanged EventType = "LEADER_CHANGED"
	// EventLeaderLost: the term has ended; Reason says why.
	EventLeaderLost EventType = "LEADER_LOST"
	// EventGap: some changes are unknown. EventState follows.
	EventGap EventType = "GAP"

	eventTooSlow EventType = "TOO_SLOW"
)

// Event is a change of a group's leadership.
type Event struct {
	// Type says what is reported.
	Type EventType
	// Group is the group; empty for EventGap.
	Group string
	// Term is the newest term of the group; 0 if there was none.
	Term int64
	// NodeID is the node that leads; of EventLeaderLost, the node that did. Empty if nobody leads.
	NodeID string
	// Reason is why a term ended: "expired", "resigned" or "deleted".
	Reason string
	// Leader describes the leader; nil if nobody leads.
	Leader *Leader
	// At is when it happened, on the service's wall clock: for people.
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
	errSilent  = errors.New("election: the stream shows no sign of life")
)

// Watch returns the state of the group and then its changes, in order, until ctx ends. It connects again by itself and
// resumes where it was: no change is missed, or an [EventGap] and the state take its place. An error is the last thing
// that it yields: the service refuses the watch, and would refuse it again.
//
// Watch starts no goroutine. The loop that reads it should be quick: the service ends a stream whose reader does not keep
// up, and Watch then resumes it.
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
				// The service does not know the cursor, after a restored backup for example.
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
	// Where to go on.
	cursor string
	// The caller has left the loop.
	stopped bool
	// This stream has shown an event.
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
		return fmt.Errorf("election: an event is not understood: %w", err)
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
	// An event without an id has no place of its own: after it, the stream is resumed from the one before.
	if id != "" {
		w.cursor = id
	}
	return nil
}
