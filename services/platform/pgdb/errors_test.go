package pgdb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

func TestIsUniqueViolation(t *testing.T) {
	t.Parallel()
	pool := testkit.Postgres(t, nil)
	_, err := pool.Exec(t.Context(), `CREATE TABLE item (name text CONSTRAINT item_name_key UNIQUE, size int CHECK (size > 0)); INSERT INTO item VALUES ('a', 1)`)
	if err != nil {
		t.Fatal(err)
	}
	_, duplicate := pool.Exec(t.Context(), "INSERT INTO item VALUES ('a', 2)")
	_, check := pool.Exec(t.Context(), "INSERT INTO item VALUES ('b', 0)")
	for _, c := range []struct {
		name, constraint string
		err              error
		want             bool
	}{
		{"the constraint", "item_name_key", duplicate, true},
		{"any", "", duplicate, true},
		{"wrapped", "item_name_key", fmt.Errorf("insert: %w", duplicate), true},
		{"another", "item_pkey", duplicate, false},
		{"a check", "", check, false},
		{"no error", "", nil, false},
		{"not Postgres", "", io.EOF, false},
	} {
		if got := pgdb.IsUniqueViolation(c.err, c.constraint); got != c.want {
			t.Errorf("%s: %t, want %t (%v)", c.name, got, c.want, c.err)
		}
	}
}

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresURL(t, nil)
	pool := testkit.Pool(t, pgdb.Options{URL: dsn})
	_, slow := pool.Exec(t.Context(), "SET statement_timeout = 1; SELECT pg_sleep(10)")
	_, refused := pgdb.Open(t.Context(), pgdb.Options{URL: "postgres://app@127.0.0.1:1/db"})
	_, unknown := pgdb.Open(t.Context(), pgdb.Options{URL: withParam(t, dsn, "dbname", "nowhere")})
	left, cancel := context.WithCancel(t.Context())
	cancel()
	_, canceled := pgx.Connect(left, dsn)
	code := func(code string) error { return fmt.Errorf("select: %w", &pgconn.PgError{Code: code}) }

	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"refused", refused, true},
		{"terminated", terminated(t, dsn), true},
		{"too many connections", code("53300"), true},
		{"crash", code("57P02"), true},
		{"starting", code("57P03"), true},
		{"connection failure", code("08006"), true},
		{"disk full", code("53100"), true},
		{"out of memory", code("53200"), true},
		{"a standby", code("25006"), true},
		{"a password that was rotated", code("28P01"), true},
		{"a role that may not connect", code("28000"), true},
		{"reset", fmt.Errorf("query: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), true},
		{"closed", fmt.Errorf("query: %w", pgconn.ErrConnClosed), true},
		{"no such database", unknown, false},
		{"slow statement", slow, false},
		{"the caller left", canceled, false},
		{"the caller's deadline", context.DeadlineExceeded, false},
		{"no rows", pgx.ErrNoRows, false},
		{"none", nil, false},
		{"another", errors.New("no"), false},
	} {
		if c.err == nil && c.name != "none" {
			t.Errorf("%s: the error did not come about", c.name)
		}
		if got := pgdb.IsUnavailable(c.err); got != c.want {
			t.Errorf("%s: %t, want %t (%v)", c.name, got, c.want, c.err)
		}
	}
}

// terminated returns the error of a query whose session an operator terminates.
func terminated(t *testing.T, dsn string) error {
	t.Helper()
	pool := testkit.Pool(t, pgdb.Options{URL: dsn})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())")
	if err == nil {
		t.Fatal("still connected")
	}
	return err
}
