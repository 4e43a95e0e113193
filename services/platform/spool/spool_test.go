package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func start(t *testing.T, root string, limit int64) *Spool {
	t.Helper()
	s, err := Open(root, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.closeFiles() })
	return s
}

func put(t *testing.T, s *Spool, texts ...string) int64 {
	t.Helper()
	var end int64
	for _, text := range texts {
		var err error
		if end, err = s.Append([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return end
}

// drain reads and drops everything, a few records at a time.
func drain(t *testing.T, s *Spool, limit int) (texts []string, damaged int) {
	t.Helper()
	for !s.Empty() {
		batch, err := s.Read(limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range batch.Records {
			texts = append(texts, string(record))
		}
		damaged += batch.Damaged
		if err := s.Drop(batch.End); err != nil {
			t.Fatal(err)
		}
	}
	return texts, damaged
}

// kill ends a spool as kill -9 does: nothing is cleaned up and the lock is released.
func kill(t *testing.T, s *Spool) {
	t.Helper()
	if err := s.closeFiles(); err != nil {
		t.Fatal(err)
	}
}

func orphans(t *testing.T, s *Spool) []*Spool {
	t.Helper()
	found, err := s.Orphans()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func numbers(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprintf(`{"record":%d}`, i))
	}
	return texts
}

func TestOrder(t *testing.T) {
	s := start(t, t.TempDir(), 1<<20)
	put(t, s, numbers(0, 10)...)
	first, err := s.Read(4)
	if err != nil || len(first.Records) != 4 {
		t.Fatalf("%d records, %v, want 4", len(first.Records), err)
	}
	again, err := s.Read(4) // Reading removes nothing.
	if err != nil || !slices.EqualFunc(first.Records, again.Records, bytes.Equal) {
		t.Errorf("read again %q, %v, want the same", again.Records, err)
	}
	if err := s.Drop(first.End); err != nil {
		t.Fatal(err)
	}
	put(t, s, numbers(10, 12)...)
	if got, _ := drain(t, s, 3); !slices.Equal(got, numbers(4, 12)) {
		t.Errorf("read %q, want 4 to 11", got)
	}
	if batch, err := s.Read(1); err != nil || len(batch.Records) != 0 || !s.Empty() {
		t.Errorf("read %q, %v from an empty spool", batch.Records, err)
	}
}

// Disk space is freed while records are appended and dropped, and positions stay valid.
func TestSegments(t *testing.T) {
	root := t.TempDir()
	s := start(t, root, 64<<20)
	text := strings.Repeat("x", 64<<10)
	for round := range 10 {
		for i := range 40 {
			put(t, s, fmt.Sprintf("%d-%d-%s", round, i, text))
		}
		if round < 2 {
			continue // Let it grow over several segments.
		}
		batch, err := s.Read(60)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Drop(batch.End); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := drain(t, s, 50)
	if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "9-39-") {
		t.Fatalf("%d records left, want those up to 9-39", len(got))
	}
	var disk int64
	files, _ := filepath.Glob(filepath.Join(s.dir, "*"))
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		disk += info.Size()
	}
	if len(files) != 1 || disk > zerosAhead {
		t.Errorf("%d files with %d bytes for nothing", len(files), disk)
	}
}

func TestFull(t *testing.T) {
	s := start(t, t.TempDir(), 100)
	put(t, s, strings.Repeat("x", 50))
	if s.Full() {
		t.Error("full before its limit")
	}
	put(t, s, strings.Repeat("x", 50))
	if !s.Full() {
		t.Error("not full at its limit")
	}
	put(t, s, "what is under way is kept")
	if got, _ := drain(t, s, 1); len(got) != 3 || s.Full() {
		t.Errorf("%d records, full %v", len(got), s.Full())
	}
}

func TestAppendRefuses(t *testing.T) {
	s := start(t, t.TempDir(), 100)
	for _, text := range []string{"", "two\nlines"} {
		if _, err := s.Append([]byte("good"), []byte(text)); err == nil || !s.Empty() {
			t.Errorf("%q was taken, or its neighbour", text)
		}
	}
}

// Exactly one other process adopts the records of a process that was killed.
func TestOrphans(t *testing.T) {
	root := t.TempDir()
	dead := start(t, root, 1<<20)
	put(t, dead, numbers(0, 5)...)
	alive := start(t, root, 1<<20)
	if found := orphans(t, alive); len(found) != 0 {
		t.Fatalf("%d orphans while both live", len(found))
	}
	kill(t, dead)
	found := orphans(t, alive)
	if len(found) != 1 {
		t.Fatalf("%d orphans, want one", len(found))
	}
	if others := orphans(t, alive); len(others) != 0 {
		t.Error("an orphan was adopted twice")
	}
	if got, _ := drain(t, found[0], 2); !slices.Equal(got, numbers(0, 5)) {
		t.Errorf("adopted %q", got)
	}
	if err := errors.Join(found[0].Close(), alive.Close()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Before the next pod starts, Kubernetes makes everything on its volume writable for the pod's group (fsGroup). The
// records are still there, and the folder is ours alone again.
func TestVolumeOfTheNextPod(t *testing.T) {
	root := filepath.Join(t.TempDir(), "switchyard")
	dead := start(t, root, 1<<20)
	put(t, dead, numbers(0, 5)...)
	kill(t, dead)
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		mode := fs.FileMode(0o660)
		if err == nil && entry.IsDir() {
			mode = fs.ModeSetgid | 0o770
		}
		return errors.Join(err, os.Chmod(path, mode))
	}); err != nil {
		t.Fatal(err)
	}
	next := start(t, root, 1<<20)
	found := orphans(t, next)
	if len(found) != 1 {
		t.Fatalf("%d orphans, want one", len(found))
	}
	if got, _ := drain(t, found[0], 5); !slices.Equal(got, numbers(0, 5)) {
		t.Errorf("adopted %q", got)
	}
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %v, %v", info.Mode(), err)
	}
	if err := errors.Join(found[0].Close(), next.Close()); err != nil {
		t.Error(err)
	}
}

// Records that an adopter hasn't dropped remain for the next one, without those that it has dropped.
func TestOrphanHalfRead(t *testing.T) {
	for _, dropped := range []int{1, 2, 900} {
		root := t.TempDir()
		dead := start(t, root, 1<<20)
		put(t, dead, numbers(0, 1000)...)
		kill(t, dead)
		alive := start(t, root, 1<<20)
		first := orphans(t, alive)[0]
		batch, err := first.Read(dropped)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(first.Drop(batch.End), first.Close()); err != nil {
			t.Fatal(err)
		}
		if got, damaged := drain(t, orphans(t, alive)[0], 9); !slices.Equal(got, numbers(dropped, 1000)) || damaged != 0 {
			t.Errorf("the next adopter reads %d records and %d damaged, want those from %d on", len(got), damaged, dropped)
		}
	}
}

// A crash may cut the file at any byte or leave zeros from there on. Every complete record before it is read, in order.
func TestTornAtEveryByte(t *testing.T) {
	texts := numbers(0, 6)
	whole := start(t, t.TempDir(), 1<<20)
	var ends []int64
	for _, text := range texts {
		ends = append(ends, put(t, whole, text))
	}
	text, err := os.ReadFile(whole.segments[0].file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for cut := range ends[len(ends)-1] + 1 {
		want := 0
		for want < len(ends) && ends[want] <= cut {
			want++
		}
		for _, file := range [][]byte{text[:cut], slices.Concat(text[:cut], make([]byte, zerosAhead-cut))} {
			if got, damaged := recovered(t, file); !slices.Equal(got, texts[:want]) || damaged != 0 {
				t.Fatalf("cut at %d of %d bytes: %q and %d damaged, want the first %d", cut, len(file), got, damaged, want)
			}
		}
	}
}

// recovered returns the records that a new process reads from a dead process's segment.
func recovered(t *testing.T, segment []byte) (records []string, damaged int) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "dead"+suffix)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00000001"+suffix), segment, 0o600); err != nil {
		t.Fatal(err)
	}
	alive := start(t, root, 1<<20)
	found := orphans(t, alive)
	records, damaged = drain(t, found[0], 4)
	if err := errors.Join(found[0].Close(), alive.Close()); err != nil {
		t.Fatal(err)
	}
	return records, damaged
}

// A damaged byte loses only its own record, and the file is kept.
func TestDamage(t *testing.T) {
	root := t.TempDir()
	dead := start(t, root, 1<<20)
	put(t, dead, numbers(0, 5)...)
	if _, err := dead.segments[0].file.WriteAt([]byte{'#'}, 2*(lineExtra+12)+12); err != nil {
		t.Fatal(err)
	}
	kill(t, dead)
	alive := start(t, root, 1<<20)
	orphan := orphans(t, alive)[0]
	got, damaged := drain(t, orphan, 9)
	if want := append(numbers(0, 2), numbers(3, 5)...); !slices.Equal(got, want) || damaged != 1 {
		t.Errorf("%q and %d damaged, want all but one", got, damaged)
	}
	if err := orphan.Close(); err != nil {
		t.Fatal(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(root, "*"+suffixDamaged)); len(kept) != 1 {
		t.Errorf("kept %v, want the damaged segment", kept)
	}
}

// Records are erased once all of them are dropped, even a few, so the next process doesn't read them again.
func TestDroppedRecordsAreErased(t *testing.T) {
	for name, size := range map[string]int{
		"few": 40, "a page": pageSize, "all zeros ahead": zerosAhead, "more": zerosAhead + 1, "far more": 3 * zerosAhead,
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dead := start(t, root, 1<<20)
			put(t, dead, "first", strings.Repeat("x", size-len("first")-2*lineExtra))
			if dead.segments[0].size != int64(size) {
				t.Fatalf("the records take %d bytes, want %d", dead.segments[0].size, size)
			}
			drain(t, dead, 9)
			put(t, dead, "kept")
			kill(t, dead)
			got, damaged := drain(t, orphans(t, start(t, root, 1<<20))[0], 9)
			if !slices.Equal(got, []string{"kept"}) || damaged != 0 {
				t.Errorf("%d records and %d damaged, want the one that was not dropped", len(got), damaged)
			}
		})
	}
}

// image is a file whose content is checked after each write.
type image struct {
	content []byte
	check   func(content []byte)
}

func (i *image) WriteAt(page []byte, offset int64) (int, error) {
	copy(i.content[offset:], page)
	i.check(i.content)
	return len(page), nil
}

// A kill may interrupt the erasure after each page. The next process finds whole records, and no damage.
func TestKilledWhileErasing(t *testing.T) {
	s := start(t, t.TempDir(), 1<<20)
	texts := numbers(0, 1000)
	put(t, s, texts...)
	content, err := os.ReadFile(s.segments[0].file.Name())
	if err != nil {
		t.Fatal(err)
	}
	left := len(texts)
	file := &image{content, func(content []byte) {
		got, damaged := recovered(t, content)
		if damaged != 0 || len(got) >= left || !slices.Equal(got, texts[:len(got)]) {
			t.Errorf("%d records and %d damaged after one page more, want fewer than %d", len(got), damaged, left)
		}
		left = len(got)
	}}
	if err := overwrite(file, s.segments[0].size, zeros[:pageSize]); err != nil || left != 0 {
		t.Errorf("%d records are left: %v", left, err)
	}
}

// A process that closes its spool leaves the records that it hasn't dropped, wherever they begin.
func TestClosedSpoolForgets(t *testing.T) {
	for name, erased := range map[string]int{"before the first erasure": 0, "after an erasure": 500} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s := start(t, root, 1<<20)
			if erased > 0 {
				put(t, s, numbers(0, erased)...)
				drain(t, s, erased)
			}
			put(t, s, numbers(0, 300)...)
			batch, err := s.Read(200)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Drop(batch.End), s.Close()); err != nil {
				t.Fatal(err)
			}
			got, damaged := drain(t, orphans(t, start(t, root, 1<<20))[0], 9)
			if !slices.Equal(got, numbers(200, 300)) || damaged != 0 {
				t.Errorf("%d records and %d damaged, want the last 100", len(got), damaged)
			}
		})
	}
}

// A damaged segment is kept once its records are dropped, and later records go to a new one.
func TestDamagedSegmentEnds(t *testing.T) {
	root := t.TempDir()
	dead := start(t, root, 1<<20)
	put(t, dead, "good", "bad")
	if _, err := dead.segments[0].file.WriteAt([]byte{'#'}, lineExtra+int64(len("good"))); err != nil {
		t.Fatal(err)
	}
	if got, damaged := drain(t, dead, 9); !slices.Equal(got, []string{"good"}) || damaged != 1 {
		t.Errorf("%q and %d damaged, want one of each", got, damaged)
	}
	put(t, dead, "later")
	drain(t, dead, 9)
	put(t, dead, "kept")
	kill(t, dead)
	if got, damaged := drain(t, orphans(t, start(t, root, 1<<20))[0], 9); !slices.Equal(got, []string{"kept"}) || damaged != 0 {
		t.Errorf("%q and %d damaged, want the record that was not dropped", got, damaged)
	}
	if kept, _ := filepath.Glob(filepath.Join(root, "*"+suffixDamaged)); len(kept) != 1 {
		t.Errorf("kept %v, want the damaged segment", kept)
	}
}

// Records are written over zeros, so that a sync of them doesn't change the file's size.
func TestSizeOfFile(t *testing.T) {
	s := start(t, t.TempDir(), 64<<20)
	put(t, s, "first")
	size := func() int64 {
		t.Helper()
		info, err := s.segments[0].file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if size() != zerosAhead {
		t.Errorf("%d bytes after one record, want %d", size(), zerosAhead)
	}
	for range 3 {
		put(t, s, strings.Repeat("x", zerosAhead/2))
		if _, damaged := drain(t, s, 9); damaged != 0 {
			t.Errorf("%d damaged records", damaged)
		}
	}
	if size() != zerosAhead {
		t.Errorf("%d bytes after records that were dropped, want %d", size(), zerosAhead)
	}
	end := put(t, s, strings.Repeat("x", 2*zerosAhead)) - s.segments[0].base
	put(t, s, "next")
	if size() != end+zerosAhead {
		t.Errorf("%d bytes after a record that ends at %d, want zeros for %d more", size(), end, zerosAhead)
	}
}

// A write that fails halfway (a full disk) leaves the records before and after it complete.
func TestFailedWrite(t *testing.T) {
	s := start(t, t.TempDir(), 1<<20)
	put(t, s, "before")
	good := s.segments[0].file
	if _, err := good.WriteAt([]byte("0000"), s.tail); err != nil { // A partial line, as with a full disk.
		t.Fatal(err)
	}
	readOnly, err := os.Open(filepath.Join(s.dir, "00000001"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	s.segments[0].file = readOnly
	if _, err := s.Append([]byte("refused")); err == nil {
		t.Fatal("a write to a file that can't be written to is a success")
	}
	if err := s.Probe(); err == nil {
		t.Error("the probe is content with a disk that takes nothing")
	}
	s.segments[0].file = good
	if err := s.Probe(); err != nil {
		t.Error(err)
	}
	put(t, s, "after")
	if got, damaged := drain(t, s, 9); !slices.Equal(got, []string{"before", "after"}) || damaged != 0 {
		t.Errorf("%q, %d damaged", got, damaged)
	}
	_ = readOnly.Close()
}

// With concurrent writers, a reader and syncs, every record arrives once, in each writer's order.
func TestConcurrent(t *testing.T) {
	s := start(t, t.TempDir(), 1<<30)
	const writers, each = 8, 500
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				if _, err := s.Append(fmt.Appendf(nil, "%d %d %s", w, i, strings.Repeat("x", rand.N(4096)))); err != nil {
					t.Error(err)
				}
				if i%50 == 0 {
					if err := s.Sync(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	next := [writers]int{}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	read := 0
	for read < writers*each && !t.Failed() {
		batch, err := s.Read(64)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range batch.Records {
			var w, i int
			if _, err := fmt.Sscan(string(record), &w, &i); err != nil || next[w] != i {
				t.Fatalf("record %.20q, want %d of its writer", record, next[w])
			}
			next[w]++
			read++
		}
		if err := s.Drop(batch.End); err != nil {
			t.Fatal(err)
		}
	}
	<-done
}

func TestFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 1); err == nil {
		t.Error("took a folder that anyone may write to")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link, 1); err == nil {
		t.Error("followed a link")
	}
}

// Whatever a file contains, only lines that were written are returned.
func FuzzDecode(f *testing.F) {
	line := string(appendLine(nil, []byte(`{"a":1}`)))
	f.Add(line)
	f.Add(line + line[:5])
	f.Add("\n\n" + line)
	f.Add("00000000 \n")
	f.Add("deadbeef x\n" + line)
	f.Fuzz(func(t *testing.T, text string) {
		batch, length, err := decode(strings.NewReader(text), 100)
		if err != nil || length > int64(len(text)) {
			t.Fatalf("length %d of %d, %v", length, len(text), err)
		}
		for _, record := range batch.Records {
			if !strings.Contains(text, string(appendLine(nil, record))) {
				t.Errorf("record %q was never written", record)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	s, err := Open(b.TempDir()+"/spool", 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	record := bytes.Repeat([]byte("x"), 700)
	b.ReportAllocs()
	for b.Loop() {
		end, err := s.Append(record)
		if err != nil {
			b.Fatal(err)
		}
		if s.Waiting() > 1<<20 {
			if err := s.Drop(end); err != nil {
				b.Fatal(err)
			}
		}
	}
	_ = s.Close()
}

// BenchmarkAppendSync appends and syncs a record with 1, 16 and 64 concurrent callers, and with one caller that is limited
// to 200 records a second. The first caller drops the records. It reports processor time, and how long a caller waits.
func BenchmarkAppendSync(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) { appendSync(b, callers, nil) })
	}
	b.Run("200 a second", func(b *testing.B) {
		ticker := time.NewTicker(time.Second / 200)
		defer ticker.Stop()
		appendSync(b, 1, ticker.C)
	})
}

// appendSync appends and syncs b.N records. Each waits for a tick if there are any.
func appendSync(b *testing.B, callers int, ticks <-chan time.Time) {
	b.Helper()
	record := bytes.Repeat([]byte("x"), 700)
	s, err := Open(b.TempDir()+"/spool", 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	var left, waited atomic.Int64
	left.Store(int64(b.N))
	before := processorTime(b)
	b.ResetTimer()
	var group errgroup.Group
	for caller := range callers {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				if ticks != nil {
					<-ticks
				}
				begun := time.Now()
				end, err := s.Append(record)
				if err := errors.Join(err, s.Sync()); err != nil {
					return err
				}
				waited.Add(time.Since(begun).Nanoseconds())
				if caller > 0 { // One goroutine at a time may drop.
					continue
				}
				if err := s.Drop(end); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(waited.Load())/float64(b.N), "wait-ns/op")
	_ = s.Close()
}

func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
