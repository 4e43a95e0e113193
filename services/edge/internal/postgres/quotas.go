package postgres

import (
	"context"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/pgdb"
)

// awaitTime bounds the wait for counts on their way, so that a call that waits for the result is not held up for long.
const awaitTime = 150 * time.Millisecond

// Counted implements quota.Durable. It includes all calls that were answered before, unless their counts take longer than
// awaitTime.
func (u *Usage) Counted(ctx context.Context, windows []quota.Window) ([]int64, error) {
	if len(windows) == 0 {
		return nil, nil
	}
	awaiting, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	if err := pgdb.AwaitAnnounced(awaiting, u.pool, countWrites); err != nil && awaiting.Err() == nil {
		return nil, err
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
