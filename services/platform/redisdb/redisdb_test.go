package redisdb_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

func TestKey(t *testing.T) {
	t.Parallel()
	c := redisdb.Client{Prefix: "webhook"}
	for _, test := range []struct {
		want  string
		parts []string
	}{
		{"webhook", nil},
		{"webhook:breaker", []string{"breaker"}},
		{"webhook:breaker:acme:example.com", []string{"breaker", "acme", "example.com"}},
		{"webhook:a%3Ab:c", []string{"a:b", "c"}},
		{"webhook:a:b%3Ac", []string{"a", "b:c"}},
		{"webhook:a%253Ab", []string{"a%3Ab"}},
		{"webhook::", []string{"", ""}},
	} {
		if got := c.Key(test.parts...); got != test.want {
			t.Errorf("%q: %s, want %s", test.parts, got, test.want)
		}
	}
}

func FuzzKeyIsInjective(f *testing.F) {
	c := redisdb.Client{Prefix: "p"}
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a%", "3Ab", "a", "%3Ab")
	f.Fuzz(func(t *testing.T, a, b, x, y string) {
		if (a != x || b != y) && c.Key(a, b) == c.Key(x, y) {
			t.Errorf("%q %q and %q %q share the key %q", a, b, x, y, c.Key(a, b))
		}
	})
}

func TestOpenWithoutServer(t *testing.T) {
	t.Parallel()
	c, err := redisdb.Open(t.Context(), redisdb.Options{URL: "redis://127.0.0.1:1", Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a server that is away answered")
	}
}

func TestOpenBoundsEachCommand(t *testing.T) {
	t.Parallel()
	o := func(url string) *redis.Options {
		c, err := redisdb.Open(t.Context(), redisdb.Options{URL: url, Prefix: "p"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.Options()
	}
	byDefault := o("redis://127.0.0.1:1")
	if byDefault.DialTimeout != time.Second || byDefault.ReadTimeout != 500*time.Millisecond || byDefault.MaxRetries != 0 {
		t.Errorf("defaults: dial %v, read %v, %d retries", byDefault.DialTimeout, byDefault.ReadTimeout, byDefault.MaxRetries)
	}
	if own := o("redis://127.0.0.1:1?read_timeout=3s"); own.ReadTimeout != 3*time.Second {
		t.Errorf("the URL's timeout became %v", own.ReadTimeout)
	}
}

// TestDeadlineOfTheCaller calls a server that never answers; it would hang if the client respected only its own
// timeouts.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	left, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := redisdb.Open(left, redisdb.Options{URL: "redis://" + l.Addr().String() + "?read_timeout=1h", Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a silent server answered")
	}
}

func TestErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-canary"
	for _, url := range []string{
		"redis://app:" + secret + "@127.0.0.1:port",
		"redis://app:%zz" + secret + "@127.0.0.1",
		"redis://app:" + secret + "@127.0.0.1/zero",
		"redis://app:" + secret + "@127.0.0.1?no_such_option=1",
		"redis://app:" + secret + "\x7f@127.0.0.1",
		"http://app:" + secret + "@127.0.0.1",
		secret,
		"",
	} {
		c, err := redisdb.Open(t.Context(), redisdb.Options{URL: url, Prefix: "p"})
		if err == nil {
			c.Close()
			t.Errorf("%q: opened", url)
			continue
		}
		testkit.NoLeak(t, secret, err.Error())
	}

	server := testkit.Redis(t).Options().Addr
	for _, url := range []string{"redis://app:" + secret + "@" + server, "redis://app:" + secret + "@127.0.0.1:1"} {
		c, err := redisdb.Open(t.Context(), redisdb.Options{URL: url, Prefix: "p"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Ping(t.Context()).Err(); err == nil {
			t.Errorf("%q: no error", url)
		} else {
			testkit.NoLeak(t, secret, err.Error())
		}
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	c := testkit.Redis(t)
	if err := c.Set(t.Context(), c.Key("a", "b"), "1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(t.Context(), c.Prefix+":a:b").Result(); err != nil || got != "1" {
		t.Errorf("%q %v", got, err)
	}
}

// A start says that Redis is in cluster mode, in which scripts and reads of several keys fail.
func TestClusterModeIsLogged(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server is installed")
	}
	open := func(url string) string {
		var lines testkit.Buffer
		c, err := redisdb.Open(t.Context(), redisdb.Options{URL: url, Log: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return lines.String()
	}
	address := testkit.FreeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	_, bus, _ := net.SplitHostPort(testkit.FreeAddress(t))
	server := exec.CommandContext(t.Context(), program, "--bind", host, "--port", port, "--cluster-enabled", "yes", "--cluster-port", bus, "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // The test's context ends it.
	testkit.Wait(t, "the log of a server in cluster mode", func() error {
		if got := open("redis://" + address); strings.Count(got, "cluster mode") != 1 {
			return errors.New(got)
		}
		return nil
	})
	if got := open("redis://" + testkit.Redis(t).Options().Addr); got != "" {
		t.Errorf("the log of another server has %q", got)
	}
}
