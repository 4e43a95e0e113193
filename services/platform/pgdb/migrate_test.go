package pgdb_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// migrations returns one file per number, which creates one table; the file of "3!" fails.
func migrations(numbers ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, n := range numbers {
		number, broken := strings.CutSuffix(n, "!")
		statement := fmt.Sprintf("-- +goose Up\nCREATE TABLE item%s (id bigint PRIMARY KEY);\n", number)
		if broken {
			statement += "SELECT nonsense;\n"
		}
		files["0000"+number+"_add_item.sql"] = &fstest.MapFile{Data: []byte(statement)}
	}
	return files
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresURL(t, nil)
	steps := []struct {
		name    string
		files   fstest.MapFS
		applied []string
		err     string
	}{
		{"first", migrations("1", "2"), []string{"00001_add_item.sql", "00002_add_item.sql"}, ""},
		{"again", migrations("1", "2"), nil, ""},
		{"up to a failure", migrations("1", "2", "3", "4!"), []string{"00003_add_item.sql"}, "00004_add_item.sql"},
		{"once mended", migrations("1", "2", "3", "4"), []string{"00004_add_item.sql"}, ""},
		{"an older release", migrations("1", "2"), nil, ""},
		{"nothing to apply from", migrations(), nil, "no migrations"},
	}
	for _, step := range steps {
		applied, err := pgdb.Migrate(t.Context(), dsn, step.files, testkit.Logger(t))
		if diff := cmp.Diff(step.applied, applied); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", step.name, diff)
		}
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: %v, want %q", step.name, err, step.err)
		}
	}
	pool := testkit.Pool(t, pgdb.Options{URL: dsn})
	const tables = `SELECT array_agg(tablename::text ORDER BY tablename) FROM pg_tables WHERE schemaname = current_schema()`
	if diff := cmp.Diff([]string{"item1", "item2", "item3", "item4", "schema_migrations"}, testkit.Value[[]string](t, pool, tables)); diff != "" {
		t.Errorf("tables (-want +got)\n%s", diff)
	}
}

func TestMigrateTakesTurns(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresURL(t, nil)
	files := migrations("1", "2", "3")
	var (
		mu    sync.Mutex
		all   []string
		group sync.WaitGroup
	)
	for range 4 {
		group.Go(func() {
			applied, err := pgdb.Migrate(t.Context(), dsn, files, testkit.Logger(t))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, applied...)
		})
	}
	group.Wait()
	slices.Sort(all)
	if diff := cmp.Diff([]string{"00001_add_item.sql", "00002_add_item.sql", "00003_add_item.sql"}, all); diff != "" {
		t.Errorf("applied by all (-want +got)\n%s", diff)
	}
}

func TestMigrateNeedsASchema(t *testing.T) {
	t.Parallel()
	dsn := withParam(t, testkit.PostgresURL(t, nil), "search_path", "nowhere")
	if _, err := pgdb.Migrate(t.Context(), dsn, migrations("1"), testkit.Logger(t)); err == nil || !strings.Contains(err.Error(), "search_path") {
		t.Errorf("got %v", err)
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	empty := testkit.Postgres(t, nil)
	second := testkit.Postgres(t, migrations("1", "2"))
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"never migrated", pgdb.CheckSchema(t.Context(), empty, migrations("1"), "notify"), "it lacks 00001_add_item.sql: run `notify migrate`"},
		{"older", pgdb.CheckSchema(t.Context(), second, migrations("1", "2", "3", "4"), "edge"), "it lacks 00003_add_item.sql, 00004_add_item.sql: run `edge migrate`"},
		{"the same", pgdb.CheckSchema(t.Context(), second, migrations("1", "2"), "edge"), ""},
		{"newer", pgdb.CheckSchema(t.Context(), second, migrations("1"), "edge"), ""},
		{"no number", pgdb.CheckSchema(t.Context(), second, fstest.MapFS{"add.sql": {}}, "edge"), "add.sql"},
	} {
		if (c.err == nil) != (c.want == "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.want)
		}
	}
}

func TestMigrateCommandReports(t *testing.T) {
	url := testkit.PostgresURL(t, nil)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"applied 00001_add_item.sql\n", "the schema is up to date\n"} {
		var out strings.Builder
		if err := pgdb.MigrateCommand(t.Context(), secret.File(file), migrations("1"), &out); err != nil || out.String() != want {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
	if err := pgdb.MigrateCommand(t.Context(), secret.File(file+"x"), migrations("1"), io.Discard); err == nil {
		t.Error("no error without the file")
	}
}

// A migration that takes its locks in another order than a transaction of the running release is the one that Postgres
// aborts. It succeeds when that transaction has ended.
func TestMigrateAfterADeadlock(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresURL(t, nil)
	if _, err := pgdb.Migrate(t.Context(), dsn, migrations("1", "2"), testkit.Logger(t)); err != nil {
		t.Fatal(err)
	}
	pool := testkit.Pool(t, pgdb.Options{URL: dsn})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec("SET LOCAL deadlock_timeout = '1min'") // so that the migration looks for the deadlock first
	exec("LOCK TABLE item1 IN ROW EXCLUSIVE MODE")
	files := migrations("1", "2")
	files["00003_lock.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE item2 ADD n int;\nALTER TABLE item1 ADD n int;\n")}
	var log strings.Builder
	var group errgroup.Group
	group.Go(func() error {
		applied, err := pgdb.Migrate(t.Context(), dsn, files, slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil && !slices.Equal(applied, []string{"00003_lock.sql"}) {
			err = fmt.Errorf("applied %q", applied)
		}
		return err
	})
	const waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'item1'::regclass AND NOT granted"
	testkit.Wait(t, "the migration waits for item1", func() error {
		if testkit.Value[int](t, pool, waiting) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	exec("LOCK TABLE item2 IN ROW EXCLUSIVE MODE")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "trying again") {
		t.Errorf("no deadlock came about: %s", log.String())
	}
}
