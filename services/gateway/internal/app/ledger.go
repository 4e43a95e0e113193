package app

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/service"
)

// autoMode lets the spool's volume decide.
const autoMode ledger.Mode = "auto"

// ledgerMode returns what answers wait for: a write to the spool's disk is enough where the spool survives its pod.
func ledgerMode(setting ledger.Mode, durable bool) ledger.Mode {
	switch {
	case setting != autoMode:
		return setting
	case durable:
		return ledger.ModeSynced
	}
	return ledger.ModeCommitted
}

// ledgerStore is the store of the ledger's writer.
type ledgerStore struct {
	*postgres.Ledger
	*pgdb.Announcer
}

// startLedger starts the ledger's writer. When it closes, it writes its remaining rows to the database before the
// database closes, and leaves on disk those that it can't.
func startLedger(ctx context.Context, s *service.Service, cfg Config, stores stores) (*ledger.Writer, error) {
	rows, durable, err := s.Spool(ctx, cfg.SpoolDir, cfg.SpoolLimit)
	if err != nil {
		return nil, err
	}
	announcer, err := postgres.NewAnnouncer(stores.pool)
	if err != nil {
		return nil, err
	}
	mode := ledgerMode(ledger.Mode(cfg.LedgerMode), durable)
	s.Log.InfoContext(ctx, "ledger opened", "mode", mode)
	writer := ledger.NewWriter(ledgerStore{postgres.NewLedger(stores.pool), announcer}, rows, mode, s.Log)
	s.Runner.Check("ledger", writer.Ready)
	s.Runner.Go("ledger", writer.Run)
	s.Runner.Go("ledger of ended processes", writer.Adopt)
	s.Runner.OnClose("ledger", func(ctx context.Context) error {
		defer announcer.Close()
		return writer.Close(ctx)
	})

	_, err = s.Meter.Int64ObservableGauge("switchyard.gateway.ledger.waiting",
		metric.WithUnit("By"), metric.WithDescription("Bytes of ledger rows on disk that are not in the database yet."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(writer.Waiting())
			return nil
		}))
	return writer, err
}

// startCounts returns the counts of customers' calls, which the ledger's writer records, and starts the deletion of old
// ones.
func startCounts(s *service.Service, stores stores) *countfeed.Pager {
	counts := countfeed.NewPager(postgres.NewCounts(stores.pool), s.Log)
	s.Runner.Go("counts of calls", counts.Run)
	return counts
}
