package app

import (
	"context"
	"fmt"
	"io"

	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/telemetry"
)

// Migrate brings the schema up to this build and names the files it applied.
func Migrate(ctx context.Context, cfg *Config, w io.Writer) error {
	url, err := cfg.DatabaseURL.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	tel, err := telemetry.Setup(ctx, telemetry.Options{Service: service, Version: version(), LogLevel: cfg.LogLevel})
	if err != nil {
		return err
	}
	applied, err := pgdb.Migrate(ctx, url.Reveal(), migrations.FS, tel.Log)
	for _, name := range applied {
		if _, err := fmt.Fprintln(w, "applied", name); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if err != nil {
		return err
	}
	if len(applied) == 0 {
		_, err = fmt.Fprintln(w, "the schema is up to date")
	}
	return err
}
