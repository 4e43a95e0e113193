// Package testkit gives tests a real Postgres database, a real Redis prefix, a logger that writes to the test, a search
// for leaked secrets, and helpers that several services need: files, service tokens, connections that can be cut. Only
// tests import it.
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

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
)

// Environment variables with the servers of a test run. `make test` starts both servers and sets them.
const (
	databaseEnv = "SWITCHYARD_TEST_DATABASE_URL" // the role must be allowed to create databases and schemas
	redisEnv    = "SWITCHYARD_TEST_REDIS_URL"
)

const cleanupTimeout = 10 * time.Second

// Postgres returns a pool on [PostgresURL]. Both are closed at the end of the test.
func Postgres(tb testing.TB, migrations fs.FS) *pgxpool.Pool {
	tb.Helper()
	return Pool(tb, pgdb.Options{URL: PostgresURL(tb, migrations), MaxConns: 8, ApplicationName: tb.Name()})
}

// Pool returns a pool with the options. It is closed at the end of the test.
func Pool(tb testing.TB, options pgdb.Options) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgdb.Open(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// PostgresURL returns the URL of the test's own database with the migrations applied, or of an empty schema if
// migrations is nil. Either is dropped at the end of the test; pools on it must be closed before.
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

// Redis returns a client with the test's own prefix. The keys are deleted at the end of the test.
func Redis(tb testing.TB) *redisdb.Client {
	tb.Helper()
	c, err := redisdb.Open(tb.Context(), redisdb.Options{URL: serverURL(tb, redisEnv), Prefix: "t_" + strings.ToLower(rand.Text())})
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

// serverURL returns the server's URL from the variable env. If it is not set, the test is skipped. In CI the test fails
// instead, because a skipped test would pass unnoticed.
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

// Logger returns a logger that writes to the log of the test.
func Logger(tb testing.TB) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// minSecret is the minimum length of a secret, so that a text can't contain it by chance.
const minSecret = 8

// NoLeak fails the test if a text contains the secret, as it is or in an encoding used in logs, URLs, JSON or headers.
func NoLeak(tb testing.TB, secret string, texts ...string) {
	tb.Helper()
	if len(secret) < minSecret {
		tb.Fatalf("a canary of %d bytes proves nothing, want %d or more", len(secret), minSecret)
	}
	for i, text := range texts {
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(text) // from the URL alphabet of base64 to the standard one
		for _, form := range encodings(secret) {
			if strings.Contains(text, form) || strings.Contains(plain, form) {
				tb.Errorf("text %d holds the secret as %s: %s", i, form, text)
				break
			}
		}
	}
}

func encodings(secret string) []string {
	quoted, _ := json.Marshal(secret) // A string always marshals.
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

// base64Inside returns the part of a longer base64 text that depends on the secret only, if the secret begins at byte
// shift of a group of three.
func base64Inside(secret string, shift int) string {
	digits := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), secret...))
	first := (shift*8 + 5) / 6
	last := (shift + len(secret)) * 8 / 6
	return digits[first:last]
}
