package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/process"
)

// administrator is the superuser of a Postgres that the stack made.
const administrator = "switchyard"

func (s *Stores) startPostgres(ctx context.Context, o Options) error {
	if o.DatabaseURL != "" {
		if err := reachDatabase(ctx, o.DatabaseURL); err != nil {
			return fmt.Errorf("the Postgres of SWITCHYARD_DATABASE_URL can't be used: %s", oneLine(err))
		}
		s.DatabaseURL = o.DatabaseURL
		o.Progress("Postgres: the server of SWITCHYARD_DATABASE_URL")
		return nil
	}
	c, err := s.locate(ctx, o)
	if err != nil {
		return err
	}
	if pid := c.runningPID(ctx); pid != 0 {
		return fmt.Errorf("another Postgres (process %d) is using %s: stop it first", pid, c.data())
	}
	if err := c.initialize(ctx, o.Durable); err != nil {
		return err
	}
	password, err := os.ReadFile(c.password())
	if err != nil {
		return fmt.Errorf("read the password of Postgres (remove %s to start over without its data): %w", c.dir, err)
	}
	number, err := choosePort(ctx, o.PostgresPort)
	if err != nil {
		return err
	}
	s.DatabaseURL = databaseURL(number, strings.TrimSpace(string(password)))
	ready := func(ctx context.Context) error { return reachDatabase(ctx, s.DatabaseURL) }
	if err := s.start(ctx, c.server(number, o.Durable), ready); err != nil {
		return err
	}
	o.Progress(fmt.Sprintf("Postgres %d on %s, data in %s%s", c.major, port.At(number), c.dir, c.as()))
	return nil
}

func (c *cluster) as() string {
	if c.account == nil {
		return ""
	}
	return ", running as user " + c.account.name
}

// server returns the Postgres process: on loopback only, without a socket file.
func (c *cluster) server(number int, durable bool) process.Spec {
	settings := []string{
		"listen_addresses=" + port.Loopback,
		fmt.Sprintf("port=%d", number),
		"unix_socket_directories=",
		"max_connections=300",
		"timezone=UTC",
		"log_timezone=UTC",
		"logging_collector=off",
		"log_destination=stderr",
	}
	if !durable {
		// Commits still reach the kernel one by one, so killing Postgres loses none.
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", c.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	spec := c.spec(Postgres, args...)
	spec.End = syscall.SIGINT // the fast shutdown: it doesn't wait for clients to leave
	return spec
}

func (c *cluster) spec(program string, args ...string) process.Spec {
	spec := process.Spec{
		Name: program,
		Path: filepath.Join(c.bin, program),
		Args: args,
		Dir:  c.dir,
		Log:  filepath.Join(c.dir, "log"),
		// None of the user's PG* variables.
		Env: []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/bin:/bin"), "HOME=" + c.dir, "LC_ALL=C", "TZ=UTC"},
	}
	if c.account != nil {
		spec.Credential = c.account.credential()
	}
	return spec
}

// choosePort returns the wanted port or the next free one, or any when none is wanted.
func choosePort(ctx context.Context, wanted int) (int, error) {
	if wanted != 0 {
		return port.From(ctx, wanted)
	}
	ports, err := port.Free(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

func databaseURL(number int, password string) string {
	u := url.URL{
		Scheme:   Postgres,
		User:     url.UserPassword(administrator, password),
		Host:     port.At(number),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

var errDatabaseURL = errors.New("it isn't a URL like postgres://user:password@host:port/database")

// reachDatabase returns nil when a server answers. No error holds the password.
func reachDatabase(ctx context.Context, address string) error {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return errDatabaseURL // the driver's text quotes the URL
	}
	config.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return conn.Ping(ctx)
}
