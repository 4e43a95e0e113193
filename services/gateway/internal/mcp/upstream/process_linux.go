package upstream

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupOfItsOwn are the attributes of a process that is ended with all that it has started.
func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// limit bounds the files that a process may hold open and write, and its core dumps. What it has started since then has
// the same bounds.
func limit(pid int) error {
	set := func(resource int, most uint64) error {
		return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	return errors.Join(set(unix.RLIMIT_NOFILE, 1024), set(unix.RLIMIT_CORE, 0), set(unix.RLIMIT_FSIZE, 1<<30))
}
