package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/service"
)

// maxExportsFile bounds the exports file in bytes.
const maxExportsFile = 256 << 10

// exports are the settings of exports, their store and their sources. Without a file there are no destinations.
type exports struct {
	settings export.Settings
	store    *postgres.Exports
	pagers   map[export.Source]export.Pager
}

// newExports reads the exports file and checks it against the other settings. tail is the gateway's billed feed; nil
// without a gateway.
func newExports(cfg Config, pool *pgxpool.Pool, tail *billing.Tail) (exports, error) {
	x := exports{store: postgres.NewExports(pool), pagers: make(map[export.Source]export.Pager)}
	if cfg.ExportsFile == "" {
		return x, nil
	}
	var err error
	if x.settings, err = readExports(cfg); err != nil {
		return x, fmt.Errorf("%s_EXPORTS_FILE: %s:\n%w", prefix, cfg.ExportsFile, err)
	}
	// Hours that are merged into days would look like counts that came late.
	if least := export.Window + 2*24*time.Hour; cfg.UsageHours < least {
		return x, fmt.Errorf("%s_USAGE_HOURS: exports need %s or more", prefix, least)
	}
	x.pagers[export.Counts] = export.NewCountFeed(x.store)
	if tail != nil {
		x.pagers[export.Ledger] = export.NewLedgerFeed(tail)
	} else if x.settings.Reads(export.Ledger) {
		return x, errors.New(prefix + "_GATEWAY_URL: required by the meters of the ledger in " + prefix + "_EXPORTS_FILE")
	}
	return x, nil
}

// metricNames returns what the edge counts.
func metricNames() (names []string, err error) {
	table, err := route.Snapshot()
	for _, r := range table.Routes {
		if r.Metric != "" {
			names = append(names, r.Metric)
		}
	}
	return names, err
}

// stay refuses redirects: credentials go to the configured host only.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (x exports) manager() *export.Manager {
	return export.NewManager(x.settings, x.store, x.pagers)
}

// startExports starts the exports to all destinations and returns their manager.
func startExports(
	ctx context.Context, s *service.Service, cfg Config, stores stores, tail *billing.Tail,
) (*export.Manager, error) {
	x, err := newExports(cfg, stores.pool, tail)
	if err != nil || len(x.settings.Destinations) == 0 {
		return x.manager(), err
	}
	if err := export.Measure(s.Meter, x.settings, x.store); err != nil {
		return nil, err
	}
	recorder, err := newExportRecorder(s.Meter)
	if err != nil {
		return nil, err
	}
	worker := export.NewWorker(export.Options{
		Settings: x.settings, Store: x.store, Pagers: x.pagers, Client: &http.Client{CheckRedirect: stay},
		Holder: holder(), Recorder: recorder, Log: s.Log,
	})
	s.Runner.Go("exports", worker.Run)
	s.Log.InfoContext(ctx, "exporting usage", "destinations", len(x.settings.Destinations))
	return x.manager(), nil
}

// exportRecorder counts exported events.
type exportRecorder struct{ events metric.Int64Counter }

func newExportRecorder(m metric.Meter) (exportRecorder, error) {
	events, err := m.Int64Counter("switchyard.edge.exports.events",
		metric.WithDescription("Events of usage by destination and result: taken, refused."))
	return exportRecorder{events}, err
}

// Exported implements export.Recorder.
func (r exportRecorder) Exported(ctx context.Context, destination string, taken, refused int) {
	for result, n := range map[string]int{"taken": taken, "refused": refused} {
		r.events.Add(ctx, int64(n), metric.WithAttributes(attribute.String("destination", destination), attribute.String("result", result)))
	}
}
