package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// fallbacks lists where the data is stored when the account can't reach the state folder. They don't depend on
// TMPDIR, so that the next start finds the data again; the first one survives a reboot.
var fallbacks = []string{"/var/tmp", "/tmp"}

// place returns the folder to use for dir: dir itself where the account can reach it, else one named after dir in a
// folder that is open to all users. It exists when place returns, and belongs to the account.
func place(a account, dir string) (string, error) {
	obstacle, err := blocked(a, filepath.Dir(dir)) // dir itself will belong to the account
	if err != nil {
		return "", err
	}
	if obstacle == "" {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the data inside is 0700
			return "", err
		}
		return dir, os.Chown(dir, int(a.uid), int(a.gid))
	}
	parent, err := firstOpen(a, fallbacks)
	if err != nil {
		return "", fmt.Errorf("%w; %s can't enter %s either", err, a.name, obstacle)
	}
	sum := sha256.Sum256([]byte(dir))
	away := filepath.Join(parent, "switchyard-"+hex.EncodeToString(sum[:6]))
	return away, claim(a, away)
}

func firstOpen(a account, parents []string) (string, error) {
	for _, parent := range parents {
		info, err := os.Stat(parent)
		if err != nil || !info.IsDir() {
			continue
		}
		if obstacle, err := blocked(a, parent); err == nil && obstacle == "" {
			return parent, nil
		}
	}
	return "", fmt.Errorf("none of %q can be entered by user %s", parents, a.name)
}

// claim makes a folder among those of other users, or reuses an earlier one. Any user could have created something of
// that name there, so claim accepts only a real folder that belongs to the account or to root.
func claim(a account, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || (status.Uid != a.uid && status.Uid != 0) {
		return fmt.Errorf("%s belongs to another user: remove it", dir)
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}
