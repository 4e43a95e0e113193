package app

import (
	"context"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/spool"
)

// startLedger starts the ledger's writer. It brings what is left to the database
// before that closes, and leaves on disk what it can't.
func (p *parts) startLedger(context.Context) error {
	dir := p.cfg.SpoolDir
	if dir == "" {
		dir = os.TempDir()
	}
	rows, err := spool.Open(filepath.Join(dir, "switchyard-gateway"), p.cfg.SpoolLimit)
	if err != nil {
		return err
	}
	p.ledger = ledger.NewWriter(postgres.NewLedger(p.pool), rows, ledger.Mode(p.cfg.LedgerMode), p.telemetry.Log)
	p.runner.Check("ledger", p.ledger.Ready)
	p.runner.Go("ledger", p.ledger.Run)
	p.runner.Go("ledger of ended processes", p.ledger.Adopt)
	p.runner.OnClose("ledger", p.ledger.Close)

	_, err = p.telemetry.MeterProvider.Meter(service).Int64ObservableGauge("switchyard.gateway.ledger.waiting",
		metric.WithUnit("By"), metric.WithDescription("Bytes of ledger rows on disk that the database doesn't have."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.ledger.Waiting())
			return nil
		}))
	return err
}
