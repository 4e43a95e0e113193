// Package background keeps the requests of the Responses API that are answered in the background, and gives each to one
// replica at a time. A request outlives its connection and its replica: another one takes over what a replica no longer
// holds. The end of a response is written once. Package api makes the responses; internal/postgres keeps the rows.
package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"switchyard.dev/services/gateway/internal/serving/conversation"
)

// Errors of the queue.
var (
	// ErrFull is the error of a request whose organization has MaxQueued of them.
	ErrFull = errors.New("too many responses are made in the background")
	// ErrEnded is the cause of the end of a response that was cancelled, deleted or taken over.
	ErrEnded = errors.New("the response is no longer this replica's")
	// ErrStopping is the cause of the end of a response whose replica stops.
	ErrStopping = errors.New("the service is stopping")
)

// Bounds.
const (
	// MaxQueued is how many responses of an organization may be queued or made at the same time.
	MaxQueued = 1000
	// MaxAttempts is how often a response is begun.
	MaxAttempts = 2
	// MaxEvents bounds the events of a response that are kept, in bytes.
	MaxEvents = 16 << 20

	// hold is how long a replica holds a response without renewing, renewEvery how often it renews. A cancelled response
	// ends within that time.
	hold       = 15 * time.Second
	renewEvery = 500 * time.Millisecond
)

// Job is a response to be made.
type Job struct {
	conversation.Scope

	ID string
	// Streamed reports whether its events are kept.
	Streamed bool
	// Request is what its maker needs.
	Request json.RawMessage
	// Attempts is how often it was begun, this time included. LastEvent is the number of its last stored event; -1 for none.
	Attempts, LastEvent int
	// Record is the response as it was queued.
	Record conversation.Record
}

// queuedEvents is the number of events that are stored when a streamed job is queued.
const queuedEvents = 2

// Again reports whether the response may be begun anew: not if its readers have seen a part of it, which a second answer
// would contradict.
func (j *Job) Again() bool { return j.Attempts <= MaxAttempts && j.LastEvent < queuedEvents }

// Row is a stored job, with its request sealed.
type Row struct {
	conversation.Scope

	ID       string
	Streamed bool
	Key      string
	Sealed   []byte
	// Attempts and LastEvent are as in Job.
	Attempts, LastEvent int
}

// Events are consecutive events of a response: server-sent events as text.
type Events struct {
	First, Last int
	Text        []byte
}

// SealedEvents are stored events.
type SealedEvents struct {
	First, Last int
	Key         string
	Sealed      []byte
}

// Store keeps jobs and events.
type Store interface {
	// Insert queues a job with its response and its first events, unless its organization has most jobs: then it returns
	// false.
	Insert(ctx context.Context, r Row, response conversation.Row, events *SealedEvents, most int) (bool, error)
	// Claim gives a holder up to limit jobs that have none, oldest first, except those of some organizations.
	Claim(ctx context.Context, holder string, now, until time.Time, limit int, full []string) ([]Row, error)
	// Renew keeps a holder's jobs until a time, and returns which it still has.
	Renew(ctx context.Context, holder string, until time.Time) ([]string, error)
	// Release queues a holder's job again. One that was not begun is no attempt.
	Release(ctx context.Context, holder, id string, begun bool) error
	// End ends a holder's job with its response and its last events. It returns false, and changes nothing, where the
	// holder no longer has it. An empty holder is any: the job is cancelled.
	End(ctx context.Context, holder string, response conversation.Row, events *SealedEvents) (bool, error)
	// State returns queued, in_progress, or nothing for a response that has ended.
	State(ctx context.Context, organization, id string) (string, error)
	// Append stores events.
	Append(ctx context.Context, id string, e SealedEvents) error
	// Events returns up to limit stored events whose last is after a number, in order.
	Events(ctx context.Context, id string, after, limit int) ([]SealedEvents, error)
}

// Conversations keeps the responses; see conversation.Manager.
type Conversations interface {
	Seal(s conversation.Scope, r conversation.Record) (conversation.Row, error)
	Get(ctx context.Context, s conversation.Scope, id string) (conversation.Record, error)
}

// Sealer encrypts texts to an organization; see conversation.Sealer.
type Sealer = conversation.Sealer

// The names that texts are sealed with, so that none can stand in for another.
func requestName(id string) string         { return "background request " + id }
func eventsName(id string, n int) string   { return fmt.Sprintf("response events %s %d", id, n) }
func packed(text []byte) []byte            { return s2.Encode(nil, text) }
func unpacked(text []byte) ([]byte, error) { return s2.Decode(nil, text) }

// Create queues a job. events are those that its readers see before it is begun; nil unless it is streamed. The error is
// ErrFull for one too many.
func (q *Queue) Create(ctx context.Context, j Job, events *Events) error {
	key, sealed, err := q.sealer.Seal(j.Organization, requestName(j.ID), packed(j.Request))
	if err != nil {
		return fmt.Errorf("seal request: %w", err)
	}
	response, err := q.conversations.Seal(j.Scope, j.Record)
	if err != nil {
		return err
	}
	first, err := q.sealEvents(j.Organization, j.ID, events)
	if err != nil {
		return err
	}
	row := Row{Scope: j.Scope, ID: j.ID, Streamed: j.Streamed, Key: key, Sealed: sealed}
	queued, err := q.store.Insert(ctx, row, response, first, MaxQueued)
	if err == nil && !queued {
		err = ErrFull
	}
	if err == nil {
		signal(q.wake)
	}
	return err
}

// Finish ends a job that this replica makes, with its record and its last events. It reports whether it did: another end
// may have come before.
func (q *Queue) Finish(ctx context.Context, j *Job, end conversation.Record, last *Events) (bool, error) {
	return q.end(ctx, q.replica, j.Scope, end, last)
}

// Cancel ends a job wherever it is made. It reports whether it did.
func (q *Queue) Cancel(ctx context.Context, s conversation.Scope, end conversation.Record) (bool, error) {
	return q.end(ctx, "", s, end, nil)
}

func (q *Queue) end(ctx context.Context, holder string, s conversation.Scope, end conversation.Record, last *Events) (bool, error) {
	response, err := q.conversations.Seal(s, end)
	if err != nil {
		return false, err
	}
	events, err := q.sealEvents(s.Organization, end.ID, last)
	if err != nil {
		return false, err
	}
	return q.store.End(ctx, holder, response, events)
}

// State returns queued or in_progress; nothing for a response that has ended.
func (q *Queue) State(ctx context.Context, organization, id string) (string, error) {
	return q.store.State(ctx, organization, id)
}

// Append stores events of a job.
func (q *Queue) Append(ctx context.Context, j *Job, e Events) error {
	sealed, err := q.sealEvents(j.Organization, j.ID, &e)
	if err != nil {
		return err
	}
	return q.store.Append(ctx, j.ID, *sealed)
}

// eventRows is the number of stored rows that are read at once.
const eventRows = 64

// Events returns some of the events of a response that come after a number, in order; none where there are no more yet.
func (q *Queue) Events(ctx context.Context, organization, id string, after int) ([]Events, error) {
	rows, err := q.store.Events(ctx, id, after, eventRows)
	if err != nil {
		return nil, err
	}
	events := make([]Events, len(rows))
	for i, row := range rows {
		text, err := q.open(organization, eventsName(id, row.First), row.Key, row.Sealed)
		if err != nil {
			return nil, fmt.Errorf("open events: %w", err)
		}
		events[i] = Events{row.First, row.Last, text}
	}
	return events, nil
}

func (q *Queue) sealEvents(organization, id string, e *Events) (*SealedEvents, error) {
	if e == nil {
		return nil, nil //nolint:nilnil // No events are no error.
	}
	key, sealed, err := q.sealer.Seal(organization, eventsName(id, e.First), packed(e.Text))
	if err != nil {
		return nil, fmt.Errorf("seal events: %w", err)
	}
	return &SealedEvents{e.First, e.Last, key, sealed}, nil
}

func (q *Queue) open(organization, name, key string, sealed []byte) ([]byte, error) {
	text, err := q.sealer.Open(organization, name, key, sealed)
	if err != nil {
		return nil, err
	}
	return unpacked(text)
}
