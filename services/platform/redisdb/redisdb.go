// Package redisdb opens the Redis client of a service. Redis holds only data that may be lost (breaker and rate state,
// caches) and is optional at run time: while the server is unreachable, calls fail quickly and services still start.
package redisdb

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"switchyard.dev/services/platform/kv"
)

const (
	dialTimeout = time.Second
	ioTimeout   = 500 * time.Millisecond
)

// Client is a go-redis client whose keys have one prefix, so that services can share a server.
type Client struct {
	*redis.Client
	Prefix string
}

// errURL replaces the driver's parse error, which quotes the URL with its password.
var errURL = errors.New("invalid Redis URL, want redis://user:password@host:port/database")

// quiet disables the driver's own log. The driver prints each failed dial to standard error; every command returns that
// error too, and its caller logs it once.
var quiet = sync.OnceFunc(logging.Disable)

// CheckURL reports what is wrong with a URL, without connecting. The error doesn't contain the password.
func CheckURL(url string) error {
	if _, err := redis.ParseURL(url); err != nil {
		return errURL
	}
	return nil
}

// Open returns a client and tries to connect. It fails on a malformed URL, but not on an unreachable server. Timeouts
// are 1 s to connect and 500 ms to read or write, unless the URL sets others. Commands are not retried, because a
// script that timed out may have run.
func Open(ctx context.Context, url, prefix string) (*Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errURL
	}
	o.DialTimeout = cmp.Or(o.DialTimeout, dialTimeout)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, ioTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, ioTimeout)
	o.PoolTimeout = cmp.Or(o.PoolTimeout, ioTimeout)
	o.MaxRetries = cmp.Or(o.MaxRetries, -1)
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	quiet()
	c := &Client{Client: redis.NewClient(o), Prefix: prefix}
	_ = c.Ping(ctx).Err() // Only to connect now. If the server is unreachable, later commands return the error.
	return c, nil
}

// Key joins the prefix and parts to "prefix:a:b". Parts are escaped as kv.Key does, so that different parts never make
// the same key.
func (c *Client) Key(parts ...string) string {
	if len(parts) == 0 {
		return c.Prefix
	}
	return c.Prefix + ":" + kv.Key(parts...)
}
