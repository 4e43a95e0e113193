package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/process"
)

// cluster is a Postgres that the stack runs. Its folder holds the data, the administrator's password and the log
// together, so that none of them can be lost without the others.
type cluster struct {
	dir     string
	account *account // nil for the user who runs the stack
	bin     string
	major   int
}

func (c *cluster) data() string     { return filepath.Join(c.dir, "data") }
func (c *cluster) password() string { return filepath.Join(c.dir, "password") }

// locate finds the folder of the data and the binaries to run it with.
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

// movedAway reports, as progress, that the data is in another folder than usual. Throwaway data there would outlive
// the folder of its test.
func (s *Stores) movedAway(c *cluster, dir string, o Options) {
	_ = os.Remove(dir) // empty: it was just made
	if o.Durable {
		o.Progress(fmt.Sprintf("Postgres: its data is in %s, because user %s can't enter %s", c.dir, c.account.name, dir))
		return
	}
	s.close = append(s.close, func() error { return os.RemoveAll(c.dir) })
}

// binaries returns the binaries of the machine or, where it has none, downloaded ones.
func (c *cluster) binaries(ctx context.Context, o Options, made int) (binaries, error) {
	b, missing := choose(find(ctx), made)
	if missing == nil {
		return b, nil
	}
	if made != 0 && made != fetchedMajor {
		return b, fmt.Errorf("%w: install Postgres %d, or remove %s to start over without its data", missing, made, c.dir)
	}
	dir, err := c.downloads(o.Cache)
	if err != nil {
		return b, fmt.Errorf("find a folder for the binaries of Postgres: %w", err)
	}
	if b, err = inspect(ctx, filepath.Join(dir, "bin")); err == nil {
		return b, nil
	}
	o.Progress(fmt.Sprintf("Postgres: %v, fetching release %d (once)", missing, fetchedMajor))
	if b, err = fetch(ctx, dir, o.Cache); err == nil {
		return b, c.open(dir)
	}
	if ctx.Err() != nil {
		return b, ctx.Err()
	}
	return b, fmt.Errorf("%w and fetching it failed (%s): install it (apt-get install postgresql, brew install postgresql@%d), "+
		"or set SWITCHYARD_DATABASE_URL to a server on which roles may be created", missing, oneLine(err), fetchedMajor)
}

// downloads returns the folder of downloaded binaries.
func (c *cluster) downloads(cache string) (string, error) {
	cache, err := folder(cache)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("postgres-%d", fetchedMajor))
	if c.account == nil {
		return dir, nil
	}
	return place(*c.account, dir)
}

// open lets the account read what root downloaded, whatever root's umask is.
func (c *cluster) open(dir string) error {
	if c.account == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, int(c.account.uid), int(c.account.gid))
	})
}

// runningPID returns the process id of a Postgres that has this data open, 0 for none.
// After a crash the process id in the lock file may belong to another process, so the
// port in the file must accept a connection too.
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

// initialize creates the data when there is none. It creates it beside its final folder and moves it there, so that
// an interrupted start leaves nothing incomplete.
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

// write writes a file that only the cluster's user (and root) can read.
func (c *cluster) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	if c.account == nil {
		return nil
	}
	return os.Chown(path, int(c.account.uid), int(c.account.gid))
}
