package spool

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxRead bounds the bytes of one Batch, but for its last record.
const maxRead = 1 << 20

// Batch is what Read found.
type Batch struct {
	// Records in the order in which they were appended.
	Records [][]byte
	// End is the position behind them, for Drop.
	End int64
	// More waits behind it.
	More bool
	// Damaged lines were passed over; their segment is kept aside.
	Damaged int
}

// Read gives the oldest records that were not dropped, at most limit of them
// and of one segment. Nothing waits when End is where it was; a batch without
// records but with a new End is to be dropped like any other.
func (s *Spool) Read(limit int) (Batch, error) {
	s.mu.Lock()
	from := s.head
	// An orphan's empty segments have nothing to be dropped behind.
	at := slices.IndexFunc(s.segments, func(g *segment) bool { return g.end() > from })
	if at < 0 {
		s.mu.Unlock()
		return Batch{End: from}, nil
	}
	g := s.segments[at]
	file, offset, size, tail := g.file, max(from-g.base, 0), g.size, s.tail
	s.mu.Unlock()

	batch, length, err := decode(io.NewSectionReader(file, offset, size-offset), limit)
	if err != nil {
		return Batch{End: from}, fmt.Errorf("read spool: %w", err)
	}
	batch.End = from + length
	batch.More = batch.End < tail
	g.damaged = g.damaged || batch.Damaged > 0
	return batch, nil
}

// decode reads lines up to a number of records, and tells how many bytes they
// take. A last line without its line feed is passed over: it was cut off.
func decode(r io.Reader, limit int) (batch Batch, length int64, err error) {
	lines := bufio.NewReader(r)
	for len(batch.Records) < limit && length < maxRead {
		line, err := lines.ReadBytes('\n')
		length += int64(len(line))
		if errors.Is(err, io.EOF) {
			return batch, length, nil
		}
		if err != nil {
			return Batch{}, 0, err
		}
		if record, ok := parse(line[:len(line)-1]); ok {
			batch.Records = append(batch.Records, record)
		} else if len(line) > 1 {
			batch.Damaged++
		}
	}
	return batch, length, nil
}

// parse checks a line and gives its record.
func parse(line []byte) ([]byte, bool) {
	if len(line) < lineExtra || line[8] != ' ' {
		return nil, false
	}
	var sum [4]byte
	if _, err := hex.Decode(sum[:], line[:8]); err != nil {
		return nil, false
	}
	record := line[9:]
	want := uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3])
	return record, crc32.ChecksumIEEE(record) == want
}

// Drop forgets what was appended before a position: it has been brought
// elsewhere. Segments behind it go, damaged ones to the root under a name of
// their own.
func (s *Spool) Drop(end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = max(s.head, min(end, s.tail))
	var errs []error
	for len(s.segments) > 1 && s.segments[0].end() <= s.head {
		errs = append(errs, s.discard(s.segments[0]))
		s.segments = s.segments[1:]
	}
	if len(s.segments) == 1 && s.head == s.tail {
		errs = append(errs, s.reuse(s.segments[0]))
	}
	return errors.Join(errs...)
}

// discard removes a segment, or keeps a damaged one for an operator to look at.
func (s *Spool) discard(g *segment) error {
	base := filepath.Base(g.file.Name())
	path := filepath.Join(s.dir, base)
	var err error
	if g.damaged {
		aside := filepath.Base(s.dir) + "-" + base + suffixDamaged
		err = os.Rename(path, filepath.Join(s.root, aside))
	} else if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
		err = nil // The folder was emptied from outside.
	}
	return errors.Join(err, g.file.Close())
}

// reuse empties the one segment that is left, so that a restart repeats little.
func (s *Spool) reuse(g *segment) error {
	if g.damaged || g.size < reuseSize {
		return nil
	}
	if err := g.file.Truncate(0); err != nil {
		return fmt.Errorf("empty spool: %w", err)
	}
	g.base, g.size = s.tail, 0
	return nil
}

// Orphans opens what processes that ended have left under the root. The caller
// reads and drops them, and closes each.
func (s *Spool) Orphans() ([]*Spool, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, fmt.Errorf("list spools: %w", err)
	}
	var orphans []*Spool
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		orphan, err := adopt(s.root, filepath.Join(s.root, entry.Name()))
		if err != nil {
			return orphans, fmt.Errorf("adopt spool: %w", err)
		}
		if orphan != nil {
			orphans = append(orphans, orphan)
		}
	}
	return orphans, nil
}

// adopt opens a dead process's folder; nil when it isn't one, or when another
// process was faster.
func adopt(root, dir string) (*Spool, error) {
	folder, err := lock(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // Its process lives, or it is gone.
	}
	s := &Spool{root: root, dir: dir, folder: folder}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	for _, entry := range entries { // sorted, and so in order
		file, err := os.OpenFile(filepath.Join(dir, entry.Name()), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // Removed before the lock was ours.
		}
		var info os.FileInfo
		if err == nil {
			info, err = file.Stat()
		}
		if err != nil {
			return nil, errors.Join(err, s.abandon())
		}
		s.segments = append(s.segments, &segment{file: file, base: s.tail, size: info.Size()})
		s.tail += info.Size()
	}
	return s, nil
}

// abandon closes without removing anything.
func (s *Spool) abandon() error {
	errs := []error{s.folder.Close()}
	for _, g := range s.segments {
		errs = append(errs, g.file.Close())
	}
	return errors.Join(errs...)
}
