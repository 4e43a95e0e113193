package answer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// channel is a Channel within one process.
type channel struct {
	mu    sync.Mutex
	to    map[string]func([]byte)
	sent  int
	err   error
	ready chan struct{}
}

func (c *channel) Send(_ context.Context, replica string, text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	if f := c.to[replica]; f != nil {
		f(text)
	}
	return c.err
}

func (c *channel) Receive(ctx context.Context, replica string, f func([]byte)) error {
	c.mu.Lock()
	c.to[replica] = f
	c.mu.Unlock()
	c.ready <- struct{}{}
	<-ctx.Done()
	return nil
}

// replicas returns two routers that share a channel.
func replicas(t *testing.T) (c *channel, a, b *Router) {
	t.Helper()
	c = &channel{to: make(map[string]func([]byte)), ready: make(chan struct{}, 2)}
	a, b = NewRouter(c), NewRouter(c)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, r := range []*Router{a, b} {
		group.Go(func() { _ = r.Run(ctx) })
		<-c.ready
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	return c, a, b
}

func of(organization, id string) *session.Session {
	return &session.Session{ID: id, Owner: session.Owner{Organization: organization}}
}

func expect(t *testing.T, r *Router, s *session.Session) *Question {
	t.Helper()
	q, err := r.Expect(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// The answer reaches the replica that waits, whichever takes it. Only another replica's needs the channel.
func TestAnswersOnAnyReplica(t *testing.T) {
	c, a, b := replicas(t)
	s := of("acme", "s1")
	for sent, taker := range map[int]*Router{0: a, 2: b} {
		c.sent = 0
		q := expect(t, a, s)
		if err := taker.Take(t.Context(), s, &wire.Message{ID: q.ID, Result: json.RawMessage(`{"a":[1.0]}`)}); err != nil {
			t.Fatal(err)
		}
		if got, err := q.Wait(t.Context()); err != nil || string(got) != `{"a":[1.0]}` {
			t.Errorf("%s %v", got, err)
		}
		q = expect(t, a, s)
		_ = taker.Take(t.Context(), s, &wire.Message{ID: q.ID, Error: &wire.Error{Code: -1, Message: "no", Data: json.RawMessage(`[1]`)}})
		got, err := q.Wait(t.Context())
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != -1 || e.Message != "no" || got != nil {
			t.Errorf("%s %v", got, err)
		}
		if c.sent != sent {
			t.Errorf("%d texts were sent, want %d", c.sent, sent)
		}
	}
}

// Only the session that was asked answers, once, and what is no answer is dropped before it is passed on.
func TestAnswersOfOthers(t *testing.T) {
	c, a, b := replicas(t)
	s := of("acme", "s1")
	q := expect(t, a, s)
	id, _ := wire.Text(q.ID)
	good := &wire.Message{ID: q.ID, Result: json.RawMessage(`{"n":1}`)}
	for _, r := range []*Router{a, b} {
		for name, other := range map[string]*session.Session{"session": of("acme", "s2"), "organization": of("other", "s1"), "none": of("", "")} {
			if err := r.Take(t.Context(), other, good); err != nil || len(q.answer) != 0 {
				t.Errorf("of another %s: %v", name, err)
			}
		}
	}
	before := c.sent
	for _, bad := range []string{`1`, `"x"`, `""`, `"."`, `"` + id[1:] + `"`, `"` + id + `A"`, `"` + strings.ToLower(id) + `"`, `"` + id[:26] + `"`, `"../` + id[3:] + `"`} {
		if err := b.Take(t.Context(), s, &wire.Message{ID: json.RawMessage(bad), Result: json.RawMessage(`{}`)}); err != nil {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if c.sent != before || len(q.answer) != 0 {
		t.Errorf("%d texts passed on, %d answers", c.sent-before, len(q.answer))
	}
	for _, m := range []*wire.Message{good, {ID: q.ID, Result: json.RawMessage(`{"n":2}`)}} {
		if err := b.Take(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := q.Wait(t.Context()); err != nil || string(got) != `{"n":1}` || len(q.answer) != 0 {
		t.Errorf("%s %v", got, err)
	}
	c.to[a.replica]([]byte("no JSON"))
	c.to[a.replica]([]byte(`{"o":"acme","s":"s1","m":[]}`))
}

// Answers are bounded, and so is the wait for them.
func TestHostileAnswers(t *testing.T) {
	c, a, b := replicas(t)
	s := of("acme", "s1")
	q := expect(t, a, s)
	large := &wire.Message{ID: q.ID, Result: json.RawMessage(`{"a":"` + strings.Repeat("x", MaxSize) + `"}`)}
	if err := b.Take(t.Context(), s, large); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	_, err := q.Wait(t.Context())
	if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != wire.CodeInvalidParams {
		t.Errorf("%v", err)
	}
	c.err = errors.New("away")
	if err := b.Take(t.Context(), s, &wire.Message{ID: expect(t, a, s).ID, Result: json.RawMessage(`{}`)}); apierr.From(err).Kind != apierr.KindUnavailable {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := expect(t, a, s).Wait(ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Questions are bounded by session, organization and replica, and what is closed leaves nothing behind.
func TestBoundsOfQuestions(t *testing.T) {
	r := NewRouter(nil)
	var all []*Question
	fill := func(organization, id string, most int) {
		t.Helper()
		for n := 0; ; n++ {
			q, err := r.Expect(of(organization, id))
			if err != nil {
				if n != most || !errors.Is(err, ErrTooMany) {
					t.Fatalf("%d questions of %s, want %d: %v", n, organization, most, err)
				}
				return
			}
			all = append(all, q)
		}
	}
	for organization := range maxWaiting / maxOrganization {
		name := string(rune('a' + organization))
		for i := range maxOrganization / maxSession {
			fill(name, string(rune('a'+i)), maxSession)
		}
		fill(name, "last", maxOrganization%maxSession)
	}
	fill("another", "s", 0)
	for _, q := range all {
		q.Close()
		q.Close()
	}
	if len(r.waiting)+len(r.counts) > 0 {
		t.Errorf("%d questions, %d counts are left", len(r.waiting), len(r.counts))
	}
}
