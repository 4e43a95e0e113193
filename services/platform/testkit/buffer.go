package testkit

import (
	"bytes"
	"sync"
)

// Buffer collects concurrent writes, such as the lines of a log. The zero value is empty and ready to use. It is safe
// for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
