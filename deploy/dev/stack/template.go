package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/deploy/dev/store"
)

// copyTemplate copies the template's databases, and the passwords of the services in them, to where the stack has none.
func (s *Stack) copyTemplate(ctx context.Context) error {
	if s.options.Template == "" {
		return nil
	}
	for _, folder := range []string{store.Postgres, filepath.Join(secretsFolder, databaseFolder)} {
		err := copyFolder(ctx, filepath.Join(s.options.Template, folder), filepath.Join(s.options.State, folder))
		if err != nil {
			return fmt.Errorf("copy the template: %w", err)
		}
	}
	return nil
}

// copyFolder copies a folder, with the owners of its files, to where nothing is. It copies beside that place and renames,
// so that an interrupted copy leaves nothing there. Without such a folder it does nothing.
func copyFolder(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	fresh := to + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-Rp", from, fresh).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(fresh, to)
}
