package app

import (
	"context"
	"io"

	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/pgdb"
)

// Migrate brings the schema up to this build and names the files it applied.
func Migrate(ctx context.Context, cfg Config, w io.Writer) error {
	return pgdb.MigrateCommand(ctx, cfg.DatabaseURLFile, migrations.FS, w)
}
