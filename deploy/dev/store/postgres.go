package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/process"
)

// administrator is the superuser of a Postgres that the stack made.
const administrator = "switchyard"

// cluster is a Postgres of the stack's own. Its folder holds the data, the
// administrator's password and the log together, so that none of them can be
// lost without the others.
type cluster struct {
	dir     string
	account *account // nil for the user who runs the stack
	bin     string
	major   int
}

func (c *cluster) data() string     { return filepath.Join(c.dir, "data") }
func (c *cluster) password() string { return filepath.Join(c.dir, "password") }

func (s *Stores) startPostgres(ctx context.Context, o Options) error {
	if o.DatabaseURL != "" {
		if err := reachDatabase(ctx, o.DatabaseURL); err != nil {
			return fmt.Errorf("the Postgres of SWITCHYARD_DATABASE_URL can't be used: %w", err)
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

// locate finds the place of the data and the binaries to run it with.
func (s *Stores) locate(ctx context.Context, o Options) (*cluster, error) {
	dir, err := folder(o.Dir, Postgres)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	if c.account, err = postgresAccount(c.data()); err != nil {
		return nil, err
	}
	if c.account != nil {
		if c.dir, err = place(*c.account, dir); err != nil {
			return nil, fmt.Errorf("find a folder for Postgres: %w", err)
		}
	}
	if c.dir != dir {
		s.movedAway(c, dir, o)
	}
	made, err := dataMajor(c.data())
	if err != nil {
		return nil, fmt.Errorf("read the data of Postgres: %w", err)
	}
	b, err := c.binaries(ctx, o, made)
	if err != nil {
		return nil, err
	}
	c.bin, c.major = b.dir, b.major
	return c, nil
}

// movedAway says that the data isn't where one looks for it. There, throwaway
// data would outlive the folder of its test.
func (s *Stores) movedAway(c *cluster, dir string, o Options) {
	_ = os.Remove(dir) // empty: it was just made
	if o.Durable {
		o.Progress(fmt.Sprintf("Postgres: its data is in %s, because user %s can't enter %s", c.dir, c.account.name, dir))
		return
	}
	s.close = append(s.close, func() error { return os.RemoveAll(c.dir) })
}

// binaries are those of the machine or, where it has none, fetched ones.
func (c *cluster) binaries(ctx context.Context, o Options, made int) (binaries, error) {
	b, err := choose(find(ctx), made)
	if err == nil {
		return b, nil
	}
	why := err
	if made != 0 && made != fetchedMajor {
		return b, fmt.Errorf("%w: install Postgres %d, or remove %s to start over without its data", why, made, c.dir)
	}
	dir := filepath.Join(o.Cache, fmt.Sprintf("postgres-%d", fetchedMajor))
	if c.account != nil {
		if dir, err = place(*c.account, dir); err != nil {
			return b, fmt.Errorf("find a folder for the binaries of Postgres: %w", err)
		}
	}
	o.Progress(fmt.Sprintf("Postgres: %v, fetching release %d (once)", why, fetchedMajor))
	b, err = fetch(ctx, dir, o.Cache)
	if err == nil {
		return b, c.open(dir)
	}
	if ctx.Err() != nil {
		return b, ctx.Err()
	}
	return b, fmt.Errorf("%w and fetching it failed (%s): install it (apt-get install postgresql, brew install postgresql@%d), "+
		"or set SWITCHYARD_DATABASE_URL to a server on which roles may be created", why, oneLine(err), fetchedMajor)
}

// open lets the account read what root fetched, whatever root's umask is.
func (c *cluster) open(dir string) error {
	if c.account == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Type()&os.ModeSymlink != 0 {
			return err
		}
		return os.Lchown(path, int(c.account.uid), int(c.account.gid))
	})
}

// runningPID is the process of a Postgres that has this data open, 0 for none.
// After a crash the number in its lock file may be anybody's by now, so its port
// must answer too.
func (c *cluster) runningPID(ctx context.Context) int {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	pid, number := parseLock(string(text))
	if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return 0
	}
	conn, err := dial(ctx, port.At(number))
	if err != nil {
		return 0
	}
	_ = conn.Close()
	return pid
}

// parseLock reads the process id (line 1) and the port (line 4) of a
// postmaster.pid; both are 0 when it isn't complete.
func parseLock(text string) (pid, number int) {
	const portLine = 3
	lines := strings.Split(text, "\n")
	if len(lines) <= portLine {
		return 0, 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return 0, 0
	}
	if number, err = strconv.Atoi(strings.TrimSpace(lines[portLine])); err != nil {
		return 0, 0
	}
	return pid, number
}

// initialize makes the data when there is none. It is made beside its place and
// moved there, so that an interrupted start leaves nothing half made.
func (c *cluster) initialize(ctx context.Context, durable bool) error {
	if _, err := os.Stat(c.data()); err == nil {
		return nil
	}
	fresh := c.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := c.write(c.password(), rand.Text()+rand.Text()); err != nil {
		return fmt.Errorf("write the password of Postgres: %w", err)
	}
	args := []string{
		"--pgdata=" + fresh, "--username=" + administrator, "--pwfile=" + c.password(), "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	spec := c.spec("initdb", args...)
	if err := process.Run(ctx, spec); err != nil {
		return err
	}
	return os.Rename(fresh, c.data())
}

// write makes a file that only the cluster's user (and root) can read.
func (c *cluster) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	if c.account == nil {
		return nil
	}
	return os.Chown(path, int(c.account.uid), int(c.account.gid))
}

// server is how to run Postgres: on loopback only, without a socket file.
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
		// Nothing of the user's PG* variables.
		Env: []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/bin:/bin"), "HOME=" + c.dir, "LC_ALL=C", "TZ=UTC"},
	}
	if c.account != nil {
		spec.Credential = c.account.credential()
	}
	return spec
}

// choosePort is the wanted port or the next free one, or any when none is wanted.
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

// reachDatabase proves that a server answers. No error holds the password.
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
