// Package testkit gives tests a real Postgres database, a real Redis prefix, a
// logger that writes to the test and a search for leaked secrets, and makes what
// tests of several services need: files, service tokens, connections that can be
// cut. Only tests import it.
package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
)

// Where the servers of a test run are; `make test` starts both and sets these.
const (
	databaseEnv = "SWITCHYARD_TEST_DATABASE_URL" // a role that may create databases and schemas
	redisEnv    = "SWITCHYARD_TEST_REDIS_URL"
)

const cleanupTimeout = 10 * time.Second

// Postgres is a pool on [PostgresURL]; both end with the test.
func Postgres(tb testing.TB, migrations fs.FS) *pgxpool.Pool {
	tb.Helper()
	return Pool(tb, pgdb.Options{URL: PostgresURL(tb, migrations), MaxConns: 8, ApplicationName: tb.Name()})
}

// Pool is what pgdb opens with the options; it ends with the test.
func Pool(tb testing.TB, options pgdb.Options) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgdb.Open(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// PostgresURL is the URL of a database of the test's own with the migrations applied,
// or without migrations (nil) of an empty schema. Either ends with the test, and pools
// on it must be closed before.
func PostgresURL(tb testing.TB, migrations fs.FS) string {
	tb.Helper()
	server := serverURL(tb, databaseEnv)
	if migrations != nil {
		return copyOfTemplate(tb, server, migrations)
	}
	schema := "t_" + strings.ToLower(rand.Text())
	execute(tb.Context(), tb, server, "CREATE SCHEMA "+schema)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanupTimeout)
		defer cancel()
		execute(ctx, tb, server, "DROP SCHEMA "+schema+" CASCADE")
	})

	own, err := withSearchPath(server, schema)
	if err != nil {
		tb.Fatalf("%s is not a URL", databaseEnv)
	}
	return own
}

func withSearchPath(server, schema string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func execute(ctx context.Context, tb testing.TB, server, statement string) {
	tb.Helper()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// Redis is a client with a prefix of the test's own, whose keys go with the
// test.
func Redis(tb testing.TB) *redisdb.Client {
	tb.Helper()
	c, err := redisdb.Open(tb.Context(), serverURL(tb, redisEnv), "t_"+strings.ToLower(rand.Text()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Ping(tb.Context()).Err(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanupTimeout)
		defer cancel()
		keys := c.Scan(ctx, 0, c.Prefix+":*", 1000).Iterator()
		for keys.Next(ctx) {
			c.Del(ctx, keys.Val())
		}
		if err := keys.Err(); err != nil {
			tb.Errorf("delete the test's keys: %v", err)
		}
		_ = c.Close()
	})
	return c
}

// serverURL returns the server's URL from the variable env. It skips the test when
// that is not set, except in CI, where the test then fails: a skipped one would pass
// for a green one.
func serverURL(tb testing.TB, env string) string {
	tb.Helper()
	server := os.Getenv(env)
	switch {
	case server != "":
	case os.Getenv("CI") == "true":
		tb.Fatalf("%s is not set: `make test` starts the servers and sets it", env)
	default:
		tb.Skipf("%s is not set: `make test` starts the servers and sets it", env)
	}
	return server
}

// Logger writes each record to the log of the test.
func Logger(tb testing.TB) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// minSecret keeps a canary long enough that it can't turn up by chance.
const minSecret = 8

// NoLeak fails the test when a text holds the secret as it is or in a form in
// which logs, URLs, JSON and headers carry it.
func NoLeak(tb testing.TB, secret string, texts ...string) {
	tb.Helper()
	if len(secret) < minSecret {
		tb.Fatalf("a canary of %d bytes proves nothing, want %d or more", len(secret), minSecret)
	}
	for i, text := range texts {
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(text) // the base64 of URLs
		for _, form := range encodings(secret) {
			if strings.Contains(text, form) || strings.Contains(plain, form) {
				tb.Errorf("text %d holds the secret as %s: %s", i, form, text)
				break
			}
		}
	}
}

func encodings(secret string) []string {
	quoted, _ := json.Marshal(secret) // a string always marshals
	inHex := hex.EncodeToString([]byte(secret))
	return []string{
		secret,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		string(bytes.Trim(quoted, `"`)),
		inHex,
		strings.ToUpper(inHex),
		base64Inside(secret, 0),
		base64Inside(secret, 1),
		base64Inside(secret, 2),
	}
}

// base64Inside is what a longer base64 text shows of the secret when it begins
// at byte shift of a group of three: only the digits made of its own bits.
func base64Inside(secret string, shift int) string {
	digits := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), secret...))
	first := (shift*8 + 5) / 6
	last := (shift + len(secret)) * 8 / 6
	return digits[first:last]
}
