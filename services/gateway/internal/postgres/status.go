package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Reports implements status.ReportStore in a database.
type Reports struct{ pool *pgxpool.Pool }

// NewReports returns the reports of all replicas.
func NewReports(pool *pgxpool.Pool) *Reports { return &Reports{pool} }

// Exchange implements status.ReportStore, by the server's clock.
func (r *Reports) Exchange(ctx context.Context, own status.Report, kept time.Duration) ([]status.Report, error) {
	id, err := uuid.Parse(own.Replica)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	q := dbsql.New(r.pool)
	if err := q.PutReplicaReport(ctx, dbsql.PutReplicaReportParams{ReplicaID: id, Report: text}); err != nil {
		return nil, fmt.Errorf("put report: %w", err)
	}
	if err := q.ForgetReplicaReports(ctx, kept.Seconds()); err != nil {
		return nil, fmt.Errorf("forget reports: %w", err)
	}
	rows, err := q.ReplicaReports(ctx)
	if err != nil {
		return nil, fmt.Errorf("replica reports: %w", err)
	}
	var reports []status.Report
	for _, row := range rows {
		var report status.Report
		if json.Unmarshal(row.Report, &report) != nil {
			continue // Another version's.
		}
		report.Age = time.Duration(row.AgeMs) * time.Millisecond
		reports = append(reports, report)
	}
	return reports, nil
}

// Delete implements status.ReportStore.
func (r *Reports) Delete(ctx context.Context, replica string) error {
	id, err := uuid.Parse(replica)
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	if err := dbsql.New(r.pool).RemoveReplicaReport(ctx, id); err != nil {
		return fmt.Errorf("remove report: %w", err)
	}
	return nil
}
