package pgdb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// shareTime bounds the waits of these tests for what comes at once.
const shareTime = 20 * time.Second

// callOf returns the context of a call of an organization.
func callOf(tb testing.TB, organization string) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), shareTime)
	tb.Cleanup(cancel)
	return caller.With(ctx, caller.Caller{Organization: organization})
}

// loadGenerator makes many calls of an organization at once. Each call sends the connection that it got, or its error.
type loadGenerator struct {
	got    chan *pgxpool.Conn
	failed chan error
	calls  sync.WaitGroup
}

func newLoadGenerator(ctx context.Context, t *testing.T, pool *pgxpool.Pool, n int) *loadGenerator {
	t.Helper()
	c := &loadGenerator{got: make(chan *pgxpool.Conn, n), failed: make(chan error, n)}
	for range n {
		c.calls.Go(func() {
			if conn, err := pool.Acquire(ctx); err != nil {
				c.failed <- err
			} else {
				c.got <- conn
			}
		})
	}
	t.Cleanup(func() { // After a failure, the pool could not close while its connections are held.
		go func() {
			c.calls.Wait()
			close(c.got)
		}()
		for conn := range c.got {
			conn.Release()
		}
	})
	return c
}

// next returns the next connection that a call has got. It is released when the test ends, at the latest.
func (c *loadGenerator) next(t *testing.T) *pgxpool.Conn {
	t.Helper()
	select {
	case conn := <-c.got:
		t.Cleanup(conn.Release)
		return conn
	case err := <-c.failed:
		t.Fatal(err)
	case <-time.After(shareTime):
		t.Fatal("no call of the organization gets a connection")
	}
	return nil
}

// While calls of one organization hold its share of the connections, and 197 more wait, another organization's calls
// and work without an organization get connections at once. Calls that are cancelled in line take no place.
func TestOrganizationHasItsShareOfConnections(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t, pgdb.Options{URL: testkit.PostgresURL(t, nil), MaxConns: 6})
	ctx, leave := context.WithCancel(callOf(t, "hostile"))
	defer leave()
	hostile := newLoadGenerator(ctx, t, pool, 200)
	held := []*pgxpool.Conn{hostile.next(t), hostile.next(t), hostile.next(t)}
	for _, organization := range []string{"acme", "", "acme"} {
		held = append(held, newLoadGenerator(callOf(t, organization), t, pool, 1).next(t))
	}
	if n := len(hostile.got); n > 0 {
		t.Errorf("one organization holds %d of 6 connections", 3+n)
	}
	leave()
	hostile.calls.Wait()
	if n := len(hostile.got); n > 0 {
		t.Errorf("%d cancelled calls got a connection", n)
	}
	for _, conn := range held {
		conn.Release()
	}
	again := newLoadGenerator(callOf(t, "hostile"), t, pool, 3)
	for range 3 {
		again.next(t)
	}
}

// A pool of one connection serves the calls of all organizations one after the other.
func TestOneConnectionIsShared(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t, pgdb.Options{URL: testkit.PostgresURL(t, nil), MaxConns: 1})
	hostile := newLoadGenerator(callOf(t, "hostile"), t, pool, 3)
	hostile.next(t).Release()
	acme := newLoadGenerator(callOf(t, "acme"), t, pool, 1)
	for range 3 {
		select {
		case conn := <-hostile.got:
			conn.Release()
		case conn := <-acme.got:
			conn.Release()
		case <-time.After(shareTime):
			t.Fatal("a call waits although the connection is free")
		}
	}
}

// Everything that takes a connection gives its place back with it: each operation runs more often than there are places.
func TestPlacesComeBackWithConnections(t *testing.T) {
	t.Parallel()
	url := testkit.PostgresURL(t, nil)
	pool := testkit.Pool(t, pgdb.Options{URL: url, MaxConns: 1})
	testkit.Exec(t, pool, "CREATE TABLE item (name text)")
	closed := func(rows pgx.Rows, err error) error {
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		return err
	}
	for name, operation := range map[string]func(context.Context) error{
		"exec":          func(ctx context.Context) error { _, err := pool.Exec(ctx, "SELECT 1"); return err },
		"exec, failed":  func(ctx context.Context) error { _, err := pool.Exec(ctx, "SELEC 1"); return failed(err) },
		"query":         func(ctx context.Context) error { return closed(pool.Query(ctx, "SELECT 1")) },
		"query, failed": func(ctx context.Context) error { return failed(closed(pool.Query(ctx, "SELEC 1"))) },
		"row":           func(ctx context.Context) error { return pool.QueryRow(ctx, "SELECT 1").Scan(new(int)) },
		"row, failed":   func(ctx context.Context) error { return failed(pool.QueryRow(ctx, "SELEC 1").Scan(new(int))) },
		"batch": func(ctx context.Context) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			return pool.SendBatch(ctx, b).Close()
		},
		"copy": func(ctx context.Context) error {
			_, err := pool.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"name"}, pgx.CopyFromRows([][]any{{"a"}}))
			return err
		},
		"transaction": func(ctx context.Context) error {
			return pgdb.InTx(ctx, pool, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT 1"); return err })
		},
		"transaction, failed": func(ctx context.Context) error {
			return failed(pgdb.InTx(ctx, pool, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELEC 1"); return err }))
		},
		"connection, closed": func(ctx context.Context) error {
			conn, err := pool.Acquire(ctx)
			if err == nil {
				err = conn.Conn().Close(ctx)
				conn.Release()
			}
			return err
		},
		"ping": pool.Ping,
		"ended": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return failed(pool.Ping(ctx))
		},
	} {
		for range 3 {
			if err := operation(callOf(t, "acme")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	unreachable, err := pgxpool.NewWithConfig(t.Context(), brokenConfig(t, pool))
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	for range 3 {
		if err := unreachable.Ping(callOf(t, "acme")); err == nil || strings.Contains(err.Error(), "try again") {
			t.Errorf("a server that can't be reached: %v", err)
		}
	}
}

var errSucceeded = errors.New("it succeeded")

// failed returns nil for an error and an error for nil.
func failed(err error) error {
	if err == nil {
		return errSucceeded
	}
	return nil
}

// brokenConfig returns a pool's configuration with connections that fail.
func brokenConfig(t *testing.T, pool *pgxpool.Pool) *pgxpool.Config {
	t.Helper()
	cfg := pool.Config()
	cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return errors.New("the server is away") }
	return cfg
}

// BenchmarkShare compares a call's statement, which takes a place, with statements that take none.
func BenchmarkShare(b *testing.B) {
	shared := testkit.Pool(b, pgdb.Options{URL: testkit.PostgresURL(b, nil), MaxConns: 4})
	cfg := shared.Config()
	cfg.ConnConfig.Tracer = nil
	plain, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	call := caller.With(b.Context(), caller.Caller{Organization: "acme"})
	for _, c := range []struct {
		name string
		pool *pgxpool.Pool
		ctx  context.Context
	}{{"plain pool", plain, call}, {"work", shared, b.Context()}, {"call", shared, call}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.pool.Exec(c.ctx, "SELECT"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
