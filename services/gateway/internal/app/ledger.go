package app

import (
	"context"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/spool"
)

// startLedger starts the ledger's writer. When it closes, it writes its remaining rows to the database before the
// database closes, and leaves on disk those that it can't.
func startLedger(s *service.Service, cfg Config, stores stores) (*ledger.Writer, error) {
	dir := cfg.SpoolDir
	if dir == "" {
		dir = os.TempDir()
	}
	rows, err := spool.Open(filepath.Join(dir, "switchyard-gateway"), cfg.SpoolLimit)
	if err != nil {
		return nil, err
	}
	writer := ledger.NewWriter(postgres.NewLedger(stores.pool), rows, ledger.Mode(cfg.LedgerMode), s.Log)
	s.Runner.Check("ledger", writer.Ready)
	s.Runner.Go("ledger", writer.Run)
	s.Runner.Go("ledger of ended processes", writer.Adopt)
	s.Runner.OnClose("ledger", writer.Close)

	_, err = s.Meter.Int64ObservableGauge("switchyard.gateway.ledger.waiting",
		metric.WithUnit("By"), metric.WithDescription("Bytes of ledger rows on disk that are not in the database yet."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(writer.Waiting())
			return nil
		}))
	return writer, err
}
