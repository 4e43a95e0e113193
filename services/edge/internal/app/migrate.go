package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/pgdb"
)

// Migrate brings the database to the schema of this build and says what it did.
func Migrate(ctx context.Context, cfg Config, out io.Writer) error {
	url, err := cfg.DatabaseURLFile.Read()
	if err != nil {
		return fmt.Errorf("EDGE_DATABASE_URL_FILE: %w", err)
	}
	applied, err := pgdb.Migrate(ctx, url.Reveal(), migrations.FS, slog.New(slog.DiscardHandler))
	for _, name := range applied {
		if _, err := fmt.Fprintln(out, "applied", name); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return err
}
