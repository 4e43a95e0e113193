package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that Postgres runs as when the stack runs as root, because Postgres refuses to run as root.
type account struct {
	name string
	uid  uint32
	gid  uint32
}

func (a account) credential() *syscall.Credential {
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// wanted lists the users to try, in order, before any other user.
var wanted = []string{"postgres", "nobody"}

// postgresAccount returns nil unless the stack runs as root. For root it returns the
// owner of the existing data, else an unprivileged user of the machine.
func postgresAccount(data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil // nil is "as oneself"
	}
	if a, ok := ownerOf(data); ok {
		return &a, nil
	}
	for _, name := range wanted {
		if u, err := user.Lookup(name); err == nil {
			if a, err := parseAccount(u.Username, u.Uid, u.Gid); err == nil && a.uid != 0 {
				return &a, nil
			}
		}
	}
	passwd, err := os.Open("/etc/passwd")
	if err != nil {
		return nil, errNoAccount
	}
	defer func() { _ = passwd.Close() }()
	a, ok := firstAccount(passwd)
	if !ok {
		return nil, errNoAccount
	}
	return &a, nil
}

var errNoAccount = errors.New("postgres does not run as root and this machine has no other user: add one (useradd postgres), or set SWITCHYARD_DATABASE_URL")

// firstAccount returns the first user of a passwd file who isn't root.
func firstAccount(passwd io.Reader) (account, bool) {
	lines := bufio.NewScanner(passwd)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 4 || fields[0] == "" {
			continue
		}
		if a, err := parseAccount(fields[0], fields[2], fields[3]); err == nil && a.uid != 0 {
			return a, true
		}
	}
	return account{}, false
}

func parseAccount(name, uid, gid string) (account, error) {
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("uid of %s: %w", name, err)
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("gid of %s: %w", name, err)
	}
	return account{name, uint32(u), uint32(g)}, nil
}

// ownerOf returns the user who owns an existing folder, unless that is root.
func ownerOf(dir string) (account, bool) {
	info, err := os.Stat(dir)
	if dir == "" || err != nil {
		return account{}, false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok || status.Uid == 0 {
		return account{}, false
	}
	id := strconv.FormatUint(uint64(status.Uid), 10)
	a := account{name: "user " + id, uid: status.Uid, gid: status.Gid}
	if u, err := user.LookupId(id); err == nil {
		a.name = u.Username
	}
	return a, true
}

// blocked returns the first folder on the way to path that the account can't enter, "" when there is none. It ignores
// the part of path that doesn't exist yet, since the stack creates it.
func blocked(a account, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	steps, err := chain(path)
	if err != nil {
		return "", err
	}
	for _, dir := range steps {
		info, err := os.Stat(dir)
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		status, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !mayEnter(a, info.Mode(), status.Uid, status.Gid) {
			return dir, nil
		}
	}
	return "", nil
}

// chain returns every folder from the root to path, with symbolic links resolved.
func chain(path string) ([]string, error) {
	existing := path
	for {
		if _, err := os.Lstat(existing); err == nil || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	real, err := filepath.EvalSymlinks(existing)
	if err != nil {
		return nil, err
	}
	var steps []string
	for dir := real; ; dir = filepath.Dir(dir) {
		steps = append([]string{dir}, steps...)
		if dir == filepath.Dir(dir) {
			return steps, nil
		}
	}
}

// mayEnter applies the kernel's rule: the bits of the first class that matches decide, even when a later one would
// allow it.
func mayEnter(a account, mode os.FileMode, uid, gid uint32) bool {
	const owner, group, other = 0o100, 0o010, 0o001
	switch {
	case a.uid == uid:
		return mode&owner != 0
	case a.gid == gid:
		return mode&group != 0
	default:
		return mode&other != 0
	}
}
