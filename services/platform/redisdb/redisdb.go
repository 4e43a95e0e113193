// Package redisdb opens the Redis client of a service. Redis holds only what may
// be lost (breaker and rate state, caches): it is optional at run time, so a
// server that is away costs a caller little time and never a start.
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

// Client is a go-redis client that names its keys under one prefix, so that
// services can share a server.
type Client struct {
	*redis.Client
	Prefix string
}

// errURL stands in for the driver's parse error, which quotes the URL with its
// password.
var errURL = errors.New("invalid Redis URL, want redis://user:password@host:port/database")

// The driver prints each failed dial to standard error. Every command returns
// that error too, and its caller logs it once.
var quiet = sync.OnceFunc(logging.Disable)

// Open makes a client and its first connection. It fails on a wrong URL, not on
// a server that can't be reached. Timeouts are 1 s to connect and 500 ms to read
// or write unless the URL names others; a command isn't repeated, because a
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
	_ = c.Ping(ctx).Err() // only to have the connection made: a command will tell, should the server be away
	return c, nil
}

// Key joins the prefix and parts to "prefix:a:b". Parts are escaped as kv.Key does, so that no two lists of them make one
// key.
func (c *Client) Key(parts ...string) string {
	if len(parts) == 0 {
		return c.Prefix
	}
	return c.Prefix + ":" + kv.Key(parts...)
}
