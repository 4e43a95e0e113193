package app

import (
	"context"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/spool"
)

// startLedger starts the ledger's writer. When it closes, it writes its remaining rows to the database before the
// database closes, and leaves on disk those that it can't.
func (b *builder) startLedger(context.Context) error {
	dir := b.cfg.SpoolDir
	if dir == "" {
		dir = os.TempDir()
	}
	rows, err := spool.Open(filepath.Join(dir, "switchyard-gateway"), b.cfg.SpoolLimit)
	if err != nil {
		return err
	}
	b.ledger = ledger.NewWriter(postgres.NewLedger(b.pool), rows, ledger.Mode(b.cfg.LedgerMode), b.service.Log)
	b.service.Runner.Check("ledger", b.ledger.Ready)
	b.service.Runner.Go("ledger", b.ledger.Run)
	b.service.Runner.Go("ledger of ended processes", b.ledger.Adopt)
	b.service.Runner.OnClose("ledger", b.ledger.Close)

	_, err = b.service.Meter.Int64ObservableGauge("switchyard.gateway.ledger.waiting",
		metric.WithUnit("By"), metric.WithDescription("Bytes of ledger rows on disk that are not in the database yet."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(b.ledger.Waiting())
			return nil
		}))
	return err
}
