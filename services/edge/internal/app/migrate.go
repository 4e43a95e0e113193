package app

import (
	"context"
	"io"

	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/pgdb"
)

// Migrate applies the pending migrations and writes the names of the applied files to w.
func Migrate(ctx context.Context, cfg Config, w io.Writer) error {
	return pgdb.MigrateCommand(ctx, cfg.DatabaseURLFile, migrations.FS, w)
}
