package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
)

// onDisk returns the position up to which records are on disk.
func (s *Spool) onDisk() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// However many calls share a flush, Sync returns only when the caller's own records are on disk. New segments begin in
// between.
func TestSyncCoversWhatWasAppended(t *testing.T) {
	s := start(t, t.TempDir(), 1<<30)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			record := bytes.Repeat(fmt.Append(nil, w%10), segmentSize/64)
			for range 20 {
				end, err := s.Append(record)
				if err != nil {
					t.Errorf("append: %v", err)
				}
				if err := s.Sync(); err != nil {
					t.Errorf("sync: %v", err)
				}
				if synced := s.onDisk(); synced < end {
					t.Errorf("synced up to %d, the caller appended up to %d", synced, end)
				}
			}
		})
	}
	group.Wait()
}

// When the disk fails, all callers that share the flush get its error, and a later flush covers their records too.
func TestSyncFails(t *testing.T) {
	s := start(t, t.TempDir(), 1<<30)
	end, err := s.Append([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	pipe, other, err := os.Pipe() // It can't be synced.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(pipe.Close(), other.Close()) }()
	good := s.segments[0].file
	s.segments[0].file = pipe
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := s.Sync(); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("sync on a failing disk: %v", err)
			}
		})
	}
	group.Wait()
	if synced := s.onDisk(); synced != 0 {
		t.Errorf("synced up to %d, though no sync succeeded", synced)
	}
	s.segments[0].file = good
	if err := s.Sync(); err != nil || s.onDisk() != end {
		t.Errorf("synced up to %d, %v; want %d", s.onDisk(), err, end)
	}
}
