// Package journal stores the newest items that a fake has received, bounded by number and by size.
package journal

import (
	"slices"
	"sync"
)

// Journal holds the newest items of one kind. It is safe for concurrent use.
type Journal[T any] struct {
	maxItems int
	maxBytes int

	mu      sync.Mutex
	entries []entry[T]
	bytes   int
	total   int
}

type entry[T any] struct {
	item T
	size int
}

// New returns an empty journal that drops its oldest items beyond maxItems items or maxBytes bytes. The newest item
// always stays.
func New[T any](maxItems, maxBytes int) *Journal[T] {
	return &Journal[T]{maxItems: max(maxItems, 1), maxBytes: maxBytes}
}

// Add appends an item whose size is given in bytes.
func (j *Journal[T]) Add(item T, size int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry[T]{item: item, size: size})
	j.bytes += size
	j.total++
	drop := 0
	for len(j.entries)-drop > j.maxItems || (j.bytes > j.maxBytes && len(j.entries)-drop > 1) {
		j.bytes -= j.entries[drop].size
		j.entries[drop] = entry[T]{}
		drop++
	}
	// Reslicing leaves the dropped head to the next growth of append, which copies only the remaining items.
	j.entries = j.entries[drop:]
}

// Last returns the newest items for which keep is true, at most limit of
// them, oldest first. A nil keep accepts all.
func (j *Journal[T]) Last(limit int, keep func(T) bool) []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := make([]T, 0, min(max(limit, 0), len(j.entries)))
	for i := len(j.entries) - 1; i >= 0 && len(found) < limit; i-- {
		if keep == nil || keep(j.entries[i].item) {
			found = append(found, j.entries[i].item)
		}
	}
	slices.Reverse(found)
	return found
}

// Count returns how many stored items keep accepts. A nil keep accepts all.
func (j *Journal[T]) Count(keep func(T) bool) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if keep == nil {
		return len(j.entries)
	}
	n := 0
	for i := range j.entries {
		if keep(j.entries[i].item) {
			n++
		}
	}
	return n
}

// Total returns how many items were added since the start or the last Clear, dropped ones included.
func (j *Journal[T]) Total() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}

// Clear drops everything.
func (j *Journal[T]) Clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries, j.bytes, j.total = nil, 0, 0
}
