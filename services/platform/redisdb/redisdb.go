// Package redisdb opens the Redis client of a service. Redis holds only data that may be lost (breaker and rate state,
// caches) and is optional at run time: while the server is unreachable, calls fail quickly and services still start.
package redisdb

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/secret"
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

// quiet disables the driver's own log. The driver prints each failed dial to standard error; every command returns that
// error too, and its caller logs it once.
var quiet = sync.OnceFunc(logging.Disable)

// Options configure the client of one server.
type Options struct {
	URL string // redis://user:password@host:port/database; its parameters override Open's defaults
	// URLFile, unless empty, holds the URL in place of the field. It is read again for each new connection, so that a
	// change of user or password needs no restart.
	URLFile secret.File
	Prefix  string // of all keys
	// TLS, unless nil, is called for each handshake. The server's certificate must come from one of its RootCAs, and the
	// URL must begin with rediss://.
	TLS func() *tls.Config
	// Log says when the URL's file has changed or can't be used, and that the server is in cluster mode; nil for none.
	Log *slog.Logger
}

// errURL replaces the driver's parse error, which quotes the URL with its password.
var errURL = errors.New("invalid Redis URL, want redis://user:password@host:port/database")

// errMoved is the error of a file whose URL names what only a start can change.
var errMoved = errors.New("the URL names another server or database, or changes to TLS, which needs a restart")

var errPlain = errors.New("the Redis URL must begin with rediss://, since there is a file of CAs")

// Check reports what is wrong with the options, without connecting. The error doesn't contain the password.
func (o Options) Check() error {
	_, err := o.driver(context.Background())
	return err
}

// Open returns a client and tries to connect. It fails on a malformed URL, but not on an unreachable server. Timeouts
// are 1 s to connect and 500 ms to read or write, unless the URL sets others. Commands are not retried, because a
// script that timed out may have run.
func Open(ctx context.Context, o Options) (*Client, error) {
	driver, err := o.driver(ctx)
	if err != nil {
		return nil, err
	}
	quiet()
	c := &Client{Client: redis.NewClient(driver), Prefix: o.Prefix}
	// It connects now, too. If the server is unreachable, later commands return the error.
	if text, _ := c.Info(ctx, "cluster").Result(); strings.Contains(text, "cluster_enabled:1") {
		o.log().WarnContext(ctx, "Redis is in cluster mode, so that replicas do without most of the state that they would share; use one without")
	}
	return c, nil
}

func (o Options) log() *slog.Logger { return cmp.Or(o.Log, slog.New(slog.DiscardHandler)) }

// driver returns the driver's options. With URLFile, new connections have user and password of what the file holds then,
// or of its last content that can be used.
func (o Options) driver(ctx context.Context) (*redis.Options, error) {
	if o.URLFile == "" {
		return o.parse(o.URL)
	}
	var first *redis.Options
	latest := secret.NewLatest(o.URLFile, o.log(), func(url secret.Value) (*redis.Options, error) {
		now, err := o.parse(url.Reveal())
		if err == nil && first != nil && (now.Addr != first.Addr || now.DB != first.DB || (now.TLSConfig == nil) != (first.TLSConfig == nil)) {
			err = errMoved
		}
		return now, err
	})
	first, err := latest.Read(ctx)
	if err != nil {
		return nil, err
	}
	driver := *first
	driver.CredentialsProviderContext = func(ctx context.Context) (user, password string, err error) {
		now, err := latest.Read(ctx)
		if err != nil {
			return "", "", err
		}
		return now.Username, now.Password, nil
	}
	return &driver, nil
}

// parse returns the driver's options that a URL and the other options make.
func (o Options) parse(url string) (*redis.Options, error) {
	driver, err := redis.ParseURL(url)
	if err != nil {
		return nil, errURL
	}
	if o.TLS != nil {
		if driver.TLSConfig == nil {
			return nil, errPlain
		}
		driver.Dialer = o.dialer(driver)
	}
	driver.DialTimeout = cmp.Or(driver.DialTimeout, dialTimeout)
	driver.ReadTimeout = cmp.Or(driver.ReadTimeout, ioTimeout)
	driver.WriteTimeout = cmp.Or(driver.WriteTimeout, ioTimeout)
	driver.PoolTimeout = cmp.Or(driver.PoolTimeout, ioTimeout)
	driver.MaxRetries = cmp.Or(driver.MaxRetries, -1)
	driver.DialerRetries = 1
	driver.ContextTimeoutEnabled = true
	driver.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return driver, nil
}

// dialer returns a dialer that verifies the server by the CAs of the time.
func (o Options) dialer(driver *redis.Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config := driver.TLSConfig.Clone()
		config.RootCAs = o.TLS().RootCAs
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: driver.DialTimeout}, Config: config}
		return dialer.DialContext(ctx, network, address)
	}
}

// Key joins the prefix and parts to "prefix:a:b". Parts are escaped as kv.Key does, so that different parts never make
// the same key.
func (c *Client) Key(parts ...string) string {
	if len(parts) == 0 {
		return c.Prefix
	}
	return c.Prefix + ":" + kv.Key(parts...)
}
