// Package kvtest contains what tests of kv.Store share: a store in memory that can be made unavailable, and the
// conformance suite of all stores. Only tests import it.
package kvtest

import (
	"context"
	"errors"
	"maps"
	"sync"

	"switchyard.dev/services/platform/kv"
)

// ErrAway is the error of a Memory that is unavailable.
var ErrAway = errors.New("kvtest: the store is away")

// Memory is a kv.Store in memory, whose texts never expire. Its zero value is empty.
type Memory struct {
	mu    sync.Mutex
	texts map[string]string
	away  bool
	calls int
}

var _ kv.Store = (*Memory)(nil)

// Get implements kv.Store.
func (m *Memory) Get(_ context.Context, keys []string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.away {
		return nil, ErrAway
	}
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = m.texts[key]
	}
	return texts, nil
}

// Swap implements kv.Store.
func (m *Memory) Swap(_ context.Context, swaps []kv.Swap) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.away {
		return nil, ErrAway
	}
	made := make([]bool, len(swaps))
	for i, s := range swaps {
		if made[i] = m.texts[s.Key] == s.Old; made[i] {
			m.set(s.Key, s.New)
		}
	}
	return made, nil
}

// Set writes a text, whatever text the key had.
func (m *Memory) Set(key, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(key, text)
}

func (m *Memory) set(key, text string) {
	if m.texts == nil {
		m.texts = make(map[string]string)
	}
	if text == "" {
		delete(m.texts, key)
		return
	}
	m.texts[key] = text
}

// Texts returns a copy of all texts.
func (m *Memory) Texts() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.texts)
}

// Clear deletes all texts.
func (m *Memory) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.texts)
}

// SetAway makes every call fail with ErrAway, or makes calls succeed again.
func (m *Memory) SetAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// Calls returns how many calls there were.
func (m *Memory) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}
