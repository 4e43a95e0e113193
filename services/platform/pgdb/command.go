package pgdb

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"switchyard.dev/services/platform/secret"
)

// MigrateCommand is the `migrate` command of a service. It applies the build's migrations to the database whose URL is
// in urlFile, and prints the names of those applied to w.
func MigrateCommand(ctx context.Context, urlFile secret.File, migrations fs.FS, w io.Writer) error {
	url, err := urlFile.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	applied, err := Migrate(ctx, url.Reveal(), migrations, slog.New(slog.DiscardHandler))
	for _, name := range applied {
		_, _ = fmt.Fprintln(w, "applied", name)
	}
	if err == nil && len(applied) == 0 {
		_, _ = fmt.Fprintln(w, "the schema is up to date")
	}
	return err
}
