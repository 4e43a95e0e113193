package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncData flushes a file's data and size to disk, but not its modification time (fdatasync, POSIX.1-2024).
func syncData(file *os.File) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) {
		for failed = unix.EINTR; errors.Is(failed, unix.EINTR); {
			failed = unix.Fdatasync(int(fd))
		}
	}); err != nil {
		return fmt.Errorf("%w: %w", fs.ErrClosed, err) // Control fails for no other reason.
	}
	return failed
}
