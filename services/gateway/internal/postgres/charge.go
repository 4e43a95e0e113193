package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/feed"
)

// Charges implements ledger.Feed. It waits as List does.
func (l *Ledger) Charges(ctx context.Context, f ledger.Filter, after feed.Position, limit int) (ledger.ChargePage, error) {
	page, err := l.charges(ctx, f, after, limit)
	if err != nil {
		return ledger.ChargePage{}, fmt.Errorf("list charges: %w", err)
	}
	return page, nil
}

func (l *Ledger) charges(ctx context.Context, f ledger.Filter, after feed.Position, limit int) (ledger.ChargePage, error) {
	if err := awaitEntries(ctx, l.pool); err != nil {
		return ledger.ChargePage{}, err
	}
	if err := l.awaitListed(ctx, f.Organization); err != nil {
		return ledger.ChargePage{}, fmt.Errorf("await transactions in progress: %w", err)
	}
	ended, err := l.horizon(ctx, after)
	if err != nil {
		return ledger.ChargePage{}, err
	}
	if after, err = l.start(ctx, f, after); err != nil {
		return ledger.ChargePage{}, err
	}
	end, err := l.endTransaction(ctx, f)
	if err != nil {
		return ledger.ChargePage{}, err
	}
	rows, err := dbsql.New(l.pool).ListCharges(ctx, dbsql.ListChargesParams{
		AfterTxid: strconv.FormatUint(after.Transaction, 10), AfterSeq: after.Row, BeforeTxid: end,
		OrganizationID: f.Organization, Since: optionalTime(f.Since), Until: optionalTime(f.Until), PageSize: int32(limit),
	})
	if err != nil {
		return ledger.ChargePage{}, err
	}
	page := ledger.ChargePage{Charges: make([]ledger.Charge, len(rows)), Next: after}
	for i := range rows {
		if page.Charges[i], err = charge(&rows[i]); err != nil {
			return ledger.ChargePage{}, err
		}
		page.Next = page.Charges[i].Position
	}
	if len(rows) < limit && ended.Compare(page.Next) > 0 {
		page.Next = ended
	}
	return page, nil
}

// errAhead reports a position that this database has not reached: it was restored from a backup, or it is another one.
// Charges would be skipped.
var errAhead = errors.New("the position is ahead of the database's transactions")

// horizon returns the position behind all transactions that have ended and before all others.
func (l *Ledger) horizon(ctx context.Context, after feed.Position) (feed.Position, error) {
	row, err := dbsql.New(l.pool).Horizon(ctx)
	if err != nil {
		return feed.Position{}, fmt.Errorf("find transactions in progress: %w", err)
	}
	oldest, err := strconv.ParseUint(row.Oldest, 10, 64)
	if err != nil {
		return feed.Position{}, fmt.Errorf("transaction id: %w", err)
	}
	next, err := strconv.ParseUint(row.Next, 10, 64)
	switch {
	case err != nil:
		return feed.Position{}, fmt.Errorf("transaction id: %w", err)
	case after.Transaction >= next:
		return feed.Position{}, errAhead
	}
	return feed.Position{Transaction: oldest - 1, Row: math.MaxInt64}, nil
}

// start returns where to begin instead of the beginning of the ledger, if the filter leaves out what is old.
func (l *Ledger) start(ctx context.Context, f ledger.Filter, after feed.Position) (feed.Position, error) {
	if after != (feed.Position{}) || f.Since.IsZero() {
		return after, nil
	}
	ended, err := l.horizon(ctx, after)
	if err != nil {
		return feed.Position{}, err
	}
	recorded, _, err := l.bisectTransactions(ctx, f.Since.Add(-early), ended.Transaction)
	switch {
	case err != nil:
		return feed.Position{}, fmt.Errorf("find the first entry: %w", err)
	case recorded == 0:
		return feed.Position{}, nil
	}
	return feed.Position{Transaction: recorded, Row: math.MaxInt64}, nil
}

// endTransaction returns the transaction before which a list may stop, since it and all later ones recorded after
// f.Until. It is the text of an xid8, the highest one if the filter has no end.
func (l *Ledger) endTransaction(ctx context.Context, f ledger.Filter) (string, error) {
	end := uint64(math.MaxUint64)
	if from := f.Until.Add(early); !f.Until.IsZero() && time.Since(from) > 0 {
		ended, err := l.horizon(ctx, feed.Position{})
		if err != nil {
			return "", err
		}
		if _, end, err = l.bisectTransactions(ctx, from, ended.Transaction+1); err != nil {
			return "", fmt.Errorf("find the last entry: %w", err)
		}
	}
	return strconv.FormatUint(end, 10), nil
}

// early bounds how long before it got its number a transaction may have begun. Entries carry the time at which their
// transaction began. No append takes this long.
const early = time.Hour

// bisectTransactions finds two neighbouring transactions: before is the last one that recorded before a time, or 0; from
// is the next one, or last. An entry has the time at which its transaction began, which may be up to early before the
// transaction got its number. So every transaction up to before recorded before the time plus early, and every one from
// from on at the time minus early or later. It bisects, because a filter on the time would read the whole ledger.
func (l *Ledger) bisectTransactions(ctx context.Context, at time.Time, last uint64) (before, from uint64, err error) {
	queries := dbsql.New(l.pool)
	for from = last; from-before > 1; {
		middle := before + (from-before)/2
		row, err := queries.RecordedFrom(ctx, strconv.FormatUint(middle, 10))
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !row.RecordedAt.Before(at) {
			from = middle
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		found, err := strconv.ParseUint(row.Position, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("transaction id: %w", err)
		}
		if found >= from {
			break // No entry is between middle and from: all below from were recorded before the time.
		}
		before = found
	}
	return before, from, nil
}

func charge(r *dbsql.ListChargesRow) (ledger.Charge, error) {
	transaction, err := strconv.ParseUint(r.Position, 10, 64)
	if err != nil {
		return ledger.Charge{}, fmt.Errorf("transaction id: %w", err)
	}
	return ledger.Charge{
		ID: r.ID, Organization: r.OrganizationID, Key: r.KeyID,
		Prompt: r.PromptTokens, Completion: r.CompletionTokens, Cost: price.Pico(r.CostPicoUsd),
		StartedAt: r.StartedAt, RecordedAt: r.RecordedAt,
		Position: feed.Position{Transaction: transaction, Row: r.Seq.Int64},
	}, nil
}
