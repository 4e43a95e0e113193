package postgres

import (
	"context"
	"strings"

	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/edge/internal/quota"
)

// Counted implements quota.Durable. The latest calls are missing until control has read them from the services.
func (u *Usage) Counted(ctx context.Context, windows []quota.Window) ([]int64, error) {
	if len(windows) == 0 {
		return nil, nil
	}
	var params dbsql.CountedInWindowsParams
	for _, w := range windows {
		params.Organizations = append(params.Organizations, w.Organization)
		params.Origins = append(params.Origins, w.Key)
		params.Metrics = append(params.Metrics, strings.Join(w.Metrics, " "))
		params.Since = append(params.Since, w.Start)
		params.Before = append(params.Before, w.End)
	}
	rows, err := dbsql.New(u.pool).CountedInWindows(ctx, params)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(rows))
	for i, row := range rows {
		counts[i] = row.Count
	}
	return counts, nil
}
