package alert_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/alert"
)

// memory is a feed, a notify and a store, of one replica.
type memory struct {
	mu        sync.Mutex
	events    []alert.Event
	rules     map[string][]alert.Rule
	read      int
	progress  map[string]alert.Progress
	notices   map[string]alert.Notice
	sent      []string
	at        map[string]time.Time // when an organization was notified first
	elsewhere bool
	// notify is called before each notification; nil accepts all.
	notify func(ctx context.Context, n alert.Notification) error
}

// newMemory has events and the rules of acme.
func newMemory(rules []alert.Rule, events ...alert.Event) *memory {
	return &memory{
		events: events, rules: map[string][]alert.Rule{"acme": rules}, progress: map[string]alert.Progress{},
		notices: map[string]alert.Notice{}, at: map[string]time.Time{},
	}
}

func (m *memory) After(_ context.Context, organization, cursor string, limit int) (page []alert.Event, err error) {
	done, _ := strconv.Atoi(cursor)
	for _, e := range m.events[done:] {
		if len(page) < limit && (organization == "" || e.Organization == organization) {
			page = append(page, e)
		}
	}
	return page, nil
}

func (m *memory) Notify(ctx context.Context, n alert.Notification) error {
	if m.notify != nil {
		if err := m.notify(ctx, n); err != nil {
			return err
		}
	}
	if m.at[n.Organization].IsZero() {
		m.at[n.Organization] = time.Now()
	}
	m.sent = append(m.sent, fmt.Sprint(n.Organization, " ", n.To.Channel, " ", n.Title, " ", n.Key))
	return nil
}

func (m *memory) Alone(ctx context.Context, do func(context.Context, string, alert.State) (string, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.elsewhere || ctx.Err() != nil {
		return ctx.Err()
	}
	read, err := do(ctx, strconv.Itoa(m.read), m)
	m.read, _ = strconv.Atoi(read)
	return err
}

func (m *memory) Wait(_ context.Context, before map[string]string, now time.Time) error {
	for organization, cursor := range before {
		p, known := m.progress[organization]
		if !known {
			p = alert.Progress{Organization: organization, Cursor: cursor}
		}
		if p.DueAt.IsZero() {
			p.DueAt = now
		}
		if m.rules[organization] != nil {
			m.progress[organization] = p
		}
	}
	return nil
}

func (m *memory) Next(_ context.Context, now time.Time) (next alert.Progress, found bool, err error) {
	for _, p := range m.progress {
		if !p.DueAt.IsZero() && !p.DueAt.After(now) && (!found || p.DueAt.Before(next.DueAt)) {
			next, found = p, true
		}
	}
	return next, found, nil
}

func (m *memory) Save(_ context.Context, p alert.Progress) error {
	m.progress[p.Organization] = p
	return nil
}

func (m *memory) Postpone(_ context.Context, organization string, due time.Time) error {
	p := m.progress[organization]
	p.DueAt, p.Failures = due, p.Failures+1
	m.progress[organization] = p
	return nil
}

func (m *memory) Rules(_ context.Context, organization string) ([]alert.Rule, error) {
	return m.rules[organization], nil
}

func (m *memory) Last(_ context.Context, n alert.Notice) (alert.Notice, error) {
	return m.notices[n.Organization+n.Rule+n.Type+n.Subject], nil
}

func (m *memory) Put(_ context.Context, n alert.Notice) error {
	m.notices[n.Organization+n.Rule+n.Type+n.Subject] = n
	return nil
}

func (m *memory) Purge(context.Context, time.Time) error { return nil }

// done checks that the rules of organizations are applied up to a position, and that nothing waits.
func (m *memory) done(t *testing.T, position int, organizations ...string) {
	t.Helper()
	for _, organization := range organizations {
		want := alert.Progress{Organization: organization, Cursor: strconv.Itoa(position)}
		if got := m.progress[organization]; got != want {
			t.Errorf("progress is %+v, want %+v", got, want)
		}
	}
}
