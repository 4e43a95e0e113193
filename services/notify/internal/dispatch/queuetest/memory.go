package queuetest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
)

// Memory is a queue in memory. Its clock is that of the process, or of the synctest bubble, and may be advanced. It
// is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	rows  []*row
	fail  error
	ahead time.Duration // ahead of the process's clock
}

var _ dispatch.Store = (*Memory)(nil)

type row struct {
	dispatch.Leased

	channel channel.Name
	due     time.Time
	sending bool
	end     channel.Step
	// number is that of an update, after what it waits for, and reference where the message is.
	number    int
	after     *row
	reference string
	tries     []dispatch.Try
	doubled   bool
}

// Add queues a recipient that is due now and returns its notification.
func (m *Memory) Add(name channel.Name, lane string, lifetime time.Duration) uuid.UUID {
	return m.AddOf("acme", name, lane, lifetime)
}

// AddOf is Add for another organization.
func (m *Memory) AddOf(organization string, name channel.Name, lane string, lifetime time.Duration) uuid.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	id := uuid.Must(uuid.NewV7())
	m.rows = append(m.rows, &row{channel: name, due: now, Leased: dispatch.Leased{
		ID: int64(len(m.rows) + 1), Notification: id, Organization: organization, Sealed: []byte("work"), Destination: "test://host",
		Lane: lane, AcceptedAt: now, Deadline: now.Add(lifetime),
	}})
	return id
}

// AddDevice is Add for a registered device.
func (m *Memory) AddDevice(device uuid.UUID, lifetime time.Duration) uuid.UUID {
	id := m.AddOf("acme", channel.Slack, "", lifetime)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[len(m.rows)-1].Subscription = &device
	return id
}

func (m *Memory) now() time.Time { return time.Now().Add(m.ahead) }

// Pass advances the clock.
func (m *Memory) Pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += d
}

// Fail makes every call fail with err; nil ends that.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Take implements dispatch.Store.
func (m *Memory) Take(_ context.Context, c dispatch.Claim) ([]dispatch.Leased, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	now := m.now()
	var taken []dispatch.Leased
	for _, r := range m.open(c.Channel) {
		if len(taken) == c.Count || r.due.After(now) {
			break
		}
		if slices.Contains(c.PassOver, r.Organization) {
			continue
		}
		r.Lost, r.Late = r.sending, now.Sub(r.due)
		r.Fence++
		r.sending, r.due = true, now.Add(c.Lease)
		m.describe(r)
		taken = append(taken, r.Leased)
	}
	return taken, nil
}

// NextDue implements dispatch.Store.
func (m *Memory) NextDue(_ context.Context, name channel.Name) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return 0, m.fail
	}
	if open := m.open(name); len(open) > 0 {
		return open[0].due.Sub(m.now()), nil
	}
	return time.Hour, nil
}

// open returns the rows of a channel that have not ended, the longest due first.
func (m *Memory) open(name channel.Name) []*row {
	var open []*row
	for _, r := range m.rows {
		if r.channel == name && !r.end.Ended {
			open = append(open, r)
		}
	}
	slices.SortStableFunc(open, func(a, b *row) int { return cmp.Compare(a.due.UnixNano(), b.due.UnixNano()) })
	return open
}

// Settle implements dispatch.Store.
func (m *Memory) Settle(_ context.Context, _ channel.Name, results []dispatch.Result) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	held := make([]bool, len(results))
	for i, result := range results {
		r := m.rows[result.Leased.ID-1]
		if held[i] = r.sending && r.Fence == result.Leased.Fence; !held[i] {
			continue
		}
		r.sending, r.end, r.due = false, result.Step, m.now().Add(result.Step.Delay)
		r.Attempts, r.Doubtful, r.Granted = result.Attempts, result.Doubtful, result.Granted
		r.DeliveryID = cmp.Or(result.DeliveryID, r.DeliveryID)
		r.tries, r.doubled = append(r.tries, result.Tries...), r.doubled || result.Duplicate
		if m.follow(r) {
			results[i].Step, results[i].Superseded = r.end, true
		}
	}
	return held, nil
}

// State is the state of a recipient.
type State struct {
	Ended, Delivered, Doubled bool
	Tries                     []dispatch.Try
}

// State returns the state of the recipient of a notification.
func (m *Memory) State(id uuid.UUID) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.Notification == id {
			return State{r.end.Ended, r.end.Delivered, r.doubled, slices.Clone(r.tries)}
		}
	}
	return State{}
}
