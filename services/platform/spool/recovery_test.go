package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
