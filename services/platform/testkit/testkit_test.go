package testkit

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"switchyard.dev/services/platform/pgdb"
)

// recorder is a testing.TB whose outcome is inspected instead of reported.
type recorder struct {
	testing.TB
	failed, skipped bool
	said            strings.Builder
	output          strings.Builder
}

func (*recorder) Helper()             {}
func (r *recorder) Output() io.Writer { return &r.output }

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	fmt.Fprintf(&r.said, format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = true
	fmt.Fprintf(&r.said, format, args...)
	runtime.Goexit()
}

func record(t *testing.T, f func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	var done sync.WaitGroup
	done.Go(func() { f(r) })
	done.Wait()
	return r
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"00001_create_item.sql": {Data: []byte("-- +goose Up\nCREATE TABLE item (id bigint PRIMARY KEY);")}}
	watch := Postgres(t, nil)
	var database string
	t.Run("own database", func(t *testing.T) {
		a, b := Postgres(t, files), Postgres(t, files)
		if err := a.QueryRow(t.Context(), "SELECT current_database()").Scan(&database); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Exec(t.Context(), "INSERT INTO item VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := b.QueryRow(t.Context(), "SELECT count(*) FROM item").Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows of the other database, %v", rows, err)
		}
		if err := pgdb.CheckSchema(t.Context(), a, files, "test"); err != nil {
			t.Error(err)
		}
	})
	var left bool
	if err := watch.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&left); err != nil || left {
		t.Errorf("database %s left: %t, %v", database, left, err)
	}
}

func TestReleaseOfPostgres(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{
		"15.18 (Debian 15.18-0+deb12u1)": 15, "17.5": 17, "18beta1": 18, "14": 14, "": 0, "unknown": 0, "99999999999999999999.1": 0,
	} {
		if got := release(version); got != want {
			t.Errorf("release %q is %d, want %d", version, got, want)
		}
	}
}

func TestTemplatesFromBeforeYesterdayGo(t *testing.T) {
	t.Parallel()
	watch := Postgres(t, nil)
	old, recent := templateOf(time.Now().AddDate(0, 0, -2))+"_old", templateOf(time.Now().AddDate(0, 0, -1))+"_recent"
	for _, name := range []string{old, recent} {
		execute(t.Context(), t, os.Getenv(databaseEnv), "CREATE DATABASE "+name)
	}
	defer execute(t.Context(), t, os.Getenv(databaseEnv), "DROP DATABASE "+recent)
	Postgres(t, fstest.MapFS{"00001_once.sql": {Data: []byte("-- +goose Up\nCREATE TABLE once (id text DEFAULT '" + rand.Text() + "');")}})
	for name, want := range map[string]bool{old: false, recent: true} {
		var found bool
		if err := watch.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&found); err != nil || found != want {
			t.Errorf("%s is there: %v, want %v (%v)", name, found, want, err)
		}
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	watch := Redis(t)
	var key string
	t.Run("own keys", func(t *testing.T) {
		c := Redis(t)
		key = c.Key("a")
		if key == watch.Key("a") {
			t.Error("two tests share a prefix")
		}
		if err := c.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	if n, err := watch.Exists(t.Context(), key).Result(); err != nil || n != 0 {
		t.Errorf("%s left: %d, %v", key, n, err)
	}
}

func TestWithoutServers(t *testing.T) {
	for _, c := range []struct {
		ci              string
		failed, skipped bool
	}{{"", false, true}, {"true", true, false}} {
		t.Setenv("CI", c.ci)
		t.Setenv(databaseEnv, "")
		t.Setenv(redisEnv, "")
		for name, use := range map[string]func(testing.TB){
			databaseEnv: func(tb testing.TB) { tb.Helper(); Postgres(tb, nil) },
			redisEnv:    func(tb testing.TB) { tb.Helper(); Redis(tb) },
		} {
			r := record(t, use)
			if r.failed != c.failed || r.skipped != c.skipped {
				t.Errorf("CI=%s %s: failed %t, skipped %t", c.ci, name, r.failed, r.skipped)
			}
			if said := r.said.String(); !strings.Contains(said, name) || !strings.Contains(said, "make test") {
				t.Errorf("CI=%s %s: %q", c.ci, name, said)
			}
		}
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	r := record(t, func(tb testing.TB) {
		tb.Helper()
		Logger(tb).DebugContext(tb.Context(), "sent", slog.Int("attempt", 2))
	})
	if got := r.output.String(); !strings.Contains(got, "msg=sent attempt=2") {
		t.Errorf("got %q", got)
	}
}

func TestNoLeak(t *testing.T) {
	t.Parallel()
	const secret = `s3cr#t/"canary?+`
	leaks := map[string]string{
		"as it is":   "x" + secret + "y",
		"query":      "?token=" + url.QueryEscape(secret),
		"path":       "/" + url.PathEscape(secret),
		"JSON":       `{"token":"s3cr#t/\"canary?+"}`,
		"hex":        hex.EncodeToString([]byte("key=" + secret)),
		"HEX":        strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"the second": "fine",
	}
	for _, head := range []string{"", "a", "ab", "user:"} {
		leaks["base64 after "+head] = base64.StdEncoding.EncodeToString([]byte(head + secret + "tail"))
		leaks["base64url after "+head] = base64.RawURLEncoding.EncodeToString([]byte(head + secret))
	}
	for name, text := range leaks {
		second := ""
		if name == "the second" {
			second = secret
		}
		if r := record(t, func(tb testing.TB) { tb.Helper(); NoLeak(tb, secret, text, second) }); !r.failed {
			t.Errorf("%s: not found in %s", name, text)
		}
	}
	for _, text := range []string{"", "nothing here", secret[:8], strings.ToUpper(secret), base64.StdEncoding.EncodeToString([]byte("another text"))} {
		if r := record(t, func(tb testing.TB) { tb.Helper(); NoLeak(tb, secret, text) }); r.failed {
			t.Errorf("found in %q: %s", text, r.said.String())
		}
	}
	if r := record(t, func(tb testing.TB) { tb.Helper(); NoLeak(tb, "short", "text") }); !r.failed {
		t.Error("a short canary was accepted")
	}
}
