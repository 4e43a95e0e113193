package telemetry

import (
	"io"
	"sync"
	"time"
)

const (
	// lineBytes is how many bytes of lines wait at most before they are written, lineDelay how long.
	lineBytes = 32 << 10
	lineDelay = 100 * time.Millisecond
)

// lines writes whole lines together: a write for each line takes more of a call's time than the line itself. A process
// that is killed loses the lines of the last lineDelay. It is safe for concurrent use.
type lines struct {
	mu      sync.Mutex
	to      io.Writer
	waiting []byte
	// timer runs while lines wait.
	timer *time.Timer
	ended bool
}

func newLines(to io.Writer) *lines {
	l := &lines{to: to, waiting: make([]byte, 0, lineBytes)}
	l.timer = time.AfterFunc(lineDelay, l.flush)
	l.timer.Stop()
	return l
}

// Write implements io.Writer for one line.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(line) > lineBytes {
		l.write()
		return l.to.Write(line)
	}
	if len(l.waiting)+len(line) > lineBytes {
		l.write()
	}
	if len(l.waiting) == 0 {
		l.timer.Reset(lineDelay)
	}
	l.waiting = append(l.waiting, line...)
	return len(line), nil
}

// flush writes the lines that wait.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
}

// write writes the lines that wait. The caller holds mu.
func (l *lines) write() {
	if len(l.waiting) == 0 {
		return
	}
	l.timer.Stop()
	_, _ = l.to.Write(l.waiting) // A log that can't be written has no other place to say so.
	l.waiting = l.waiting[:0]
}

// end writes the lines that wait, and later ones at once.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
	l.ended = true
}
