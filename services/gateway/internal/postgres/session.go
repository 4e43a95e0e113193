package postgres

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Sessions implements api.Runs.
func (r *Runs) Sessions(ctx context.Context, f run.SessionFilter) ([]run.Used, error) {
	if err := awaitEntries(ctx, r.control.pool); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	q := dbsql.New(r.control.pool)
	ids, err := q.SessionPage(ctx, dbsql.SessionPageParams{OrganizationID: f.Organization, After: f.After, InFlight: f.InFlight, Page: int32(f.Limit)})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	runs, err := q.RunsNamed(ctx, dbsql.RunsNamedParams{OrganizationID: f.Organization, RunIds: ids})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	spends, err := q.RunSpends(ctx, dbsql.RunSpendsParams{OrganizationID: f.Organization, RunIds: ids, Self: r.replica})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return joinSessions(f.Organization, ids, runs, spends)
}

// joinSessions returns sessions in the order of their ids. One that was neither minted nor aborted has no row of a run.
func joinSessions(organization string, ids []string, runs []dbsql.RunsNamedRow, spends []dbsql.RunSpendsRow) ([]run.Used, error) {
	known := make(map[string]run.Used, len(ids))
	for i := range runs {
		of, err := toRun(&runs[i].Run)
		if err != nil {
			return nil, err
		}
		known[of.ID] = run.Used{Run: of}
	}
	for i := range spends {
		row := &spends[i]
		used := known[row.RunID]
		used.Usage = usageOfRun(dbsql.RunSpendRow{
			SpentCents: row.SpentCents, Calls: row.Calls, FirstAt: row.FirstAt, LastAt: row.LastAt, ReservedCents: row.ReservedCents,
			Reservations: row.Reservations, ReservedFirstAt: row.ReservedFirstAt, ReservedLastAt: row.ReservedLastAt, Elsewhere: row.Elsewhere,
			ToolCalls: row.ToolCalls, ToolReservations: row.ToolReservations,
		})
		known[row.RunID] = used
	}
	sessions := make([]run.Used, len(ids))
	for i, id := range ids {
		sessions[i] = known[id]
		sessions[i].Run.Organization, sessions[i].Run.ID = organization, id
	}
	return sessions, nil
}
