package meter

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A spool file holds one batch per line: the CRC-32 of the JSON in eight hex
// digits, a space, the JSON. A line that is cut or damaged ends the file: it was
// never acknowledged.
const (
	suffix  = ".spool"
	maxLine = 4 << 20 // more than the largest batch takes, with every character escaped
)

// Spool keeps batches on disk in the order they came. Its file is locked while
// the process lives, so that replicas may share a folder and each can tell
// which files a dead one has left. Safe for concurrent use.
type Spool struct {
	dir   string
	name  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64 // bytes appended
	read int64 // bytes that the database has
}

// OpenSpool makes a file in dir, which it creates if need be and which nobody
// else may write to. Calls are refused (Full) once limit bytes are waiting;
// those under way are still written.
func OpenSpool(dir string, limit int64) (*Spool, error) {
	if err := private(dir); err != nil {
		return nil, fmt.Errorf("spool folder: %w", err)
	}
	name := filepath.Join(dir, strings.ToLower(rand.Text())+suffix)
	file, err := os.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool file: %w", err)
	}
	// Locked before it has the name by which others would take it for an orphan.
	if err := errors.Join(lock(file), os.Rename(file.Name(), name)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("spool file: %w", err)
	}
	return &Spool{dir: dir, limit: limit, name: name, file: file}, nil
}

// private makes the folder, or checks that one which is there is ours alone.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm()&0o022 != 0 || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: want a folder that belongs to this user and that no other may write to", dir)
	}
	return nil
}

// lock fails at once when another process, or another Spool, has the file.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Empty tells whether the database has everything.
func (s *Spool) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size == s.read
}

// Full tells whether no more calls should be let in.
func (s *Spool) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size >= s.limit
}

// Append writes a batch so that it survives the end of the process and of the
// machine.
func (s *Spool) Append(batch Batch) error {
	line, err := encode(batch)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		return fmt.Errorf("write spool: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync spool: %w", err)
	}
	s.size += int64(len(line))
	return nil
}

// Next gives the oldest batch that the database doesn't have, and a function
// that says it has it now. io.EOF means that there is none.
func (s *Spool) Next() (batch Batch, done func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == s.size {
		return Batch{}, nil, io.EOF
	}
	batch, length, err := decodeAt(s.file, s.read)
	if err != nil {
		return Batch{}, nil, fmt.Errorf("read spool: %w", err)
	}
	return batch, func() error { return s.advance(int64(length)) }, nil
}

// advance drops the oldest batch; behind the last one the file starts anew.
func (s *Spool) advance(length int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += length
	if s.read < s.size {
		return nil
	}
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("empty spool: %w", err)
	}
	s.read, s.size = 0, 0
	return nil
}

// Close ends the spool and removes its file, unless something is left in it
// for the next process.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == s.size {
		err := os.Remove(s.name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // another process found it empty as well
		}
		return errors.Join(err, s.file.Close())
	}
	return s.file.Close()
}

// Orphans opens the files that processes which ended have left in the folder.
func (s *Spool) Orphans() ([]*Spool, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("list spool files: %w", err)
	}
	var orphans []*Spool
	for _, name := range names {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // somebody else was faster
		}
		if lock(file) != nil {
			_ = file.Close() // its process lives
			continue
		}
		orphan := &Spool{dir: s.dir, name: name, file: file}
		orphan.size = intact(file)
		orphans = append(orphans, orphan)
	}
	return orphans, nil
}

// intact is the length of a file up to its first line that isn't whole.
func intact(file io.ReaderAt) (size int64) {
	for {
		_, length, err := decodeAt(file, size)
		if err != nil {
			return size
		}
		size += int64(length)
	}
}

func encode(batch Batch) ([]byte, error) {
	text, err := json.Marshal(batch)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), nil
}

var errDamaged = errors.New("damaged line")

// decodeAt reads the line that begins at an offset, and gives its length.
func decodeAt(file io.ReaderAt, offset int64) (batch Batch, length int, err error) {
	line, err := readLine(file, offset)
	if err != nil {
		return Batch{}, 0, err
	}
	sum, text, found := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	if !found || err != nil || crc32.ChecksumIEEE([]byte(text)) != uint32(want) {
		return Batch{}, 0, errDamaged
	}
	if err := json.Unmarshal([]byte(text), &batch); err != nil {
		return Batch{}, 0, errDamaged
	}
	return batch, len(line) + 1, nil
}

// readLine reads up to the newline, without it.
func readLine(file io.ReaderAt, offset int64) (string, error) {
	var line []byte
	for chunk := make([]byte, 4096); len(line) < maxLine; {
		n, err := file.ReadAt(chunk, offset+int64(len(line)))
		if before, _, found := strings.Cut(string(chunk[:n]), "\n"); found {
			return string(line) + before, nil
		}
		line = append(line, chunk[:n]...)
		if err != nil {
			return "", fmt.Errorf("no whole line: %w", err)
		}
	}
	return "", errDamaged
}
