package file_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

var ada = file.Scope{Organization: "acme", Owner: "ada"}

// now is a time that Postgres keeps whole.
var now = time.Now().Truncate(time.Microsecond)

func open(t *testing.T) (*file.Manager, *pgxpool.Pool) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	testkit.WriteFile(t, name, strings.Repeat("k", trace.MinSecret)+"\n")
	keys, err := trace.NewKeys(secret.File(name))
	if err != nil {
		t.Fatal(err)
	}
	pool := testkit.Postgres(t, migrations.FS)
	return file.NewManager(postgres.NewFiles(pool), keys, func(string) time.Duration { return time.Hour }), pool
}

func newFile(name string, at time.Time) file.File {
	return file.File{ID: file.NewID(), Name: name, Purpose: file.PurposeBatch, CreatedAt: at}
}

func create(t *testing.T, m *file.Manager, f file.File, content []byte) file.File {
	t.Helper()
	f, err := m.Create(t.Context(), ada, f, content)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, m *file.Manager, f file.File) []byte {
	t.Helper()
	var content []byte
	for piece, err := range m.Read(t.Context(), ada, f) {
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, piece...)
	}
	return content
}

// A file comes back as it was stored, whatever its size, and nothing of it is readable in the database.
func TestFile(t *testing.T) {
	m, pool := open(t)
	random := make([]byte, 2<<20+17)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	for name, content := range map[string][]byte{
		"empty": {}, "small": []byte("a secret line\n"), "a piece": bytes.Repeat([]byte("x"), 1<<20), "several pieces": random,
	} {
		stored := create(t, m, newFile(name+".jsonl", now), content)
		got, err := m.Get(t.Context(), ada, stored.ID)
		if diff := cmp.Diff(stored, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if back := read(t, m, got); !bytes.Equal(back, content) {
			t.Errorf("%s: %d bytes came back of %d", name, len(back), len(content))
		}
	}
	for _, column := range []string{"sealed_name FROM file", "sealed FROM file_piece"} {
		for _, text := range []string{"small", "secret"} {
			if n := testkit.Value[int64](t, pool, "SELECT count(*) FROM (SELECT "+column+") AS c(v) WHERE position($1::bytea IN v) > 0", []byte(text)); n > 0 {
				t.Errorf("%q is readable in %s", text, column)
			}
		}
	}
}

// Files belong to an organization and an owner, and go when they expire, are deleted or erased.
func TestScope(t *testing.T) {
	m, pool := open(t)
	f := create(t, m, newFile("f", now), []byte("x"))
	for _, other := range []file.Scope{{Organization: "acme"}, {Organization: "acme", Owner: "bob"}, {Organization: "bolt", Owner: "ada"}} {
		if _, err := m.Get(t.Context(), other, f.ID); !errors.Is(err, file.ErrNotFound) {
			t.Errorf("%+v reads it: %v", other, err)
		}
		if err := m.Delete(t.Context(), other, f.ID); !errors.Is(err, file.ErrNotFound) {
			t.Errorf("%+v deletes it: %v", other, err)
		}
	}
	if err := m.Delete(t.Context(), ada, f.ID); err != nil {
		t.Fatal(err)
	}
	for _, err := range m.Read(t.Context(), ada, f) {
		if !errors.Is(err, file.ErrNotFound) {
			t.Errorf("read after its deletion: %v", err)
		}
	}
	create(t, m, newFile("g", now), []byte("x"))
	if n, err := m.Erase(t.Context(), "acme"); n != 1 || err != nil {
		t.Errorf("erased %d, %v", n, err)
	}
	old := newFile("old", now.Add(-2*time.Hour))
	create(t, m, old, []byte("x"))
	if _, err := m.Get(t.Context(), ada, old.ID); !errors.Is(err, file.ErrNotFound) {
		t.Errorf("read after it has expired: %v", err)
	}
	if n, err := postgres.NewFiles(pool).Drop(t.Context(), time.Now(), 10); n != 1 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
	if n := testkit.Value[int64](t, pool, "SELECT count(*) FROM file_piece"); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
}

// A caller may shorten the life of a file, and not lengthen it.
func TestExpiry(t *testing.T) {
	m, _ := open(t)
	for name, c := range map[string]struct{ asked, want time.Duration }{
		"left open": {0, time.Hour}, "shorter": {time.Minute, time.Minute}, "longer": {9 * time.Hour, time.Hour},
	} {
		f := newFile(name, now)
		if c.asked > 0 {
			f.ExpiresAt = now.Add(c.asked)
		}
		if got := create(t, m, f, nil).ExpiresAt.Sub(now); got != c.want {
			t.Errorf("%s: kept for %s, want %s", name, got, c.want)
		}
	}
}

func TestList(t *testing.T) {
	m, _ := open(t)
	var ids []string
	for i := range 4 {
		f := newFile("f", now.Add(time.Duration(i)*time.Second))
		if i == 3 {
			f.Purpose = file.PurposeMessageBatch
		}
		ids = append(ids, create(t, m, f, nil).ID)
	}
	shown := file.Shown()
	for name, c := range map[string]struct {
		page file.Page
		want []string
		more bool
	}{
		"newest first":      {file.Page{Purposes: shown, Limit: 2}, []string{ids[2], ids[1]}, true},
		"the next page":     {file.Page{Purposes: shown, Limit: 2, After: ids[1]}, []string{ids[0]}, false},
		"oldest first":      {file.Page{Purposes: shown, Limit: 2, Ascending: true}, ids[:2], true},
		"its next page":     {file.Page{Purposes: shown, Limit: 2, Ascending: true, After: ids[1]}, ids[2:3], false},
		"after none":        {file.Page{Purposes: shown, Limit: 2, After: "file-x"}, nil, false},
		"of another kind":   {file.Page{Purposes: []file.Purpose{file.PurposeMessageBatch}, Limit: 2}, ids[3:], false},
		"of no such a kind": {file.Page{Purposes: []file.Purpose{file.PurposeVision}, Limit: 2}, nil, false},
	} {
		files, more, err := m.List(t.Context(), ada, c.page)
		var got []string
		for _, f := range files {
			got = append(got, f.ID)
		}
		if !slices.Equal(got, c.want) || more != c.more || err != nil {
			t.Errorf("%s: %v, more %t, %v, want %v, %t", name, got, more, err, c.want, c.more)
		}
	}
}

// A file that is written little by little can't be read until it is completed, and may be written anew.
func TestWriter(t *testing.T) {
	m, pool := open(t)
	f := newFile("out", now)
	write := func(line string, n int) file.File {
		w, err := m.Begin(t.Context(), ada, f)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := w.Write(t.Context(), []byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		written, err := w.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
	write(strings.Repeat("first", 100)+"\n", 5000)
	if _, err := m.Get(t.Context(), ada, f.ID); !errors.Is(err, file.ErrNotFound) {
		t.Errorf("read before it is complete: %v", err)
	}
	line := strings.Repeat("second", 50) + "\n"
	written := write(line, 9000)
	testkit.Exec(t, pool, "UPDATE file SET complete = true, size = $1 WHERE id = $2", written.Size, f.ID)
	got, err := m.Get(t.Context(), ada, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	if content := read(t, m, got); string(content) != strings.Repeat(line, 9000) {
		t.Errorf("%d bytes came back of %d", len(content), len(line)*9000)
	}
}

// An organization's files take a bounded room.
func TestFull(t *testing.T) {
	m, pool := open(t)
	create(t, m, newFile("f", now), []byte("x"))
	testkit.Exec(t, pool, "UPDATE file SET size = $1", int64(file.MaxBytes)-1)
	if _, err := m.Create(t.Context(), ada, newFile("g", now), []byte("xx")); !errors.Is(err, file.ErrFull) {
		t.Errorf("beyond all bytes: %v", err)
	}
	create(t, m, newFile("h", now), []byte("x"))
	if n := testkit.Value[int64](t, pool, "SELECT count(*) FROM file"); n != 2 {
		t.Errorf("%d files are stored, want 2", n)
	}
}
