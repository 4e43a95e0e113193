package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first Postgres release that the services and the options below
// were made for.
const oldest = 14

// binaries is one installation of Postgres.
type binaries struct {
	dir   string
	major int
}

// installed lists the folders beside PATH where systems install Postgres.
var installed = []string{
	"/usr/lib/postgresql/*/bin",            // Debian, Ubuntu
	"/usr/pgsql-*/bin",                     // PostgreSQL's own packages for Red Hat
	"/usr/libexec/postgresql*",             // Alpine
	"/opt/homebrew/opt/postgresql@*/bin",   // macOS on arm64
	"/usr/local/opt/postgresql@*/bin",      // macOS on amd64
	"/Applications/Postgres.app/*/*/*/bin", // Postgres.app
}

// find returns the installations of this machine, the one on PATH first, then the newest first.
func find(ctx context.Context) []binaries {
	var dirs []string
	for _, program := range []string{"postgres", "pg_ctl", "initdb"} {
		if path, err := exec.LookPath(program); err == nil {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				dirs = append(dirs, filepath.Dir(real))
			}
		}
	}
	onPath := len(dirs)
	for _, pattern := range installed {
		matches, _ := filepath.Glob(pattern) // fails only on a bad pattern
		dirs = append(dirs, matches...)
	}

	var found, others []binaries
	for i, dir := range dirs {
		b, err := inspect(ctx, dir)
		if err != nil || b.major < oldest || slices.Contains(found, b) || slices.Contains(others, b) {
			continue
		}
		if i < onPath {
			found = append(found, b)
		} else {
			others = append(others, b)
		}
	}
	slices.SortStableFunc(others, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	return append(found, others...)
}

// inspect returns the installation of Postgres in a folder. Both programs that the stack needs must be there.
func inspect(ctx context.Context, dir string) (binaries, error) {
	for _, program := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, program)); err != nil || info.Mode()&0o111 == 0 {
			return binaries{}, fmt.Errorf("no program %s in %s", program, dir)
		}
	}
	output, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("run postgres --version: %w", err)
	}
	major, err := parseMajor(string(output))
	return binaries{dir, major}, err
}

// parseMajor reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
// "… 17.5" and "… 18beta1".
func parseMajor(version string) (int, error) {
	_, after, ok := strings.Cut(version, "(PostgreSQL) ")
	if !ok {
		return 0, fmt.Errorf("unknown version text %q", version)
	}
	end := strings.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(after)
	}
	return strconv.Atoi(after[:end])
}

// choose returns the installation for data made by a major release, 0 for new data.
func choose(found []binaries, data int) (binaries, error) {
	if len(found) == 0 {
		return binaries{}, errNotInstalled
	}
	if data == 0 {
		return found[0], nil
	}
	for _, b := range found {
		if b.major == data {
			return b, nil
		}
	}
	return binaries{}, fmt.Errorf("the data was made by Postgres %d and this machine has %d", data, found[0].major)
}

var errNotInstalled = errors.New("no Postgres is installed")

// dataMajor returns the release that made a data folder, 0 when there is none.
func dataMajor(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
