package service

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/extra/redisotel/v9"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
)

// Database configures a Postgres pool.
type Database struct {
	// Setting is the name of the environment variable that names URLFile. Errors show it.
	Setting string
	URLFile secret.File
	// Name of the pool in pg_stat_activity.
	Name string
	// Program is the one whose command migrates the schema; empty for the service's name.
	Program string
	// MaxConns is the size of the pool. If it is 0 the URL's pool_max_conns is, and without that DefaultConns, or 4 if
	// that is 0, too.
	MaxConns, DefaultConns int32
	// Settings are further parameters of each session.
	Settings map[string]string

	tracer pgx.QueryTracer
	log    *slog.Logger // nil in commands, which end soon
}

// Check reads the URL without connecting.
func (d Database) Check() error {
	url, err := d.URLFile.Read()
	if err != nil {
		return err
	}
	return pgdb.CheckURL(url.Reveal())
}

// OpenPool opens a Postgres pool and verifies it with a ping. The caller closes it.
func OpenPool(ctx context.Context, d Database) (*pgxpool.Pool, error) {
	pool, err := pgdb.Open(ctx, pgdb.Options{
		URLFile: d.URLFile, MaxConns: d.MaxConns, DefaultConns: d.DefaultConns, ApplicationName: d.Name, Settings: d.Settings,
		Tracer: d.tracer, Log: d.log,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Setting, err)
	}
	return pool, nil
}

// Pool opens a Postgres pool that closes with the service. Unless migrations is nil, it refuses a schema that is older
// than the migrations of this build.
func (s *Service) Pool(ctx context.Context, d Database, migrations fs.FS) (*pgxpool.Pool, error) {
	if s.storeTracers != nil { // Statements have no parameters in them.
		d.tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(s.storeTracers), otelpgx.WithDisableConnectionDetailsInAttributes())
	}
	d.log = s.Log.With("pool", d.Name)
	pool, err := OpenPool(ctx, d)
	if err != nil {
		return nil, err
	}
	s.Runner.OnClose("postgres pool "+d.Name, func(context.Context) error {
		pool.Close()
		return nil
	})
	if migrations == nil {
		return pool, nil
	}
	return pool, pgdb.CheckSchema(ctx, pool, migrations, cmp.Or(d.Program, s.Name))
}

// Redis configures the Redis client.
type Redis struct {
	// Settings is the beginning of the names of the environment variables that name the files, such as NOTIFY_REDIS_ of
	// NOTIFY_REDIS_URL_FILE. Errors show them.
	Settings string
	// URLFile is empty for a service that has no Redis.
	URLFile secret.File
	// CAFile holds the certificates that the server's must come from; empty for those that the machine trusts.
	CAFile string
	// Prefix of all keys.
	Prefix string

	log *slog.Logger // nil in commands, which end soon
}

// FileChecks returns the checks of the files for config.CheckFiles, without connecting.
func (r Redis) FileChecks() map[string]func() error {
	url := redisdb.Options{URLFile: r.URLFile}
	return map[string]func() error{
		"REDIS_URL_FILE": url.Check,
		"REDIS_CA_FILE": func() error {
			o, err := r.options()
			if err != nil || url.Check() != nil { // The latter is the other setting's problem.
				return err
			}
			return o.Check()
		},
	}
}

// options returns the client's options. The files of the CAs are read again when they change.
func (r Redis) options() (redisdb.Options, error) {
	o := redisdb.Options{URLFile: r.URLFile, Prefix: r.Prefix, Log: r.log}
	var err error
	if r.CAFile != "" {
		o.TLS, err = rpc.ClientTLS{CA: r.CAFile}.Config()
	}
	return o, err
}

// OpenRedis connects to Redis, which holds the state that replicas share and may lose. The client is nil where no URL
// file is named, which is no error. The caller closes it.
func OpenRedis(ctx context.Context, r Redis) (*redisdb.Client, error) {
	if r.URLFile == "" {
		return nil, nil //nolint:nilnil // Redis is optional.
	}
	o, err := r.options()
	if err != nil {
		return nil, fmt.Errorf("%sCA_FILE: %w", r.Settings, err)
	}
	client, err := redisdb.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%sURL_FILE: %w", r.Settings, err)
	}
	return client, nil
}

// Redis connects as OpenRedis does, with a client that closes with the service.
func (s *Service) Redis(ctx context.Context, r Redis) (*redisdb.Client, error) {
	r.log = s.Log
	client, err := OpenRedis(ctx, r)
	if client == nil {
		return nil, err
	}
	s.Runner.OnClose("redis", func(context.Context) error { return client.Close() })
	if s.storeTracers != nil {
		// The text of a command would have keys and values in it.
		err = redisotel.InstrumentTracing(client.Client, redisotel.WithTracerProvider(s.storeTracers), redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false))
	}
	return client, err
}
