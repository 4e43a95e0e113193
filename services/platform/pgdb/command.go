package pgdb

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"switchyard.dev/services/platform/secret"
)

// MigrateCommand is the `migrate` of a service: it brings the database, whose
// URL a file holds, up to the migrations of the build, and names on w what it
// applied.
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
