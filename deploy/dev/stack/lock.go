package stack

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// own refuses a state folder of another user, even for root: with files of two users in it, one of them would be
// locked out.
func own(state string) error {
	info, err := os.Stat(state)
	if err != nil {
		return err
	}
	if status, ok := info.Sys().(*syscall.Stat_t); ok && int(status.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d): run as that user, or remove it to start over", state, status.Uid)
	}
	return nil
}

// lock lets only one stack at a time use a state folder. The lock ends with the process, however that ends.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := os.ReadFile(path)
		_ = file.Close()
		return nil, fmt.Errorf("a stack is already running from this folder (process %s): stop it first", strings.TrimSpace(string(holder)))
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	return func() { _ = file.Close() }, nil
}
