package spool

import (
	"bufio"
	"bytes"
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

// maxRead bounds the bytes of one Batch, not counting its last record.
const maxRead = 1 << 20

// Batch is the result of Read.
type Batch struct {
	// Records in the order in which they were appended.
	Records [][]byte
	// End is the position after the records, for Drop.
	End int64
	// More reports that further records follow.
	More bool
	// Damaged is the number of lines skipped because they are damaged. Their segment is kept for inspection.
	Damaged int
}

// Read returns the oldest records that were not dropped, at most limit of them and all from one segment. If there are
// none, End is the current position. A batch may have no records but a new End, if it skipped damaged lines; drop it
// like any other.
func (s *Spool) Read(limit int) (Batch, error) {
	s.mu.Lock()
	from := s.head
	// Segments of an orphan may be empty, so that nothing was ever dropped after them.
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

// decode reads up to limit records and returns the bytes that their lines take. A last line without a line feed was cut
// off and is skipped.
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

// parse checks a line's checksum and returns its record.
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

// Drop discards the records before a position, which the consumer has processed. Segments that end there are removed;
// damaged ones are moved to the root under their own names.
func (s *Spool) Drop(end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = max(s.head, min(end, s.tail))
	if s.adopted {
		return s.discardDropped()
	}
	var err error
	if last := s.segments[len(s.segments)-1]; s.head == s.tail {
		if !last.damaged {
			err = last.erase()
		}
		if last.damaged || err != nil {
			err = errors.Join(err, s.extend())
		}
	}
	return errors.Join(err, s.discardDropped())
}

// discardDropped discards the segments before head, except the last one.
func (s *Spool) discardDropped() error {
	var errs []error
	for len(s.segments) > 1 && s.segments[0].end() <= s.head {
		errs = append(errs, s.discard(s.segments[0]))
		s.segments = s.segments[1:]
	}
	return errors.Join(errs...)
}

// discard removes a segment, or moves a damaged one to the root for an operator to inspect.
func (s *Spool) discard(g *segment) error {
	base := filepath.Base(g.file.Name())
	path := filepath.Join(s.dir, base)
	var err error
	if g.damaged {
		aside := filepath.Base(s.dir) + "-" + base + suffixDamaged
		err = os.Rename(path, filepath.Join(s.root, aside))
	} else if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
		err = nil // The folder was emptied by another process.
	}
	return errors.Join(err, g.file.Close())
}

// erase removes all records of a segment, so that the next process doesn't read them again after a kill. Consumers
// detect repeated records only for a limited time.
func (g *segment) erase() error {
	if g.size > zerosAhead || overwrite(g.file, g.size, zeros[:pageSize]) != nil {
		if err := g.file.Truncate(0); err != nil {
			return fmt.Errorf("empty spool: %w", err)
		}
		g.zeroed = 0
	}
	g.base, g.size = g.end(), 0
	return nil
}

// overwrite fills a file's first size bytes with copies of page, the last page first. A kill interrupts a write only
// between pages. With a page of zeros it so leaves whole records, an incomplete line and zeros.
func overwrite(file io.WriterAt, size int64, page []byte) error {
	for end := size; end > 0; {
		begin := (end - 1) / pageSize * pageSize
		if _, err := file.WriteAt(page[:end-begin], begin); err != nil {
			return fmt.Errorf("overwrite dropped records: %w", err)
		}
		end = begin
	}
	return nil
}

// forget overwrites the records before a position with empty lines, which readers skip. It leaves a damaged segment as it
// is, for inspection.
func (g *segment) forget(head int64) error {
	if g.damaged {
		return nil
	}
	return overwrite(g.file, min(head, g.end())-g.base, emptyLines)
}

var emptyLines = bytes.Repeat([]byte{'\n'}, pageSize)

// Orphans opens the spools under the root whose processes have ended. The caller reads and drops their records, and
// closes each.
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

// adopt opens the folder of a dead process. It returns nil if the process is alive or another process has locked the
// folder.
func adopt(root, dir string) (*Spool, error) {
	folder, err := lock(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // Its process is alive, or the folder is gone.
	}
	s := &Spool{root: root, dir: dir, folder: folder, adopted: true}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	for _, entry := range entries { // sorted by name, and so in order
		file, err := os.OpenFile(filepath.Join(dir, entry.Name()), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // Removed before the lock was taken.
		}
		var info os.FileInfo
		if err == nil {
			info, err = file.Stat()
		}
		if err != nil {
			return nil, errors.Join(err, s.closeFiles())
		}
		s.segments = append(s.segments, &segment{file: file, base: s.tail, size: info.Size()})
		s.tail += info.Size()
	}
	return s, nil
}

// closeFiles closes all files and removes nothing.
func (s *Spool) closeFiles() error {
	errs := []error{s.folder.Close()}
	for _, g := range s.segments {
		errs = append(errs, g.file.Close())
	}
	return errors.Join(errs...)
}
