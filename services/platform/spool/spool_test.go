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
	"testing"
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
