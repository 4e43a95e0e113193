package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/pgdb"
)

// BatchJobs implements batchjob.Store.
type BatchJobs struct{ pool *pgxpool.Pool }

// NewBatchJobs returns the batch jobs of a database.
func NewBatchJobs(pool *pgxpool.Pool) *BatchJobs { return &BatchJobs{pool} }

// batchHolder is the replica that holds the reservations of batch jobs: a row that the migration made, and that outlives
// every real one.
var batchHolder = uuid.MustParse("00000000-0000-0000-0000-00000000ba7c")

// Insert implements batchjob.Store.
func (b *BatchJobs) Insert(ctx context.Context, r batchjob.Row, requests batchjob.SealedRequests, reserve *batchjob.Reservation, most int) (bool, error) {
	call := budget.Call{ID: r.Reservation, Organization: r.Organization, Run: r.Run, KeyOrigin: r.KeyOrigin}
	if reserve != nil { // Calls that have been answered may hold their worst case until their entries are stored.
		call.KeyBudget, call.Worst = reserve.KeyBudget, reserve.Worst
		if err := awaitEntries(ctx, b.pool); err != nil {
			return false, fmt.Errorf("insert batch: %w", err)
		}
	}
	err := pgdb.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if reserve != nil {
			if err := reserveCalls(ctx, q, batchHolder, &call, reserve.Calls); err != nil {
				return err
			}
		}
		n, err := q.InsertBatchJob(ctx, dbsql.InsertBatchJobParams{
			ID: r.ID, OrganizationID: r.Organization, OwnerID: r.Owner, RunID: r.Run, Form: string(r.Form),
			KeyID: r.Key, SealedState: r.Sealed, RequestsKeyID: requests.Key, SealedRequests: requests.Sealed,
			ReservationID: r.Reservation, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, Most: int32(most),
		})
		if err == nil && n == 0 {
			err = errUnchanged
		}
		return err
	})
	if refused, ok := errors.AsType[*apierr.Error](err); ok {
		return false, withRoom(ctx, b.pool, &call, refused)
	}
	return changed("insert batch", err)
}

// Requests implements batchjob.Store.
func (b *BatchJobs) Requests(ctx context.Context, id string) (batchjob.SealedRequests, error) {
	found, err := dbsql.New(b.pool).BatchRequests(ctx, id)
	if err != nil {
		return batchjob.SealedRequests{}, fmt.Errorf("read requests of a batch: %w", err)
	}
	return batchjob.SealedRequests{Key: found.RequestsKeyID, Sealed: found.SealedRequests}, nil
}

// Claim implements batchjob.Store.
func (b *BatchJobs) Claim(ctx context.Context, holder string, hold time.Duration, full []string) (batchjob.Row, bool, error) {
	found, err := dbsql.New(b.pool).ClaimBatchJob(ctx, dbsql.ClaimBatchJobParams{Holder: holder, HoldSeconds: hold.Seconds(), FullOrganizations: full})
	return oneJob("claim batch", dbsql.GetBatchJobRow(found), err)
}

// oneJob returns a row that a query found, or false where it found none.
func oneJob(operation string, found dbsql.GetBatchJobRow, err error) (batchjob.Row, bool, error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return batchjob.Row{}, false, nil
	case err != nil:
		return batchjob.Row{}, false, fmt.Errorf("%s: %w", operation, err)
	}
	return jobRow(found), true, nil
}

func jobRow(f dbsql.GetBatchJobRow) batchjob.Row {
	return batchjob.Row{
		Job: batchjob.Job{
			Scope: batchjob.Scope{Organization: f.OrganizationID, Owner: f.OwnerID}, ID: f.ID, Run: f.RunID, Form: batchjob.Form(f.Form),
			Stage: batchjob.Stage(f.Stage), CancelRequested: f.CancelRequested, Erased: f.Erased, Provider: f.Provider, VendorID: f.VendorID,
			Reservation: f.ReservationID, CreatedAt: f.CreatedAt, ExpiresAt: f.ExpiresAt, Lease: f.Lease,
		},
		Key: f.KeyID, Sealed: f.SealedState,
	}
}

// Renew implements batchjob.Store.
func (b *BatchJobs) Renew(ctx context.Context, id string, lease int64, hold time.Duration) (bool, error) {
	n, err := dbsql.New(b.pool).RenewBatchJob(ctx, dbsql.RenewBatchJobParams{HoldSeconds: hold.Seconds(), ID: id, Lease: lease})
	if err != nil {
		return false, fmt.Errorf("renew batch: %w", err)
	}
	return n > 0, nil
}

// Save implements batchjob.Store.
func (b *BatchJobs) Save(ctx context.Context, r batchjob.Row) (bool, error) {
	n, err := dbsql.New(b.pool).SaveBatchJob(ctx, dbsql.SaveBatchJobParams{KeyID: r.Key, SealedState: r.Sealed, ID: r.ID, Lease: r.Lease})
	if err != nil {
		return false, fmt.Errorf("save batch: %w", err)
	}
	return n > 0, nil
}

// Move implements batchjob.Store.
func (b *BatchJobs) Move(ctx context.Context, r batchjob.Row, after time.Duration) (bool, error) {
	n, err := moveJob(ctx, dbsql.New(b.pool), &r, after)
	if err != nil {
		return false, fmt.Errorf("move batch: %w", err)
	}
	return n > 0, nil
}

func moveJob(ctx context.Context, q *dbsql.Queries, r *batchjob.Row, after time.Duration) (int64, error) {
	return q.MoveBatchJob(ctx, dbsql.MoveBatchJobParams{
		Stage: string(r.Stage), Provider: r.Provider, VendorID: r.VendorID, KeyID: r.Key, SealedState: r.Sealed,
		CancelSeen: r.CancelRequested, AfterSeconds: after.Seconds(), ExpiresAt: r.ExpiresAt, ID: r.ID, Lease: r.Lease,
	})
}

// Finish implements batchjob.Store.
func (b *BatchJobs) Finish(ctx context.Context, r batchjob.Row, files []file.File) (bool, error) {
	err := pgdb.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		n, err := moveJob(ctx, q, &r, 0)
		if err == nil && n == 0 {
			err = errUnchanged
		}
		if err != nil {
			return err
		}
		for _, f := range files {
			if _, err := q.CompleteFile(ctx, dbsql.CompleteFileParams{Size: f.Size, ExpiresAt: f.ExpiresAt, ID: f.ID}); err != nil {
				return err
			}
		}
		if err := q.DropErasedResults(ctx, dbsql.DropErasedResultsParams{Ids: idsOf(files), JobID: r.ID}); err != nil {
			return err
		}
		return q.ReleaseBatchReservation(ctx, r.Reservation)
	})
	return changed("finish batch", err)
}

func idsOf(files []file.File) []string {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.ID
	}
	return ids
}

// Get implements batchjob.Store.
func (b *BatchJobs) Get(ctx context.Context, s batchjob.Scope, f batchjob.Form, id string, now time.Time) (batchjob.Row, bool, error) {
	found, err := dbsql.New(b.pool).GetBatchJob(ctx, dbsql.GetBatchJobParams{
		ID: id, OrganizationID: s.Organization, OwnerID: s.Owner, Form: string(f), Now: now,
	})
	return oneJob("get batch", found, err)
}

// List implements batchjob.Store.
func (b *BatchJobs) List(ctx context.Context, s batchjob.Scope, f batchjob.Form, p batchjob.Page, now time.Time) ([]batchjob.Row, error) {
	if p.Before != "" {
		found, err := dbsql.New(b.pool).ListNewerBatchJobs(ctx, dbsql.ListNewerBatchJobsParams{
			OrganizationID: s.Organization, OwnerID: s.Owner, Form: string(f), Now: now, NewerThan: p.Before, Count: int32(p.Limit),
		})
		return jobRows(found, err)
	}
	found, err := dbsql.New(b.pool).ListBatchJobs(ctx, dbsql.ListBatchJobsParams{
		OrganizationID: s.Organization, OwnerID: s.Owner, Form: string(f), Now: now, OlderThan: p.After, Count: int32(p.Limit),
	})
	return jobRows(found, err)
}

// jobRows returns the rows of a list.
func jobRows[R dbsql.ListBatchJobsRow | dbsql.ListNewerBatchJobsRow](found []R, err error) ([]batchjob.Row, error) {
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	rows := make([]batchjob.Row, len(found))
	for i, row := range found {
		rows[i] = jobRow(dbsql.GetBatchJobRow(row))
	}
	return rows, nil
}

// Cancel implements batchjob.Store.
func (b *BatchJobs) Cancel(ctx context.Context, s batchjob.Scope, id string) error {
	_, err := dbsql.New(b.pool).CancelBatchJob(ctx, dbsql.CancelBatchJobParams{ID: id, OrganizationID: s.Organization, OwnerID: s.Owner})
	if err != nil {
		return fmt.Errorf("cancel batch: %w", err)
	}
	return nil
}

// Delete implements batchjob.Store.
func (b *BatchJobs) Delete(ctx context.Context, s batchjob.Scope, id string, now time.Time) (bool, error) {
	q := dbsql.New(b.pool)
	n, err := q.HideBatchJob(ctx, dbsql.HideBatchJobParams{Now: now, ID: id, OrganizationID: s.Organization, OwnerID: s.Owner})
	if err == nil && n == 0 {
		n, err = q.DeleteBatchJob(ctx, dbsql.DeleteBatchJobParams{ID: id, OrganizationID: s.Organization, OwnerID: s.Owner})
	}
	if err != nil {
		return false, fmt.Errorf("delete batch: %w", err)
	}
	return n > 0, nil
}

// HasVendorBatch implements batchjob.Store.
func (b *BatchJobs) HasVendorBatch(ctx context.Context, provider, id string) (bool, error) {
	has, err := dbsql.New(b.pool).HasVendorBatch(ctx, dbsql.HasVendorBatchParams{Provider: provider, VendorID: id})
	if err != nil {
		return false, fmt.Errorf("look up a vendor's batch: %w", err)
	}
	return has, nil
}

// Drop implements batchjob.Store.
func (b *BatchJobs) Drop(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := dbsql.New(b.pool).DropBatchJobs(ctx, dbsql.DropBatchJobsParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop batches: %w", err)
	}
	return int(n), nil
}

// Erase implements batchjob.Store.
func (b *BatchJobs) Erase(ctx context.Context, organization string, until time.Time) error {
	err := pgdb.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.EndErasedBatchJobs(ctx, dbsql.EndErasedBatchJobsParams{OrganizationID: organization, Before: until}); err != nil {
			return err
		}
		return q.EraseBatchJobs(ctx, dbsql.EraseBatchJobsParams{OrganizationID: organization, Before: until})
	})
	if err != nil {
		return fmt.Errorf("erase batches: %w", err)
	}
	return nil
}
