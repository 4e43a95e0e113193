// Package spool keeps records on disk, in order, until their consumer has processed them. It is a bounded write-ahead
// log that survives kill -9 and, once synced, a power failure.
//
// A spool is a folder of its own inside a root that replicas may share. The folder is locked while its process is
// alive, so that other processes can recognize the folders of dead ones (Orphans). Its segments hold one record per
// line: the CRC-32 of the record as eight hex digits, a space, the record. A line cut off at the end was never
// acknowledged and is skipped. A damaged line in the middle is skipped too, without affecting others, and its segment
// is kept for inspection. Zeros may follow the last line: records are written over them, so that a sync needn't wait
// for the file system's journal to record a new size. Readers treat them as an incomplete last line.
//
// Reading removes nothing: records that were read but not dropped are read again by the next process. A consumer must
// tolerate repeated records.
package spool

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

const (
	// segmentSize is the size at which a new segment begins. Disk space is freed one segment at a time.
	segmentSize = 4 << 20
	// zerosAhead is the number of zero bytes written ahead at a time.
	zerosAhead = 256 << 10
	// pageSize is the smallest page of a supported platform's page cache.
	pageSize = 4 << 10

	suffix        = ".spool"
	suffixNew     = ".new"
	suffixDamaged = ".damaged"
)

// Spool holds one process's records. Append, Sync, Probe, Full, Empty and Waiting are safe for concurrent use; Read and
// Drop must be called by one goroutine at a time.
type Spool struct {
	root, dir string
	limit     int64
	folder    *os.File // holds the lock
	adopted   bool     // its process has ended, so it is only read and dropped

	mu         sync.Mutex
	segments   []*segment // oldest first; Append writes to the last
	lastNumber int
	// Positions count the bytes ever appended. Everything before head was dropped; tail is the position after the last
	// record.
	head, tail int64

	// next is the flush that calls of Sync join, flushing the last that was begun. Both may be nil.
	next, flushing *flush
	synced         int64 // position up to which records are on disk
}

// segment is one file. Its first byte is at position base.
type segment struct {
	file       *os.File
	base, size int64
	// zeroed is the offset up to which the file was filled with zeros ahead of the records. It may be below size.
	zeroed  int64
	damaged bool
}

func (g *segment) end() int64 { return g.base + g.size }

// append writes text after the records.
func (g *segment) append(text []byte) error {
	if g.size+int64(len(text)) > g.zeroed {
		// If the zeros don't fit on the disk, the text alone may.
		n, _ := g.file.WriteAt(zeros[:], g.size)
		g.zeroed = g.size + int64(n)
	}
	if _, err := g.file.WriteAt(text, g.size); err != nil {
		_ = g.file.Truncate(g.size) // Discard a partial line; if this fails, only that line is damaged.
		g.zeroed = g.size
		return fmt.Errorf("write spool: %w", err)
	}
	g.size += int64(len(text))
	return nil
}

var zeros [zerosAhead]byte

// Open creates a spool under root. It creates root if necessary; no other user may have write access to it. The spool
// is Full once limit bytes wait. Append still accepts records then, for work already in progress.
func Open(root string, limit int64) (*Spool, error) {
	if err := private(root); err != nil {
		return nil, fmt.Errorf("spool folder: %w", err)
	}
	s := &Spool{root: root, dir: filepath.Join(root, strings.ToLower(rand.Text())+suffix), limit: limit}
	// Lock the folder before it gets the name by which other processes would take it for an orphan.
	unlocked := s.dir + suffixNew
	if err := os.Mkdir(unlocked, 0o700); err != nil {
		return nil, fmt.Errorf("spool folder: %w", err)
	}
	var err error
	if s.folder, err = lock(unlocked); err != nil {
		return nil, fmt.Errorf("spool folder: %w", err)
	}
	if err := os.Rename(unlocked, s.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("spool folder: %w", err), s.folder.Close())
	}
	if err := s.extend(); err != nil {
		return nil, errors.Join(err, s.folder.Close())
	}
	return s, nil
}

// private creates a folder, or checks that an existing one is owned and takes it from the group.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := owned(dir)
	if err != nil {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()&0o700)
}

// owned checks that a folder belongs to this user and group, and is writable by no other. Kubernetes gives a volume to
// the group of the pod (fsGroup) before each start: it makes everything on it writable for that group.
func owned(dir string) (os.FileInfo, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() || !onlyOurs(info.Mode(), int(owner.Gid)) {
		return nil, fmt.Errorf("%s: want a folder that belongs to this user and that no other may write to", dir)
	}
	return info, nil
}

// onlyOurs reports whether none but a folder's user and this process's own group may write to it.
func onlyOurs(mode os.FileMode, group int) bool {
	return mode.Perm()&0o002 == 0 && (mode.Perm()&0o020 == 0 || group == os.Getegid())
}

// lock opens and locks a folder. It fails at once if another process holds the lock.
func lock(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// extend begins a new segment. The caller holds mu or has exclusive access.
func (s *Spool) extend() error {
	s.lastNumber++
	name := filepath.Join(s.dir, fmt.Sprintf("%08d%s", s.lastNumber, suffix))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("spool segment: %w", err)
	}
	if err := s.folder.Sync(); err != nil {
		return errors.Join(fmt.Errorf("spool segment: %w", err), file.Close())
	}
	s.segments = append(s.segments, &segment{file: file, base: s.tail})
	return nil
}

// Append writes the records in one piece, so that they survive the end of the process; after Sync they survive a power
// failure too. It returns the position after them, for Drop. A record must not be empty or contain a line feed.
func (s *Spool) Append(records ...[]byte) (end int64, err error) {
	text := lines.Get().(*[]byte) //nolint:errcheck // The pool holds nothing else.
	defer lines.Put(text)
	if *text, err = encode((*text)[:0], records); err != nil {
		return 0, err
	}
	return s.write(*text)
}

// lines is a pool of buffers for Append.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// Probe returns an error if the disk accepts no records. It writes and syncs a line without a record.
func (s *Spool) Probe() error {
	if _, err := s.write([]byte{'\n'}); err != nil {
		return err
	}
	return s.Sync()
}

func (s *Spool) write(text []byte) (end int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.segments[len(s.segments)-1]
	if last.size >= segmentSize {
		if err := s.extend(); err != nil {
			return 0, err
		}
		last = s.segments[len(s.segments)-1]
	}
	if err := last.append(text); err != nil {
		return 0, err
	}
	s.tail += int64(len(text))
	return s.tail, nil
}

// encode appends the lines of records to text.
func encode(text []byte, records [][]byte) ([]byte, error) {
	for _, record := range records {
		if bytes.IndexByte(record, '\n') >= 0 || len(record) == 0 {
			return text, errors.New("spool: a record is empty or has a line feed")
		}
		text = appendLine(text, record)
	}
	return text, nil
}

const lineExtra = 10 // eight digits, a space and a line feed

func appendLine(text, record []byte) []byte {
	const digits = "0123456789abcdef"
	sum := crc32.ChecksumIEEE(record)
	for shift := 28; shift >= 0; shift -= 4 {
		text = append(text, digits[sum>>shift&0xf])
	}
	text = append(text, ' ')
	text = append(text, record...)
	return append(text, '\n')
}

// Waiting returns the number of bytes that were not dropped.
func (s *Spool) Waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail - s.head
}

// Empty reports whether every record was dropped.
func (s *Spool) Empty() bool { return s.Waiting() == 0 }

// Full reports whether Waiting has reached the limit, so that no new work should be accepted.
func (s *Spool) Full() bool { return s.Waiting() >= s.limit }

// Close closes the spool. It removes the folder, unless records remain in it for the next process. That process doesn't
// read the dropped ones again, except in a damaged segment.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, g := range s.segments {
		if s.head == s.tail {
			errs = append(errs, s.discard(g))
		} else {
			errs = append(errs, g.forget(s.head), g.file.Close())
		}
	}
	if s.head == s.tail {
		errs = append(errs, os.Remove(s.dir))
	}
	return errors.Join(append(errs, s.folder.Close())...)
}
