package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/platform/fairshare"
)

// recall holds the newest response of each lane of a connection with the conversation before it, so that the next request
// may continue a response that is not stored. What it has no memory for is not held: the client then sends the whole
// conversation. Safe for concurrent use.
type recall struct {
	pool         *fairshare.Pool // in bytes
	organization string

	mu    sync.Mutex
	lanes map[string]recalled
	held  int64 // in bytes, which the pool has been charged for
	last  int   // the number of the newest
}

// recalled is a conversation up to a response.
type recalled struct {
	id     string
	scope  conversation.Scope
	stored bool
	turns  []responses.Record
	number int
}

func (r recalled) size() (n int64) {
	for _, turn := range r.turns {
		n += int64(len(turn.Input) + len(turn.Response))
	}
	return n
}

// keep holds the newest response of a lane in place of the one before.
func (m *recall) keep(lane string, newest recalled) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(lane)
	size := newest.size()
	if size > conversation.MaxBytes || len(newest.turns) > conversation.MaxTurns {
		return
	}
	for len(m.lanes) > 0 && (len(m.lanes) >= maxLanes || m.held+size > conversation.MaxBytes) {
		m.drop(m.oldest())
	}
	if !m.pool.Acquire(m.organization, size) {
		return
	}
	m.last++
	newest.number = m.last
	m.lanes[lane], m.held = newest, m.held+size
}

// oldest returns the lane whose response is the oldest. The caller holds the lock.
func (m *recall) oldest() (lane string) {
	oldest := m.last + 1
	for name, of := range m.lanes {
		if of.number < oldest {
			lane, oldest = name, of.number
		}
	}
	return lane
}

// find returns a response by its id.
func (m *recall) find(scope conversation.Scope, id string) (recalled, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.lanes {
		if of.id == id && of.scope == scope {
			return of, true
		}
	}
	return recalled{}, false
}

// forget drops a response.
func (m *recall) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for lane, of := range m.lanes {
		if of.id == id {
			m.drop(lane)
		}
	}
}

// close drops everything.
func (m *recall) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for lane := range m.lanes {
		m.drop(lane)
	}
}

// drop drops what a lane holds. The caller holds the lock.
func (m *recall) drop(lane string) {
	if of, ok := m.lanes[lane]; ok {
		size := of.size()
		delete(m.lanes, lane)
		m.held -= size
		m.pool.Release(m.organization, size)
	}
}

// recallHistory implements responses.History for one request of a connection: what the connection holds comes first.
type recallHistory struct {
	held   *recall
	scope  conversation.Scope
	stored responses.History // nil where nothing is stored

	// turns is the conversation that the request continues; found is what the connection holds of it.
	turns []responses.Record
	found recalled
}

// Chain implements responses.History.
func (h *recallHistory) Chain(id string) (turns []responses.Record, err error) {
	found, ok := h.held.find(h.scope, id)
	switch {
	case ok:
		h.found, turns = found, found.turns
	case h.stored == nil:
		return nil, responses.PreviousNotFound()
	default:
		turns, err = h.stored.Chain(id)
	}
	h.turns = turns
	return turns, err
}

// Items implements responses.History. The items of the conversation are found without it.
func (h *recallHistory) Items(ids []string) (map[string]json.RawMessage, error) {
	if h.stored == nil {
		return map[string]json.RawMessage{}, nil
	}
	return h.stored.Items(ids)
}

// unstored returns the turns before the request if they can't be found in the store later.
func (h *recallHistory) unstored() []responses.Record {
	if h.found.id == "" || h.found.stored {
		return nil
	}
	return h.found.turns
}

// newest returns the conversation with the response that the request got.
func (h *recallHistory) newest(x *responses.Exchange, response json.RawMessage) recalled {
	turns := slices.Concat(h.turns, []responses.Record{{Input: x.Input(), Response: bytes.Clone(response)}})
	return recalled{id: x.ID, scope: h.scope, stored: x.Stores(), turns: turns}
}
