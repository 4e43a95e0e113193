package pgdb

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/secret"
)

// errURL replaces the driver's parse error, which quotes the URL and only tries to mask the password in it.
var errURL = errors.New("invalid Postgres URL, want postgres://user:password@host:port/database")

// CheckURL reports what is wrong with a URL, without connecting. The error doesn't contain the password.
func CheckURL(url string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return errURL
	}
	return configure(cfg.ConnConfig, nil)
}

// errMoved is the error of a file whose URL names another database than at the start: the connections of one pool must
// not be to two.
var errMoved = errors.New("the URL names another server or database, which needs a restart")

// configuration returns the pool's configuration. With URLFile, new connections are made with what the file holds then,
// or with its last content that can be used.
func (o Options) configuration(ctx context.Context) (*pgxpool.Config, error) {
	if o.URLFile == "" {
		return o.parse(o.URL)
	}
	var first *pgxpool.Config
	latest := secret.NewLatest(o.URLFile, cmp.Or(o.Log, slog.New(slog.DiscardHandler)), func(url secret.Value) (*pgxpool.Config, error) {
		cfg, err := o.parse(url.Reveal())
		if err == nil && first != nil && !slices.Equal(destination(cfg.ConnConfig), destination(first.ConnConfig)) {
			err = errMoved
		}
		return cfg, err
	})
	first, err := latest.Read(ctx)
	if err != nil {
		return nil, err
	}
	cfg := first.Copy()
	cfg.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error {
		now, err := latest.Read(ctx)
		if err == nil {
			*conn = *now.ConnConfig.Copy()
		}
		return err
	}
	return cfg, nil
}

// destination returns the database and the addresses of its servers.
func destination(cfg *pgx.ConnConfig) []string {
	address := func(host string, port uint16) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
	names := []string{cfg.Database, address(cfg.Host, cfg.Port)}
	for _, next := range cfg.Fallbacks {
		names = append(names, address(next.Host, next.Port))
	}
	return slices.Compact(names) // A server that is tried with and without TLS is in it twice.
}

// parse returns the configuration that a URL and the other options make.
func (o Options) parse(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil || url == "" { // The driver would take an empty one from the environment.
		return nil, errURL
	}
	settings := map[string]string{
		"application_name":                    o.ApplicationName,
		"statement_timeout":                   "30s",
		"idle_in_transaction_session_timeout": "10s",
		"timezone":                            "UTC",
	}
	maps.Copy(settings, o.Settings)
	if err := configure(cfg.ConnConfig, settings); err != nil {
		return nil, err
	}
	switch {
	case o.MaxConns > 0:
		cfg.MaxConns = o.MaxConns
	case !hasPoolSize(url):
		cfg.MaxConns = cmp.Or(o.DefaultConns, defaultConns)
	}
	cfg.ConnConfig.Tracer = o.Tracer
	return cfg, nil
}

// hasPoolSize reports whether a URL says how large its pool is, which pgxpool takes out of the parameters.
func hasPoolSize(url string) bool {
	cfg, err := pgx.ParseConfig(url)
	return err == nil && cfg.RuntimeParams["pool_max_conns"] != ""
}

// configure bounds the connect time and adds the settings that the URL doesn't contain. A password with an unescaped
// slash would be parsed as part of the database's name, which the driver's errors show; configure refuses such a URL.
func configure(cfg *pgx.ConnConfig, settings map[string]string) error {
	if strings.Contains(cfg.Database, "@") {
		return errURL
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	for name, value := range settings {
		if _, set := cfg.RuntimeParams[name]; !set && value != "" {
			cfg.RuntimeParams[name] = value
		}
	}
	return nil
}
