package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/webhook-egress/migrations"
)

// Migrate brings the database to this release and says what it did.
func Migrate(ctx context.Context, cfg Config, w io.Writer) error {
	url, err := cfg.DatabaseURLFile.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	applied, err := pgdb.Migrate(ctx, url.Reveal(), migrations.FS, slog.New(slog.DiscardHandler))
	for _, name := range applied {
		_, _ = fmt.Fprintln(w, "applied", name)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if len(applied) == 0 {
		_, _ = fmt.Fprintln(w, "nothing to apply")
	}
	return nil
}
