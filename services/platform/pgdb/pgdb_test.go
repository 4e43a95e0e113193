package pgdb_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

func TestOpenSetsLimits(t *testing.T) {
	t.Parallel()
	base := testkit.PostgresURL(t, nil)
	own := base + "&statement_timeout=7s"
	for _, c := range []struct{ name, url, setting, want string }{
		{"statement", base, "statement_timeout", "30s"},
		{"idle transaction", base, "idle_in_transaction_session_timeout", "10s"},
		{"zone", base, "timezone", "UTC"},
		{"name", base, "application_name", "notify"},
		{"the URL wins", own, "statement_timeout", "7s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := testkit.Pool(t, pgdb.Options{URL: c.url, MaxConns: 3, ApplicationName: "notify"})
			if got := testkit.Value[string](t, pool, "SELECT current_setting($1)", c.setting); got != c.want {
				t.Errorf("%s is %s, want %s", c.setting, got, c.want)
			}
			if got := pool.Config().MaxConns; got != 3 {
				t.Errorf("%d connections, want 3", got)
			}
		})
	}
}

// The size of a pool is the program's, unless it leaves it to the operator's URL.
func TestPoolSize(t *testing.T) {
	t.Parallel()
	base := testkit.PostgresURL(t, nil)
	for _, c := range []struct {
		name    string
		options pgdb.Options
		want    int32
	}{
		{"no default", pgdb.Options{URL: base}, 4}, // The driver's own is that of the machine's cores, if it has more than 4.
		{"a default", pgdb.Options{URL: base, DefaultConns: 16}, 16},
		{"the URL before a default", pgdb.Options{URL: base + "&pool_max_conns=6", DefaultConns: 16}, 6},
		{"a fixed size", pgdb.Options{URL: base + "&pool_max_conns=6", MaxConns: 2}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := testkit.Pool(t, c.options).Config().MaxConns; got != c.want {
				t.Errorf("%d connections, want %d", got, c.want)
			}
		})
	}
}

func TestOpenErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-canary"
	for name, dsn := range map[string]string{
		"nobody listens":    "postgres://app:" + secret + "@127.0.0.1:1/db",
		"no such host":      "postgres://app:" + secret + "@database.invalid/db",
		"port in words":     "postgres://app:" + secret + "@127.0.0.1:port/db",
		"bad escape":        "postgres://app:%zz" + secret + "@127.0.0.1/db",
		"slash in it":       "postgres://app:/" + secret + "@127.0.0.1:x/db",
		"bad option":        "postgres://app:" + secret + "@127.0.0.1/db?pool_max_conns=many",
		"in the query":      "postgres://127.0.0.1/db?sslmode=never&password=" + secret,
		"keywords":          "host=127.0.0.1 port=x password=" + secret,
		"keywords, quoted":  "host=127.0.0.1 password='" + secret + " port=1",
		"another scheme":    "mysql://app:" + secret + "@127.0.0.1/db",
		"nothing but it":    secret,
		"nothing":           "",
		"control character": "postgres://app:" + secret + "\x7f@127.0.0.1/db",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := pgdb.Open(t.Context(), pgdb.Options{URL: dsn})
			if err == nil {
				pool.Close()
				t.Fatal("opened")
			}
			_, migrateErr := pgdb.Migrate(t.Context(), dsn, migrations("1"), testkit.Logger(t))
			if migrateErr == nil {
				t.Fatal("migrated")
			}
			testkit.NoLeak(t, secret, err.Error(), migrateErr.Error())
		})
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	pool := testkit.Postgres(t, nil)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE item (name text PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	insert := func(tx pgx.Tx, name string) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO item (name) VALUES ($1)", name)
		return err
	}
	exists := func(name string) bool {
		return testkit.Value[bool](t, pool, "SELECT EXISTS (SELECT FROM item WHERE name = $1)", name)
	}

	t.Run("commits", func(t *testing.T) {
		if err := pgdb.InTx(t.Context(), pool, func(tx pgx.Tx) error { return insert(tx, "kept") }); err != nil || !exists("kept") {
			t.Errorf("not committed: %v", err)
		}
	})
	t.Run("rolls back on error", func(t *testing.T) {
		failure := errors.New("no")
		err := pgdb.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			return errors.Join(insert(tx, "failed"), failure)
		})
		if !errors.Is(err, failure) || exists("failed") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("rolls back on panic", func(t *testing.T) {
		defer func() {
			if recover() == nil || exists("panicked") {
				t.Error("the panic was lost or the row kept")
			}
		}()
		_ = pgdb.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			if err := insert(tx, "panicked"); err != nil {
				t.Error(err)
			}
			panic("no")
		})
	})
	t.Run("keeps the connection of a caller who left", func(t *testing.T) {
		before := pool.Stat().NewConnsCount()
		ctx, cancel := context.WithCancel(t.Context())
		err := pgdb.InTx(ctx, pool, func(tx pgx.Tx) error {
			if err := insert(tx, "left"); err != nil {
				t.Error(err)
			}
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || exists("left") {
			t.Errorf("got %v", err)
		}
		if after := pool.Stat().NewConnsCount(); after != before {
			t.Errorf("%d new connections", after-before)
		}
	})
	t.Run("says what failed", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := pgdb.InTx(ctx, pool, func(pgx.Tx) error { return nil })
		if err == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// After a restart of the server no connection of the pool works, and none of them is used.
func TestBrokenConnectionsAreNotUsed(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t, pgdb.Options{URL: testkit.PostgresURL(t, nil), ApplicationName: "restarted", MaxConns: 4})
	conns := make([]*pgxpool.Conn, 4)
	for i := range conns {
		var err error
		if conns[i], err = pool.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	operator := testkit.Pool(t, pgdb.Options{URL: pool.Config().ConnString()})
	if got := testkit.Value[int](t, operator, `SELECT count(pg_terminate_backend(pid, 10000))
		FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'restarted'`); got != len(conns) {
		t.Fatalf("%d connections were broken, want %d", got, len(conns))
	}
	for _, conn := range conns {
		conn.Release() // None of them is idle for so long that the pool checks it.
	}
	for range conns {
		if _, err := pool.Exec(t.Context(), "SELECT"); err != nil {
			t.Error(err)
		}
	}
	if made := pool.Stat().NewConnsCount(); made != int64(len(conns))+1 {
		t.Errorf("%d connections were made, want one for those that were broken", made)
	}
}

// A connection that the server left alone is not pinged.
func TestQuietConnections(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t, pgdb.Options{URL: testkit.PostgresURL(t, nil)})
	for range 100 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle := pgxpool.ShouldPingParams{Conn: conn.Conn()}
		if pool.Config().ShouldPing(t.Context(), idle) {
			t.Error("a quiet connection is pinged")
		}
		conn.Release()
	}
}

// withParam adds a parameter to a URL.
func withParam(t *testing.T, raw, name, val string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, val)
	u.RawQuery = q.Encode()
	return u.String()
}
