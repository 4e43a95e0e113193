package secret

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// checkEvery is how long a file is assumed unchanged: a request may need the secrets of many candidates.
const checkEvery = 100 * time.Millisecond

// Cached is what a secret file was last parsed to. The file is read again when it changes, so that replacing it is the
// rotation. Safe for concurrent use.
type Cached[T any] struct {
	file  File
	parse func(Value) T

	mu      sync.Mutex
	checked time.Time // when the file was last checked
	stat    fs.FileInfo
	value   T
	err     error
}

// NewCached returns a Cached that reads a file at the first Read.
func NewCached[T any](file File, parse func(Value) T) *Cached[T] {
	return &Cached[T]{file: file, parse: parse}
}

// Read returns the present value, or the error of a file that can't be read; the value is then zero. It looks for a
// change at most every 100 ms. changed reports whether this call found another file, or another error, than the one
// before.
func (c *Cached[T]) Read() (value T, changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.checked) < checkEvery {
		return c.value, false, c.err
	}
	c.checked = now
	stat, err := os.Stat(string(c.file))
	if err == nil && c.stat != nil && c.err == nil && same(c.stat, stat) {
		return c.value, false, nil
	}
	var text Value
	if text, err = c.file.Read(); err == nil {
		changed = true
		c.value = c.parse(text)
	} else {
		changed = c.err == nil || c.err.Error() != err.Error()
		c.value = *new(T)
	}
	c.stat, c.err = stat, err
	return c.value, changed, err
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
