// Package answer brings what callers answer to the replica that asked them. A client of an older revision is asked in the
// response to its own request, and answers by a request of its own, which any replica may receive. The id of what it is
// asked names the replica that waits; only the session that was asked can answer it, and once. Nothing is stored: an
// answer that finds no one waiting is dropped. Package api/mcp asks.
package answer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

const (
	// MaxSize bounds an answer, in bytes.
	MaxSize = 1 << 20
	// Bounds of the questions that wait on one replica.
	maxWaiting, maxOrganization, maxSession = 1000, 100, 16
	// sendTime bounds the way of an answer to another replica.
	sendTime = 2 * time.Second
)

// Channel carries texts to replicas.
type Channel interface {
	// Send sends a text to a replica, by its name. A replica that doesn't receive is no error.
	Send(ctx context.Context, replica string, text []byte) error
	// Receive calls f for each text that is sent to a replica, one at a time, until ctx ends.
	Receive(ctx context.Context, replica string, f func(text []byte)) error
}

// Errors of questions and answers.
var (
	// ErrTooMany is the error of a question that can't wait for its answer.
	ErrTooMany = apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "too many questions to callers wait for their answers")
	// ErrTooLarge is the error of an answer of more than MaxSize bytes.
	ErrTooLarge = apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, "result: larger than 1 MiB")
	errAway     = apierr.Unavailable("the answer can't be passed on at the moment", nil)
)

// Router brings answers to the questions that wait for them. Safe for concurrent use.
type Router struct {
	channel Channel
	replica string

	mu      sync.Mutex
	waiting map[string]*Question // by the random part of their ids
	counts  map[string]int       // by organization, and by session
}

// NewRouter returns the Router of a replica.
func NewRouter(channel Channel) *Router {
	return &Router{channel: channel, replica: rand.Text(), waiting: make(map[string]*Question), counts: make(map[string]int)}
}

// Run receives the answers that other replicas took, until ctx ends.
func (r *Router) Run(ctx context.Context) error {
	err := r.channel.Receive(ctx, r.replica, func(text []byte) {
		var a passed
		if json.Unmarshal(text, &a) != nil {
			return // Another version's.
		}
		if m, err := wire.Parse(a.Message); err == nil {
			r.deliver(a.Organization, a.Session, a.Name, &m)
		}
	})
	if err != nil {
		return fmt.Errorf("answers of callers: %w", err)
	}
	return nil
}

// passed is an answer on its way to the replica that waits for it.
type passed struct {
	Organization string          `json:"o"`
	Session      string          `json:"s"`
	Name         string          `json:"n"`
	Message      json.RawMessage `json:"m"`
}

// Question is what the client of a session is asked.
type Question struct {
	// ID is that of the request: a JSON string that can't be guessed.
	ID json.RawMessage

	router                      *Router
	name, organization, session string
	answer                      chan answer
}

// answer is what a client answers.
type answer struct {
	result json.RawMessage
	err    error
}

// names returns the names under which a question is counted.
func (q *Question) names() [2]string {
	return [2]string{q.organization, q.organization + "\x00" + q.session}
}

// Expect returns a question to the client of a session, which must be closed.
func (r *Router) Expect(s *session.Session) (*Question, error) {
	q := &Question{router: r, name: rand.Text(), organization: s.Owner.Organization, session: s.ID, answer: make(chan answer, 1)}
	q.ID = jsontext.AppendText(nil, r.replica+"."+q.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	names := q.names()
	if len(r.waiting) >= maxWaiting || r.counts[names[0]] >= maxOrganization || r.counts[names[1]] >= maxSession {
		return nil, ErrTooMany
	}
	r.waiting[q.name] = q
	for _, name := range names {
		r.counts[name]++
	}
	return q, nil
}

// Wait returns the result that the client answers. The error is a *wire.Error where it answers with one, otherwise
// that of ctx.
func (q *Question) Wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case got := <-q.answer:
		return got.result, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the question. Its answer is no longer of use to anyone.
func (q *Question) Close() {
	q.router.mu.Lock()
	defer q.router.mu.Unlock()
	if _, ok := q.router.waiting[q.name]; ok {
		q.router.remove(q)
	}
}

// remove removes a question that waits. The caller holds mu.
func (r *Router) remove(q *Question) {
	delete(r.waiting, q.name)
	for _, name := range q.names() {
		if r.counts[name]--; r.counts[name] == 0 {
			delete(r.counts, name)
		}
	}
}

// Take takes a response that the client of a session has sent. One that answers nothing is dropped. The error is
// ErrTooLarge, and the question has an error as its answer then, or says that its replica can't be reached.
func (r *Router) Take(ctx context.Context, s *session.Session, m *wire.Message) error {
	id, ok := wire.Text(m.ID)
	replica, name, dotted := strings.Cut(id, ".")
	if !ok || !dotted || !isName(replica) || !isName(name) {
		return nil
	}
	var failure error
	if len(m.Result) > MaxSize || m.Error != nil && len(m.Error.Message)+len(m.Error.Data) > MaxSize {
		failure = ErrTooLarge
		m = &wire.Message{ID: m.ID, Error: &wire.Error{Code: wire.CodeInvalidParams, Message: ErrTooLarge.Text}}
	}
	if replica == r.replica {
		r.deliver(s.Owner.Organization, s.ID, name, m)
		return failure
	}
	text, err := json.Marshal(passed{s.Owner.Organization, s.ID, name, m.Append(nil)})
	if err != nil {
		return apierr.Internal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := r.channel.Send(ctx, replica, text); err != nil {
		return errAway.Wrap(err)
	}
	return failure
}

// isName reports whether a text is one of rand.Text.
func isName(text string) bool {
	return len(text) == len("AAAAAAAAAAAAAAAAAAAAAAAAAA") && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// deliver gives an answer to the question that waits for it, if it is one to this session.
func (r *Router) deliver(organization, of, name string, m *wire.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.waiting[name]
	if q == nil || q.organization != organization || q.session != of {
		return
	}
	r.remove(q)
	got := answer{result: m.Result}
	if m.Error != nil {
		got.err = m.Error
	}
	q.answer <- got // There is room for one, and no other comes.
}
