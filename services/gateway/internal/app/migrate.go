package app

import (
	"context"
	"io"

	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/pgdb"
)

// Migrate migrates the schema to this build's version and writes the names of the files that it applied to w.
func Migrate(ctx context.Context, cfg Config, w io.Writer) error {
	return pgdb.MigrateCommand(ctx, cfg.DatabaseURLFile, migrations.FS, w)
}
