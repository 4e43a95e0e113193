package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// flush is one sync of the disk for all callers of Sync that came before it began.
type flush struct {
	done chan struct{} // closed when err is set
	err  error
}

// Sync returns when everything appended before the call is on disk. Concurrent calls share the work.
//
// The first caller that finds no flush to join performs one when the flush before it has ended; callers that come in
// the meantime join it.
func (s *Spool) Sync() error {
	s.mu.Lock()
	f, before := s.next, s.flushing
	joined := f != nil
	if !joined {
		f = &flush{done: make(chan struct{})}
		s.next = f
	}
	s.mu.Unlock()
	if !joined {
		if before != nil {
			<-before.done
		}
		runtime.Gosched() // Goroutines that are about to append can still join.
		f.err = s.perform(f)
		close(f.done)
	}
	<-f.done
	return f.err
}

func (s *Spool) perform(f *flush) error {
	s.mu.Lock()
	s.next, s.flushing = nil, f
	tail := s.tail
	var files []*os.File
	for _, g := range s.segments {
		if g.end() > s.synced {
			files = append(files, g.file)
		}
	}
	s.mu.Unlock()
	for _, file := range files {
		// A segment that was closed in the meantime holds no record that is still needed.
		if err := syncData(file); err != nil && !errors.Is(err, fs.ErrClosed) {
			return fmt.Errorf("sync spool: %w", err)
		}
	}
	s.mu.Lock()
	s.synced = tail
	s.mu.Unlock()
	return nil
}
