package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Check reports why Open could not use a folder. It makes nothing: of a folder that doesn't exist, it checks the nearest
// existing one above.
func Check(root string) error {
	at := filepath.Clean(root)
	_, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		_, err = os.Stat(at)
	}
	if err != nil {
		return err
	}
	const write, search = 2, 1
	if err := syscall.Access(at, write|search); err != nil {
		return &fs.PathError{Op: "write", Path: at, Err: err}
	}
	if at == filepath.Clean(root) {
		_, err := owned(at)
		return err
	}
	return isFolder(at)
}

func isFolder(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("%s: want a folder", path))
	}
	return nil
}
